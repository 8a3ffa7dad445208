"""Every scalar function of a nest has code, and it does what NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core.nest import BINARY, REDUCTIONS, UNARY, Access, Call, Load, Nest, Tensor, index
from skipjack.core.problem import DTYPES
from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.codegen import generate
from skipjack.solvers.loops.functions import FUNCTIONS
from skipjack.solvers.loops.scalar import combine, identity, step
from skipjack.solvers.loops.schedule import Schedule
from skipjack.testing.interpreter import interpret

Runner = Callable[..., npt.NDArray[Any]]
VALUES = np.array([0.0, -0.0, 1.0, -1.5, 2.0, 1e-3, np.inf, -np.inf, np.nan, 3.25, -7.0])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted((UNARY - FUNCTIONS) | BINARY))
def test_a_step_gives_what_numpy_gives_for_special_values_too(
    run_ir: Runner, name: str, dtype: str
) -> None:
    operands = 1 if name in UNARY else 2
    pairs = np.array(np.meshgrid(VALUES, VALUES)).reshape(2, -1).astype(DTYPES[dtype])
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


@pytest.mark.parametrize("reduction", sorted(REDUCTIONS))
def test_an_identity_changes_nothing(run_ir: Runner, reduction: str) -> None:
    for value in (-1.5, 0.0, 7.0, -np.inf):
        functions = {"sum": np.add, "max": np.maximum}
        assert functions[reduction](identity(reduction), value) == value
    assert combine(IRWriter(), VectorType("f32", 4), reduction, "%a", "%b").startswith("%")


def test_an_unknown_step_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="tangent"):
        step(IRWriter(), VectorType("f32", 4), "tangent", ["%a"])
