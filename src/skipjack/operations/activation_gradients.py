"""Gradients of activations, element by element: ``gelu_backward:1024x1024``.

``out`` is the gradient ``dy`` of an activation's result times the slope of the activation. That of
relu, sigmoid and tanh is computed from the result ``y``, the others from the input ``x``.

In PyTorch these are ``aten::threshold_backward`` (with a threshold of 0), ``sigmoid_backward``,
``tanh_backward``, ``silu_backward`` and ``gelu_backward``, whose ``approximate="tanh"`` is
``gelu_tanh_backward`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np

from skipjack.core import Array, Problem, Tensor
from skipjack.operations.attributes import refuse_unknown
from skipjack.operations.elementwise import Elementwise
from skipjack.operations.error_function import erf


@dataclass(frozen=True)
class ActivationGradient(Elementwise):
    """``out = dy * slope(x)`` or ``dy * slope(y)``; all arrays have one shape."""

    second: str = "x"
    """The name of the argument of the slope."""
    size: Callable[[Any], Any] = abs
    """The sum of the magnitudes of the slope's terms, using only operators."""

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        refuse_unknown(attributes, (), where)
        return ()

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        """The gradient, and the argument of the slope."""
        return Tensor("dy", problem.shape), Tensor(self.second, problem.shape)

    def scale(self, result: Any, inputs: Sequence[Any]) -> Any:
        """The errors of the slope are those of its terms."""
        dy, other = inputs
        return abs(dy) * self.size(other)


def _times(dy: Array, slope: Array, out: Array | None) -> Array:
    result: Array = np.multiply(dy, slope, out=out)
    return result


def _relu(dy: Array, y: Array, out: Array | None = None) -> Array:
    result: Array = np.where(y <= 0, dy.dtype.type(0), dy)
    if out is None:
        return result
    out[...] = result
    return out


def _sigmoid(dy: Array, y: Array, out: Array | None = None) -> Array:
    return _times(dy, y * (1 - y), out)


def _tanh(dy: Array, y: Array, out: Array | None = None) -> Array:
    return _times(dy, 1 - y * y, out)


def _gate(x: Array) -> Array:
    """``sigmoid(x)``, computed with an exponential that cannot overflow."""
    small = np.exp(-np.abs(x))
    gate: Array = np.where(x < 0, small, 1) / (1 + small)
    return gate


def _silu(dy: Array, x: Array, out: Array | None = None) -> Array:
    gate = _gate(x)
    return _times(dy, gate * (1 + x * (1 - gate)), out)


def _gelu(dy: Array, x: Array, out: Array | None = None) -> Array:
    density = np.exp(-0.5 * x * x) * x.dtype.type(1 / sqrt(2 * pi))
    return _times(dy, 0.5 * (1 + erf(x * sqrt(0.5))) + x * density, out)


def _gelu_tanh(dy: Array, x: Array, out: Array | None = None) -> Array:
    outer = 2 * sqrt(2 / pi)
    gate = _gate(outer * x * (1 + 0.044715 * x * x))
    steep = outer * x * (1 + 3 * 0.044715 * x * x)
    return _times(dy, gate + gate * (1 - gate) * steep, out)


ACTIVATION_GRADIENTS = (
    ActivationGradient("relu_backward", _relu, 2, second="y", size=lambda y: 1.0 * (y > 0)),
    ActivationGradient(
        "sigmoid_backward", _sigmoid, 2, steps=3, second="y", size=lambda y: abs(y) * (1 + abs(y))
    ),
    ActivationGradient("tanh_backward", _tanh, 2, steps=3, second="y", size=lambda y: 1 + y * y),
    # For negative x these are small differences of terms, whose errors exceed the result's own.
    ActivationGradient(
        "silu_backward",
        _silu,
        2,
        domain=(-8.0, 8.0),
        steps=8,
        error_eps=4.0,
        size=lambda x: 1 + abs(x),
    ),
    ActivationGradient(
        "gelu_backward",
        _gelu,
        2,
        domain=(-5.0, 5.0),
        steps=11,
        error_eps=4.0,
        size=lambda x: 1 + abs(x),
    ),
    ActivationGradient(
        "gelu_tanh_backward",
        _gelu_tanh,
        2,
        domain=(-5.0, 5.0),
        steps=17,
        error_eps=4.0,
        size=lambda x: 1 + abs(x),
    ),
)
