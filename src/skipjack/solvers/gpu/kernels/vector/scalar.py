"""Scalar functions of vector kernels by name, in float32 or float64.

The name is a constant of the kernel, so that one kernel serves all operations. `NARROW` says that
results are rounded to 16 bits: shorter formulas then suffice, and memory remains the bottleneck.
"""

import triton
import triton.language as tl

_ALL = tl.constexpr(tl.PropagateNan.ALL)
_LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def widened(x):
    """Convert to the accumulation type: float32, unless the value is float64."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@triton.jit
def inverse(x, NARROW: tl.constexpr):
    """``1 / x`` of a positive number; the short form does not handle extreme values."""
    if NARROW:
        root = tl.rsqrt(x)
        return root * root
    else:
        return 1.0 / x


@triton.jit
def exp(x, NARROW: tl.constexpr):
    """exp; the hardware's exp2 errs in proportion to its exponent, so the remainder is added."""
    if NARROW or x.dtype == tl.float64:
        return tl.exp(x)
    else:
        whole = x * _LOG2E
        rest = tl.fma(x, 1.4426950216293335, -whole) + x * 1.925963033500888e-8
        rest = tl.where(tl.abs(whole) < 256.0, rest, 0.0)
        power = tl.exp2(whole)
        return tl.fma(power * 0.6931471805599453, rest, power)


@triton.jit
def tanh(x, NARROW: tl.constexpr):
    """tanh; near 0 a polynomial, because one minus a quotient would cancel."""
    square = x * x
    if x.dtype == tl.float64:
        small = tl.abs(x) < 0.02
        inner = 2.0 / 15 + square * (-17.0 / 315 + square * (62.0 / 2835))
        near = x + x * square * (-1.0 / 3 + square * inner)
    else:
        small = tl.abs(x) < 0.625
        inner = 1.33314422036e-1 + square * (
            -5.37397155531e-2 + square * (2.06390887954e-2 - square * 5.70498872745e-3)
        )
        near = x + x * square * (-3.33332819422e-1 + square * inner)
    far = 1.0 - 2.0 * inverse(exp(2.0 * tl.abs(x), NARROW) + 1.0, NARROW)
    return tl.where(small, near, tl.where(x < 0, -far, far))


@triton.jit
def gelu(x, NARROW: tl.constexpr):
    """``x * (1 + erf(x / sqrt(2))) / 2``.

    The short form is ``max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2`` with erfc by Abramowitz and
    Stegun's 7.1.26, whose error is 1.5e-7: a third of the instructions of erf.
    """
    if NARROW:
        size = tl.abs(x)
        t = inverse(1.0 + 0.23164189 * size, True)
        inner = 0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)
        inner = 0.127414796 + t * (-0.142248368 + t * inner)
        tail = inner * t * tl.exp2(x * x * -0.7213475204444817)
        return tl.maximum(x, 0.0) - size * tail
    else:
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def unary(NAME: tl.constexpr, NARROW: tl.constexpr, x):
    """A function of one number; an empty name is the identity."""
    if NAME == "":
        return x
    elif NAME == "neg":
        return -x
    elif NAME == "abs":
        return tl.abs(x)
    elif NAME == "square":
        return x * x
    elif NAME == "sqrt":
        return tl.sqrt(x) if x.dtype == tl.float64 else tl.sqrt_rn(x)
    elif NAME == "reciprocal":
        return 1.0 / x
    elif NAME == "rsqrt":
        return tl.rsqrt(x)
    elif NAME == "relu":
        return tl.maximum(x, 0.0, propagate_nan=_ALL)
    elif NAME == "exp":
        return exp(x, NARROW)
    elif NAME == "log":
        return tl.log(x)
    elif NAME == "tanh":
        return tanh(x, NARROW)
    elif NAME == "erf":
        return tl.erf(x)
    elif NAME == "sigmoid":
        return inverse(1.0 + exp(-x, NARROW), NARROW)
    elif NAME == "silu":
        return x * inverse(1.0 + exp(-x, NARROW), NARROW)
    elif NAME == "gelu":
        return gelu(x, NARROW)
    else:
        tl.static_assert(NAME == "gelu_tanh", "no such function of one number")
        inner = 1.5957691216057308 * x * (1.0 + 0.044715 * x * x)
        return x * inverse(1.0 + exp(-inner, NARROW), NARROW)


@triton.jit
def _slope(NAME: tl.constexpr, x):
    """The derivative of an activation: at its result for the first two, else at its input."""
    if NAME == "sigmoid_backward":
        return x * (1.0 - x)
    elif NAME == "tanh_backward":
        return 1.0 - x * x
    elif NAME == "silu_backward":
        gate = 1.0 / (1.0 + exp(-x, False))
        return gate * (1.0 + x * (1.0 - gate))
    elif NAME == "gelu_backward":
        below = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
        return below + x * 0.3989422804014327 * exp(x * x * -0.5, False)
    else:
        tl.static_assert(NAME == "gelu_tanh_backward", "no such function of two numbers")
        gate = 1.0 / (1.0 + exp(-1.5957691216057308 * x * (1.0 + 0.044715 * x * x), False))
        steep = 1.5957691216057308 * x * (1.0 + 0.134145 * x * x)
        return gate + gate * (1.0 - gate) * steep


@triton.jit
def binary(NAME: tl.constexpr, x, y):
    """A function of two numbers."""
    if NAME == "add":
        return x + y
    elif NAME == "sub":
        return x - y
    elif NAME == "mul":
        return x * y
    elif NAME == "div":
        return x / y if x.dtype == tl.float64 else tl.div_rn(x, y)
    elif NAME == "max":
        return tl.maximum(x, y, propagate_nan=_ALL)
    elif NAME == "min":
        return tl.minimum(x, y, propagate_nan=_ALL)
    elif NAME == "relu_backward":
        return tl.where(y <= 0.0, 0.0, x)
    else:
        return x * _slope(NAME, y)


@triton.jit
def _larger(x, y):
    return tl.maximum(x, y, propagate_nan=_ALL)


@triton.jit
def _smaller(x, y):
    return tl.minimum(x, y, propagate_nan=_ALL)


@triton.jit
def _product(x, y):
    return x * y


@triton.jit
def joined(NAME: tl.constexpr, x, y):
    """Combine two partial results of a reduction."""
    if NAME == "sum":
        return x + y
    elif NAME == "max":
        return _larger(x, y)
    elif NAME == "min":
        return _smaller(x, y)
    else:
        return x * y


@triton.jit
def reduced(NAME: tl.constexpr, x, AXIS: tl.constexpr):
    """Reduce a block along one axis; max and min propagate NaN."""
    if NAME == "sum":
        return tl.sum(x, AXIS)
    elif NAME == "max":
        return tl.reduce(x, AXIS, _larger)
    elif NAME == "min":
        return tl.reduce(x, AXIS, _smaller)
    else:
        return tl.reduce(x, AXIS, _product)
