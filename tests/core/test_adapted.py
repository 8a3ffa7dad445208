"""Configs of other problems in a space: the nearest legal ones."""

import pytest

from skipjack.core import Config, Parameter, ParameterSpace, adapted

SPACE = ParameterSpace(
    [
        Parameter("block", (64, 128, 300)),
        Parameter("share", (0.0, 0.5, 1.0)),
        Parameter("order", ("rows", "columns")),
        Parameter("packs", (False, True)),
    ],
    ["packs or block < 300"],
)
HERE = {"block": 128, "share": 0.5, "order": "rows", "packs": False}


def test_a_legal_config_is_itself() -> None:
    config = Config(HERE)
    assert adapted(SPACE, config) is config


@pytest.mark.parametrize(
    ("block", "near"), [(80, 64), (100, 128), (1, 64), (200, 300), (9999, 300)]
)
def test_a_missing_number_becomes_the_nearest_in_ratio(block: int, near: int) -> None:
    assert adapted(SPACE, Config(HERE | {"block": block, "packs": True})) == Config(
        HERE | {"block": near, "packs": True}
    )


def test_numbers_that_are_not_all_positive_are_compared_by_difference() -> None:
    found = adapted(SPACE, Config(HERE | {"share": 0.8}))
    assert found == Config(HERE | {"share": 1.0})


def test_a_constraint_changes_few_other_settings() -> None:
    found = adapted(SPACE, Config(HERE | {"block": 5000}))
    assert found is not None
    assert SPACE.contains(found)
    assert found["order"] == "rows"


@pytest.mark.parametrize(
    "other",
    [HERE | {"order": "diagonals"}, HERE | {"more": 1}, {"block": 64}, HERE | {"packs": 1}],
)
def test_what_has_no_near_config_has_none(other: dict[str, int | float | str | bool]) -> None:
    assert adapted(SPACE, Config(other)) is None
