"""Reductions: formulas written a second time, NumPy's calls, NaN, and how errors are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import DirectCall, NestOperation, numpy_dtype
from skipjack.execute import draw_inputs
from skipjack.execute.verification import judge
from skipjack.operations import get, parse
from skipjack.operations.reduce import REDUCTIONS

Array = npt.NDArray[Any]
NAMES = [operation.name for operation in REDUCTIONS]
FORMULAS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "mean": lambda row: sum(row) / len(row),
    "prod": lambda row: float(np.multiply.reduce(row)),
    "max": max,
    "min": min,
    "absmax": lambda row: max(map(abs, row)),
    "sumsq": lambda row: sum(value * value for value in row),
    "norm": lambda row: sum(value * value for value in row) ** 0.5,
}
AXES = ("", "/axis=0", "/axis=1", "/axis=-1", "/axis=0,2", "/axis=-1,0", "/axis=1,2", "/axis=all")


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", NAMES)
def test_a_reduction_is_its_formula_on_every_row(name: str, axis: str) -> None:
    problem = parse(f"{name}:3x4x5{axis}:f64")
    operation = get(name)
    x = np.random.default_rng(0).uniform(-2, 2, (3, 4, 5))
    axes = tuple(map(int, problem.attribute("axis").split(",")))
    rows = np.moveaxis(x, axes, range(len(axes))).reshape(
        np.prod([(3, 4, 5)[at] for at in axes]), -1
    )
    expected = [FORMULAS[name](list(row)) for row in rows.T]
    np.testing.assert_allclose(operation.reference(problem, {"x": x}).ravel(), expected)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("axis", ["", "/axis=0", "/axis=0,2"])
@pytest.mark.parametrize("name", NAMES)
def test_numpys_call_writes_the_reference_into_the_output(name: str, axis: str, dtype: str) -> None:
    problem, operation = parse(f"{name}:3x4x5{axis}:{dtype}"), get(name)
    assert isinstance(operation, DirectCall)
    drawn = draw_inputs(problem, 0)
    out = np.full(operation.output(problem).shape, np.nan, numpy_dtype(dtype))
    operation.numpy_call(problem, {**drawn, "out": out})()
    reference = operation.reference(problem, drawn)
    assert reference.dtype == out.dtype
    np.testing.assert_array_equal(out, reference)


@pytest.mark.parametrize("name", NAMES)
def test_nan_anywhere_is_the_result(name: str) -> None:
    problem = parse(f"{name}:2x9/axis=1:f64")
    x = np.random.default_rng(0).uniform(-1, 1, (2, 9))
    x[1, 4] = np.nan
    result = get(name).reference(problem, {"x": x})
    assert np.isnan(result).tolist() == [False, True]


def test_the_scale_of_a_minimum_is_not_its_smallest_magnitude() -> None:
    x = np.array([1e-9, -0.75, 0.5])
    assert get("min").magnitude(parse("min:3:f64"), {"x": x}).tolist() == [0.75]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", ["64x64/axis=1", "70000"])
def test_numpy_in_single_is_within_the_tolerance_and_wrong_elements_are_not(
    name: str, shape: str
) -> None:
    problem, operation = parse(f"{name}:{shape}"), get(name)
    drawn = draw_inputs(problem, 1)
    exact = {key: array.astype(np.float64) for key, array in drawn.items()}
    reference = operation.reference(problem, exact)
    eps = float(np.finfo(np.float32).eps)
    bound = operation.magnitude(problem, exact) * operation.tolerance(problem).factor * eps
    assert judge(operation.reference(problem, drawn).astype(np.float64), reference, bound).right
    with np.errstate(over="ignore"):
        grown = operation.reference(problem, {"x": exact["x"] * 1.5})
    assert not judge(grown, reference, bound).right


@pytest.mark.parametrize(
    ("key", "loops"),
    [
        ("sum:8x4x5/axis=1,2", (("i0", 8), ("r1", 20))),
        ("sum:8x4x5/axis=0", (("r0", 8), ("i1", 20))),
        ("sum:8x4x5", (("r0", 160),)),
        ("sum:8x1x5/axis=0,2", (("r0", 40),)),
        ("sum:8x1x5/axis=1,2", (("i0", 8), ("r1", 5))),
        ("sum:8x1x5/axis=1", (("i0", 8), ("r1", 1), ("i2", 5))),
        ("sum:1", (("r0", 1),)),
    ],
)
def test_neighbouring_axes_of_one_kind_are_one_loop(
    key: str, loops: tuple[tuple[str, int], ...]
) -> None:
    problem = parse(key)
    operation = get(problem.operation)
    assert isinstance(operation, NestOperation)
    assert operation.nest(problem).loops == loops


def test_a_long_product_stays_in_range() -> None:
    problem = parse("prod:1000000")
    product = get("prod").reference(problem, draw_inputs(problem, 3))
    assert 1e-30 < float(product[0]) < 1e30
