"""Operands of different shapes: NumPy's rules, one key for each meaning, few loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skipjack.core import DirectCall, Nest, NestOperation
from skipjack.errors import ProblemError
from skipjack.operations import bytes_moved, get, is_padded, parse, tensors
from skipjack.operations.elementwise import broadcast_shape, without_leading_ones
from skipjack.testing.interpreter import interpret

Array = npt.NDArray[Any]
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)
SHAPE = st.lists(st.sampled_from((1, 1, 2, 3, 5)), min_size=1, max_size=5).map(tuple)


@st.composite
def shape_pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that agree: cuts of one shape with some sizes put to 1."""
    whole = draw(SHAPE)
    shapes = []
    for _ in range(2):
        cut = whole[draw(st.integers(0, len(whole) - 1)) :]
        shapes.append(tuple(draw(st.sampled_from((1, size))) for size in cut))
    return shapes[0], shapes[1]


def text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def nest_of(key: str) -> Nest:
    problem = parse(key)
    operation = get(problem.operation)
    assert isinstance(operation, NestOperation)
    return operation.nest(problem)


@REPEATABLE
@given(shape_pairs(), st.sampled_from(BINARY))
def test_any_two_shapes_that_agree_are_combined_as_numpy_does(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], name: str
) -> None:
    problem = parse(f"{name}:{text(shapes[0])}/y={text(shapes[1])}:f64")
    operation, rng = get(name), np.random.default_rng(0)
    assert isinstance(operation, NestOperation)
    assert isinstance(operation, DirectCall)
    x, y = (rng.uniform(0.5, 1.5, shape) for shape in shapes)
    expected = operation.function(x, y)  # type: ignore[attr-defined]
    own = {t.name: a.reshape(t.shape) for t, a in zip(tensors(problem), (x, y), strict=False)}
    output = operation.output(problem)
    assert without_leading_ones(output.shape) == without_leading_ones(expected.shape)
    out = np.full(output.shape, np.nan)
    operation.numpy_call(problem, {**own, "out": out})()
    for result in (
        out,
        operation.reference(problem, own),
        interpret(operation.nest(problem), [x, y]),
    ):
        np.testing.assert_array_equal(result.reshape(expected.shape), expected)
    scale = operation.magnitude(problem, own)
    assert scale.shape == output.shape
    assert (scale >= np.abs(out) + np.zeros(output.shape)).all()
    assert operation.flops(problem) == expected.size
    assert bytes_moved(problem) == 8 * (x.size + y.size + expected.size)


@REPEATABLE
@given(shape_pairs(), st.integers(0, 3))
def test_a_key_parses_back_and_leading_ones_of_y_change_nothing(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], ones: int
) -> None:
    first, second = shapes
    problem = parse(f"add:{text(first)}/y={text(second)}")
    assert parse(problem.key) == problem
    assert parse(f"add:{text(first)}/y={text((1,) * ones + second)}") == problem


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("add:8x16/y=8x16", "add:8x16:f32"),
        ("add:8x16/y=1x8x16", "add:8x16:f32"),
        ("add:1x8/y=8", "add:1x8:f32"),
        ("add:64x128x56x56/y=1x128x1x1", "add:64x128x56x56/y=128x1x1:f32"),
        ("mul:32x1x128/y=1x64x1:f64", "mul:32x1x128/y=64x1:f64"),
        ("sub:4096x1024/y=4096x1", "sub:4096x1024/y=4096x1:f32"),
        ("add:8x16x32/y=032", "add:8x16x32/y=32:f32"),
        ("add:8x16/y=1x1", "add:8x16/y=1:f32"),
        ("add:1/y=1x1x1", "add:1:f32"),
        ("add:16/y=8x16", "add:16/y=8x16:f32"),
    ],
)
def test_one_key_for_each_meaning(short: str, full: str) -> None:
    assert parse(short).key == full
    assert parse(short) == parse(full)


