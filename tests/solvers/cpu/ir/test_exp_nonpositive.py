"""The exponential of a softmax: its error and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import numpy_dtype
from skipjack.native import IRWriter, VectorType, function
from skipjack.solvers.cpu.ir import exp_nonpositive
from skipjack.solvers.cpu.ir.functions import ERROR_EPS

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
LEAST = {"f32": -87.3, "f64": -708.3}


def apply(run_ir: Runner, x: Array, dtype: str) -> Array:
    """Eight values at a time."""
    w, vector = IRWriter(), VectorType(dtype, 8)
    width = 8 * vector.item_bytes
    places = [w.advance("%slots", 8 * slot) for slot in (0, 1)]
    pointers = [w.value(f"load ptr, ptr {place}, align 8") for place in places]

    def body(_: str, at: list[str]) -> list[str]:
        w.store(vector, exp_nonpositive(w, vector, w.load(vector, at[0])), at[1])
        return [w.advance(p, width) for p in at]

    w.loop(x.size // 8, [("ptr", p) for p in pointers], body)
    w.emit("ret void")
    text = function(w, "void @kernel(ptr %slots)", 8 * width)
    declared = "\n".join([*w.declarations, text])
    return run_ir(declared, dtype, [x.astype(numpy_dtype(dtype))], x.shape)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_error_is_small_near_0_and_grows_with_the_argument(run_ir: Runner, dtype: str) -> None:
    x = np.linspace(LEAST[dtype], 0.0, 1 << 16).astype(numpy_dtype(dtype))
    result = apply(run_ir, x, dtype).astype(np.longdouble)
    exact = np.exp(x.astype(np.longdouble))
    eps = np.finfo(numpy_dtype(dtype)).eps
    error = np.abs(result - exact) / exact / eps
    assert (error <= ERROR_EPS - x.astype(np.longdouble)).all()
    assert error[x > -1.0].max() <= ERROR_EPS


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_ends_are_exact(run_ir: Runner, dtype: str) -> None:
    x = np.array([0.0, -0.0, -np.inf, np.nan, -1e30, LEAST[dtype] - 1.0, -1e4, -0.0])
    result = apply(run_ir, x, dtype)
    np.testing.assert_array_equal(result, [1.0, 1.0, 0.0, np.nan, 0.0, 0.0, 0.0, 1.0])
