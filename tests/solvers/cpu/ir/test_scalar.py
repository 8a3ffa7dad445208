"""Every scalar function of a nest has code, which agrees with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import SLOPES, Access, Call, Load, Nest, Tensor, index, numpy_dtype
from skipjack.core.nest import BINARY, REDUCTIONS, UNARY
from skipjack.native import IRWriter, VectorType
from skipjack.solvers.cpu.ir import identity, step
from skipjack.solvers.cpu.ir.functions import FUNCTIONS
from skipjack.solvers.cpu.nest import Schedule
from skipjack.solvers.cpu.nest_code.kernel import generate
from skipjack.testing.interpreter import interpret

Runner = Callable[..., npt.NDArray[Any]]
VALUES = np.array([0.0, -0.0, 1.0, -1.5, 2.0, 1e-3, np.inf, -np.inf, np.nan, 3.25, -7.0])
EXACT = [*sorted((UNARY - FUNCTIONS) | (BINARY - SLOPES)), "relu_backward"]
TINY_AND_HUGE = {"f32": [1e-40, -1e-45, 3e38], "f64": [1e-310, -5e-324, 1.7e308]}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", EXACT)
def test_a_step_gives_what_numpy_gives_for_special_values_too(
    run_ir: Runner, name: str, dtype: str
) -> None:
    operands = 1 if name in UNARY else 2
    values = np.r_[VALUES, TINY_AND_HUGE[dtype]]
    pairs = np.array(np.meshgrid(values, values)).reshape(2, -1).astype(numpy_dtype(dtype))
    count = pairs.shape[1]
    access = [Access(Tensor(f"x{at}", (count,)), (index("i"),)) for at in range(operands)]
    nest = Nest(
        loops=(("i", count),),
        inputs=tuple(access),
        output=Access(Tensor("y", (count,)), (index("i"),)),
        body=Call(name, tuple(Load(at) for at in range(operands))),
    )
    inputs = list(pairs[:operands])
    with np.errstate(all="ignore"):
        expected = interpret(nest, inputs)
    result = run_ir(generate(nest, Schedule.parse("i:16 i/v"), dtype, 8), dtype, inputs, (count,))
    np.testing.assert_array_equal(result, expected)


STEPS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
def test_an_identity_changes_nothing(reduction: str) -> None:
    for value in (-1.5, 0.0, 7.0, np.inf, -np.inf, np.nan):
        np.testing.assert_equal(STEPS[reduction](identity(reduction), value), value)


def reduction_nest(reduction: str, columns: int) -> Nest:
    return Nest(
        loops=(("i", 4), ("r", columns)),
        inputs=(Access(Tensor("x", (4, columns)), (index("i"), index("r"))),),
        output=Access(Tensor("y", (4,)), (index("i"),)),
        body=Load(0),
        reduction=reduction,
    )


@pytest.mark.parametrize("schedule", ["i r/v", "i r", "r:9 i r/v", "i r:16/a r/v", "r:16 i/u r/v"])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0, 2.5])
@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
def test_a_reduction_gives_what_numpy_gives_for_special_values_too(
    run_ir: Runner, reduction: str, special: float, schedule: str
) -> None:
    nest = reduction_nest(reduction, 37)
    for at in (0, 17, 36):
        x = np.random.default_rng(at).uniform(-1.5, 1.5, (4, 37))
        x[1, at] = special
        x[2] = -np.abs(x[2])
        result = run_ir(generate(nest, Schedule.parse(schedule), "f64", 8), "f64", [x], (4,))
        expected = STEPS[reduction].reduce(x, axis=1)
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)


def test_an_unknown_step_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="tangent"):
        step(IRWriter(), VectorType("f32", 4), "tangent", ["%a"])
