"""Slopes of activations in generated code: near the exact ones everywhere, with the right
limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import SLOPES, Access, Call, Load, Nest, Tensor, index, numpy_dtype
from skipjack.operations.activation_gradients import ACTIVATION_GRADIENTS
from skipjack.solvers.cpu.nest import Schedule
from skipjack.solvers.cpu.nest_code.kernel import generate

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
OF_INPUTS = ("silu_backward", "gelu_backward", "gelu_tanh_backward")


def apply(run_ir: Runner, name: str, dy: Array, x: Array, dtype: str) -> Array:
    size = x.size
    access = [Access(Tensor(one, (size,)), (index("i"),)) for one in ("dy", "x", "out")]
    nest = Nest((("i", size),), tuple(access[:2]), access[2], Call(name, (Load(0), Load(1))))
    lanes = 64 // numpy_dtype(dtype).itemsize
    text = generate(nest, Schedule.parse(f"i:{lanes} i/v"), dtype, lanes)
    return run_ir(text, dtype, [one.astype(numpy_dtype(dtype)) for one in (dy, x)], (size,))


def test_every_slope_has_an_operation() -> None:
    assert {operation.name for operation in ACTIVATION_GRADIENTS} == SLOPES


@pytest.mark.parametrize("name", OF_INPUTS)
def test_in_single_precision_they_are_right_to_a_few_eps(run_ir: Runner, name: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 200_001), np.geomspace(1e-38, 1e3, 1000)])
    x = x.astype(np.float32)
    result = apply(run_ir, name, np.ones_like(x), x, "f32").astype(np.float64)
    function = next(one.function for one in ACTIVATION_GRADIENTS if one.name == name)
    wide = np.clip(x.astype(np.float64), -700, 700)
    with np.errstate(over="ignore"):
        exact = function(np.ones_like(wide), wide)
    assert (np.abs(result - exact) <= 4 * np.finfo(np.float32).eps).all()


@pytest.mark.parametrize("name", OF_INPUTS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_far_out_they_are_flat_or_straight(run_ir: Runner, name: str, dtype: str) -> None:
    far = [-np.inf, -1e30, -1000.0, -800.0, 800.0, 1000.0, 1e30, np.inf, np.nan]
    x = np.array([*far, *[0.0] * 7])
    result = apply(run_ir, name, np.full(16, 3.0), x, dtype)
    np.testing.assert_array_equal(result[:9], [0.0] * 4 + [3.0] * 4 + [np.nan])
    np.testing.assert_array_equal(result[9:], 1.5)
