"""Step: the documented sequences, and walks that would never end."""

from collections.abc import Callable
from typing import Any

import pytest

from skipjack.errors import ForeignError, UsageError
from skipjack.search.scripted import Step
from skipjack.testing.scripts import play, values_of


def walk(start: Any, end: Any, update: Callable[[Any], Any]) -> list[Any]:
    return values_of(play(Step("x", start, end, update), lambda point: True), "x")


@pytest.mark.parametrize(
    ("start", "end", "update", "wanted"),
    [
        (1, 4, lambda x: x + 1, [1, 2, 3]),
        (200, 100, lambda x: x - 50, [200, 150]),
        (32, 1024, lambda x: 2 * x, [32, 64, 128, 256, 512]),
        (0.1, 0.4, lambda x: x + 0.1, [0.1, 0.2, 0.30000000000000004]),
        (1.0, 0.125, lambda x: x / 2, [1.0, 0.5, 0.25]),
        ("a", "ccc", lambda x: {"a": "bb", "bb": "ccc"}[x], ["a", "bb"]),
        (5, 6, {5: 3, 3: 9, 9: 6}.__getitem__, [5, 3, 9]),
        ([1], [3], lambda x: [x[0] + 1], [[1], [2]]),
    ],
)
def test_the_end_is_left_out(
    start: Any, end: Any, update: Callable[[Any], Any], wanted: list[Any]
) -> None:
    assert walk(start, end, update) == wanted


@pytest.mark.parametrize(
    ("start", "end", "update", "how"),
    [
        (1, 4, lambda x: x + 2, "after 3 comes 5"),
        (4, 1, lambda x: x - 2, "after 2 comes 0"),
        (0.1, 0.8, lambda x: x + 0.1, "after 0.7999999999999999 comes 0.8999999999999999"),
        (1, 4, lambda x: x, "after 1 it returns to 1"),
        (1, 9, {1: 3, 3: 2, 2: 3}.__getitem__, "after 2 it returns to 3"),
        ([0], [9], lambda x: [1 - x[0]], r"after \[1\] it returns to \[0\]"),
        (None, 4, lambda x: None, "after None it returns to None"),
        (1, 4, lambda x: x - 1, "it is at -9999 after 10000 values"),
    ],
)
def test_a_walk_that_misses_its_end_is_refused_before_its_first_point(
    start: Any, end: Any, update: Callable[[Any], Any], how: str
) -> None:
    step = Step("x", start, end, update)
    with pytest.raises(UsageError, match=f"^Step of 'x' from .* never reaches its end: {how}; "):
        next(step.generate())


def test_its_end_must_differ_from_its_start() -> None:
    with pytest.raises(UsageError, match="Step of 'x' from 3 to 3 has no values"):
        Step("x", 3, 3, lambda x: x + 1)


def test_update_must_be_a_function() -> None:
    with pytest.raises(UsageError, match=r"update of Step of 'x' .* must be a function, not 2"):
        Step("x", 1, 3, 2)  # type: ignore[arg-type]


def test_what_update_raises_is_blamed_on_it() -> None:
    step = Step("x", "a", "b", lambda x: x + 1)
    with pytest.raises(ForeignError, match="update of Step of 'x' from 'a' to 'b' raised TypeErr"):
        next(step.generate())


def test_it_is_static_and_can_be_walked_twice() -> None:
    step = Step("x", 1, 3, lambda x: x + 1)
    assert not step.is_dynamic
    assert [*step.generate()] == [*step.generate()] == [{"x": 1}, {"x": 2}]