@pytest.mark.parametrize(
    ("key", "shape", "loops", "arrays"),
    [
        ("add:4x5x6", (4, 5, 6), (120,), [(120,), (120,)]),
        ("add:4x5x6/y=1", (4, 5, 6), (120,), [(120,), (1,)]),
        ("add:1/y=4x5", (4, 5), (20,), [(1,), (20,)]),
        ("add:1", (1,), (1,), [(1,), (1,)]),
        ("add:2x3x4x5/y=3x1x1", (2, 3, 4, 5), (2, 3, 20), [(2, 3, 20), (3,)]),
        ("add:2x3x4x5/y=4x5", (2, 3, 4, 5), (6, 20), [(6, 20), (20,)]),
        ("add:2x1x3/y=1x3", (2, 1, 3), (2, 3), [(2, 3), (3,)]),
        ("mul:2x1x4/y=3x1", (2, 3, 4), (2, 3, 4), [(2, 4), (3,)]),
        ("mul:5x1/y=7", (5, 7), (5, 7), [(5,), (7,)]),
        ("sub:4x5/y=4x1", (4, 5), (4, 5), [(4, 5), (4,)]),
        ("bias:2x3x5", (2, 3, 5), (6, 5), [(6, 5), (5,)]),
        ("scale:7", (7,), (7,), [(7,), (7,)]),
    ],
)
def test_neighbouring_axes_that_behave_alike_are_one_loop(
    key: str, shape: tuple[int, ...], loops: tuple[int, ...], arrays: list[tuple[int, ...]]
) -> None:
    nest = nest_of(key)
    problem = parse(key)
    assert get(problem.operation).output(problem).shape == shape
    assert tuple(extent for _, extent in nest.loops) == loops
    assert [access.tensor.shape for access in nest.inputs] == arrays


@REPEATABLE
@given(shape_pairs())
def test_the_last_loop_is_contiguous_for_everyone_or_stands_still(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    nest = nest_of(f"add:{text(shapes[0])}/y={text(shapes[1])}")
    last, _ = nest.loops[-1]
    assert nest.output.stride(last) == 1
    assert {access.stride(last) for access in nest.inputs} <= {0, 1}


def test_many_axes_that_alternate_have_loops_of_their_own() -> None:
    x, y = (text(tuple(1 + (at % 2 == own) for at in range(24))) for own in (0, 1))
    nest = nest_of(f"add:{x}/y={y}")
    assert len({name for name, _ in nest.loops}) == 24
    assert nest.inputs[0].tensor.size == nest.inputs[1].tensor.size == 2**12


def test_bias_and_scale_are_add_and_mul_along_the_last_axis() -> None:
    for name, plain in (("bias", "add"), ("scale", "mul")):
        one, other = nest_of(f"{name}:6x5"), nest_of(f"{plain}:6x5/y=5")
        assert (one.loops, one.body, one.output) == (other.loops, other.body, other.output)
        problem = parse(f"{name}:6x5")
        assert [t.name for t in tensors(problem)] == ["x", "v", "out"]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("add:4x5/y=3", "4x5 and 3 cannot be broadcast: their sizes along axis -1 are 5 and 3"),
        ("add:4x5/y=3x5", "4x5 and 3x5 cannot be broadcast: their sizes along axis -2 are 4 and 3"),
        ("add:5/y=4x6", "shapes 5 and 4x6 cannot be broadcast: their sizes along axis -1 are"),
        ("add:4x5/y=0", "at least 1"),
        ("add:4x5/y=-5", "at least 1"),
        ("add:4x5/y=5x", "not a shape"),
        ("add:4x5/y=n4", "not a shape"),
        ("add:4x5/y=" + "x".join("1" * 33), "33 axes"),
        ("add:4/y=" + "9" * 30, "larger than any memory"),
        ("add:999999999x1/y=999999999", "larger than any memory"),
        ("add:4x5/z=5", "unknown attribute 'z'; the attributes are y"),
        ("add:4x5/y=5/y=5", "gives the attribute y twice"),
        ("neg:4x5/y=5", "unknown attribute 'y'; it has no attributes"),
        ("bias:4x5/y=5", "unknown attribute 'y'; it has no attributes"),
    ],
)
def test_shapes_that_do_not_agree_are_refused_in_one_sentence(key: str, says: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse(key)
    assert says in str(caught.value)
    assert key[:40] in str(caught.value)
    assert "\n" not in str(caught.value)


@REPEATABLE
@given(SHAPE, SHAPE)
def test_shapes_agree_exactly_where_numpy_says_so(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    try:
        expected = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(ProblemError):
            broadcast_shape(first, second)
    else:
        assert broadcast_shape(first, second) == expected


@REPEATABLE
@given(SHAPE, st.integers(0, 3))
def test_an_array_may_come_with_leading_axes_of_one_up_to_the_rank_of_the_result(
    shape: tuple[int, ...], ones: int
) -> None:
    assume(shape[0] != 1)
    given_shape = (1,) * ones + shape
    assert is_padded(given_shape, shape, len(shape) + ones)
    assert not is_padded(given_shape, shape, len(given_shape) - 1)
    assert not is_padded((2, *given_shape), shape, 9)
    assert is_padded((), (1,), 3)
    assert not is_padded((), shape, 3)
