"""Whatever is wrong with a key, for whichever operation: one sentence that names it."""

from __future__ import annotations

import pytest

from skipjack.core import LetteredShape
from skipjack.errors import UsageError
from skipjack.operations import get, names, parse

WRONG_SHAPES = {
    "": "not a shape",
    "0": "at least 1",
    "4x0": "at least 1",
    "-4": "at least 1",
    "4x": "not a shape",
    "4.0": "not a shape",
    "1e3": "not a shape",
    "4X4": "not a shape",
    "4,4": "not a shape",
    "4 x 4": "not a shape",
    "4\x00": "not a shape",
    "9" * 30: "larger than any memory",
    "x".join("2" * 40): "40 axes",
}


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def head(name: str) -> str:
    """The operation and a shape that it takes."""
    return get(name).example.split("/")[0]


@pytest.mark.parametrize("name", names())
def test_a_shape_that_is_none_is_refused(name: str) -> None:
    for shape, says in WRONG_SHAPES.items():
        message = refused(f"{name}:{shape}")
        assert name in message
        assert says in message or isinstance(get(name), LetteredShape), shape


@pytest.mark.parametrize("name", names())
def test_what_follows_the_shape_is_checked(name: str) -> None:
    key = head(name)
    parse(key)
    assert "unknown attribute 'colour'" in refused(f"{key}/colour=red")
    assert "name=value" in refused(f"{key}/")
    assert "name=value" in refused(f"{key}/colour")
    assert "lower-case" in refused(f"{key}/Axis=1")
    assert "gives the attribute colour twice" in refused(f"{key}/colour=1/colour=2")
    what = "dtype, layout or direction" if name.startswith("conv") else "dtype"
    assert f"unknown {what} 'f99'" in refused(f"{key}:f99")
    assert f"unknown {what} ''" in refused(f"{key}:")
    assert f"unknown {what}" in refused(f"{key}:f32/axis=1")
    if what == "dtype":
        assert "attributes come before the dtype" in refused(f"{key}:f32/axis=1")
    assert "nothing else" in refused(f"{key}:f32:nchw:fwd:more")


@pytest.mark.parametrize("name", names())
def test_an_attribute_that_is_too_long_to_read_is_cut(name: str) -> None:
    key = head(name)
    for attribute in ("ta", "alpha", "act", "bias", "axis", "y", "eps", "mode", "colour"):
        refused(f"{key}/{attribute}={'q' * 5000}")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("matmul:8x8", "has 2 sizes but needs 3: matmul:MxNxK"),
        ("matmul:8x8x8x8", "has 4 sizes but needs 3"),
        ("bmm:8x8x8", "has 3 sizes but needs 4: bmm:BxMxNxK"),
        ("matmul:8x8x8/ta=yes", "it must be 0 or 1"),
        ("matmul:8x8x8/alpha=nan", "alpha is 'nan'; it must be a number"),
        ("matmul:8x8x8/beta=1e999", "beta is '1e999'; it must be a number"),
        ("matmul:8x8x8/act=step", "unknown activation 'step'"),
        ("matmul:8x8x8/ta=1/ta=1", "gives the attribute ta twice"),
        ("matmul:99999999x99999999x8", "larger than any memory"),
        ("sum:4x5/axis=2", "axis 2 is out of range"),
        ("max:4x5/axis=0/axis=1", "gives the attribute axis twice"),
        ("sum:8x8/axis=0,0", "axis 0 is given twice; give each axis once"),
        ("sum:8x8/axis=1,-1", "axis -1 is given twice"),
        ("add:4x5/y=4", "cannot be broadcast"),
    ],
)
def test_a_key_that_means_nothing_is_refused(key: str, says: str) -> None:
    message = refused(key)
    assert says in message
    assert key in message


def test_a_factor_of_minus_zero_is_zero() -> None:
    assert parse("matmul:8x8x8/beta=-0").key == "matmul:8x8x8:f32"
