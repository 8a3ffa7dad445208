"""Exponential, logarithm and their kin on vectors: LLVM has no code for them but calls to libm.

Each is straight code without branches and tables: reduce the argument, evaluate a polynomial or a
quotient of two, scale by a power of two made from bits. `ERROR_ULP` states the largest errors, and
they hold for denormals, too. gelu and gelu_tanh may flush theirs: that is far below their bound.
The slopes of activations, for gradients, are right to a few eps of the gradient that they scale.

NaN gives NaN, and infinities give limits, also where a formula written in NumPy would meet
``inf * 0``: ``silu(-inf)``, ``gelu(-inf)`` and ``gelu_tanh(-inf)`` are -0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi, sqrt

from skipjack.native.ir import IRWriter, VectorType
from skipjack.operations.error_function import ERF, ERF_ONE, Quotient
from skipjack.solvers.loops.coefficients import EXP, LOG
from skipjack.solvers.loops.exp_nonpositive import exp_nonpositive
from skipjack.solvers.loops.lanes import Lanes

ERROR_ULP = {
    "exp": {"f32": 1.0, "f64": 1.0},
    "log": {"f32": 1.0, "f64": 1.5},
    "rsqrt": {"f32": 1.5, "f64": 1.5},
    "tanh": {"f32": 3.5, "f64": 3.5},
    "erf": {"f32": 6.0, "f64": 10.0},
    "sigmoid": {"f32": 2.5, "f64": 2.5},
    "silu": {"f32": 3.5, "f64": 3.5},
}
"""Largest errors in units of the last place, on a CPU with fused multiply-add."""
GELU_ERROR_EPS = 3.0
"""Error of gelu and gelu_tanh in eps of ``|x|``: left of 0 they are a small difference of terms."""


_GELU_TANH_LOW = -40.0
"""gelu_tanh of less rounds to -0."""
_LN2 = 0.6931471805599453
_LN2_REST = 2.3190468138462996e-17
"""What a double leaves out of ln 2."""


def _reduce(v: Lanes, x: str, biases: int) -> tuple[str, str]:
    """``x = n * ln 2 + r`` with a small r: gives r, and bits that end in n plus so many biases."""
    # Adding 1.5 * 2**mantissa rounds to an integer, which then stands in the last bits.
    magic = 1.5 * 2.0**v.format.mantissa + biases * v.format.bias
    shifted = v.fma(x, 1 / _LN2, magic)
    n = v.sub(shifted, magic)
    r = v.fma(n, -v.format.ln2_high, x)
    return v.fma(n, v.format.ln2_high - _LN2 - _LN2_REST, r), v.bits(shifted)


def _exp_parts(v: Lanes, x: str) -> tuple[str, str, str]:
    """Three factors of exp: one near 1, two powers of two. Together they reach the denormals."""
    mantissa = v.format.mantissa
    r, bits = _reduce(v, x, 2)
    near_one = v.polynomial(r, (1.0, 1.0, *EXP[v.dtype]))
    half = v.whole("and", v.whole("shl", bits, mantissa - 1), -1 << mantissa)
    rest = v.whole("sub", v.whole("shl", bits, mantissa), half)
    return near_one, v.floats(half), v.floats(rest)


def _exp(v: Lanes, x: str) -> str:
    x = v.at_most(v.at_least(x, v.format.exp_low), v.format.exp_high)
    near_one, half, rest = _exp_parts(v, x)
    return v.mul(v.mul(near_one, half), rest)


def _log(v: Lanes, x: str) -> str:
    """``x = 2**k * (1 + f)`` with ``1 + f`` between the roots of 1/2 and 2."""
    mantissa, bias = v.format.mantissa, v.format.bias
    up, one = mantissa + 1, 2.0**mantissa
    normal = v.select(x, "olt", v.format.smallest, v.mul(x, 2.0**up), x)
    least = v.bits_of(sqrt(0.5))
    bits = v.whole("add", v.bits(normal), v.bits_of(1.0) - least)
    exponent = v.whole("or", v.whole("lshr", bits, mantissa), v.bits_of(one))
    offset = v.select(x, "olt", v.format.smallest, one + bias + up, one + bias)
    k = v.sub(v.floats(exponent), offset)
    fraction = v.whole("and", bits, (1 << mantissa) - 1)
    f = v.sub(v.floats(v.whole("add", fraction, least)), 1.0)
    # One constant for ln 2 is enough: nearest in both types, it is off by less than eps / 6.
    result = v.fma(k, _LN2, (_log1p_f32 if v.dtype == "f32" else _log1p_f64)(v, f))
    result = v.select(x, "olt", inf, result, x)
    return v.select(x, "ogt", 0.0, result, v.select(x, "oeq", 0.0, -inf, nan))


def _log1p_f32(v: Lanes, f: str) -> str:
    square = v.mul(f, f)
    return v.fma(square, v.polynomial(f, (-0.5, *LOG["f32"])), f)


def _log1p_f64(v: Lanes, f: str) -> str:
    """By ``2 * atanh(f / (2 + f))``: a polynomial in f itself would need degree 20."""
    s = v.div(f, v.add(f, 2.0))
    z = v.mul(s, s)
    half_square = v.mul(v.mul(f, 0.5), f)
    tail = v.fma(z, v.polynomial(z, LOG["f64"]), half_square)
    return v.sub(f, v.fma(v.negative(s), tail, half_square))


def _rsqrt(v: Lanes, x: str) -> str:
    return v.div(1.0, v.call("sqrt", x))


def _tanh(v: Lanes, x: str) -> str:
    """``t / (t + 2)`` with ``t = exp(2 * |x|) - 1``, which is exact in relation to small x, too."""
    size = v.at_most(v.call("fabs", x), v.format.tanh_one)
    r, bits = _reduce(v, v.add(size, size), 1)
    power = v.floats(v.whole("shl", bits, v.format.mantissa))
    small = v.mul(r, v.polynomial(r, (1.0, *EXP[v.dtype])))
    t = v.fma(small, power, v.sub(power, 1.0))
    return v.copysign(v.div(t, v.add(t, 2.0)), x)


def _erf(v: Lanes, x: str) -> str:
    return _erf_by(v, x, ERF[v.dtype], ERF_ONE[v.dtype])


def _erf_by(v: Lanes, x: str, quotient: Quotient, one: float) -> str:
    """x times a quotient of polynomials in its square.

    It is just above 1 at `one`, so that bounding it leaves exactly 1 from there on.
    """
    x = v.at_most(v.at_least(x, -one), one)
    z = v.mul(x, x)
    above, below = (v.polynomial(z, part) for part in quotient)
    return v.at_most(v.at_least(v.div(v.mul(x, above), below), -1.0), 1.0)


def _sigmoid(v: Lanes, x: str) -> str:
    """``e / (1 + e)`` or ``1 / (1 + e)`` with ``e = exp(-|x|)``, which does not overflow."""
    away = v.at_least(v.negative(v.call("fabs", x)), v.format.exp_low)
    near_one, half, rest = _exp_parts(v, away)
    e = v.mul(v.mul(near_one, half), rest)
    return v.div(v.select(x, "olt", 0.0, e, 1.0), v.add(e, 1.0))


def _silu(v: Lanes, x: str) -> str:
    """``x * sigmoid(x)``, scaled down last: where e is a denormal, ``x * e`` need not be."""
    x = v.at_least(x, v.format.silu_low)
    away = v.at_least(v.negative(v.call("fabs", x)), v.format.silu_low)
    near_one, half, rest = _exp_parts(v, away)
    scaled = v.mul(near_one, half)
    top = v.mul(x, v.select(x, "olt", 0.0, scaled, 1.0))
    quotient = v.div(top, v.fma(scaled, rest, 1.0))
    return v.mul(quotient, v.select(x, "olt", 0.0, rest, 1.0))


def _gelu(v: Lanes, x: str) -> str:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    x = v.at_least(x, -ERF_ONE[v.dtype] * sqrt(2.0))
    return v.mul(x, v.fma(_erf_of_half(v, x), 0.5, 0.5))


def _erf_of_half(v: Lanes, x: str) -> str:
    """``erf(x / sqrt(2))``, the inner factor put into the coefficients of erf."""
    above, below = (tuple(c * 0.5**at for at, c in enumerate(part)) for part in ERF[v.dtype])
    quotient = tuple(c * sqrt(0.5) for c in above), below
    return _erf_by(v, x, quotient, ERF_ONE[v.dtype] * sqrt(2.0))


def _gelu_tanh(v: Lanes, x: str) -> str:
    """``x / 2 * (1 + tanh(y))`` is ``x / (1 + exp(-2 * y))``; y is cubic in x.

    One power of two is enough here: where it is 0 or infinite, x or -0 are right to eps of x.
    """
    outer, high = -2 * sqrt(2 / pi), v.format.exp_high
    x = v.at_least(x, _GELU_TANH_LOW)
    gate = v.mul(x, v.fma(v.mul(x, x), 0.044715 * outer, outer))
    r, bits = _reduce(v, v.at_most(v.at_least(gate, 1 - high), high), 1)
    power = v.floats(v.whole("shl", bits, v.format.mantissa))
    near_one = v.polynomial(r, (1.0, 1.0, *EXP[v.dtype]))
    return v.div(x, v.fma(near_one, power, 1.0))


def _power(v: Lanes, x: str) -> str:
    """exp of what is never above 0."""
    return exp_nonpositive(v.writer, v.vector, x)


def _relu_backward(v: Lanes, dy: str, y: str) -> str:
    return v.select(y, "ole", 0.0, 0.0, dy)


def _sigmoid_backward(v: Lanes, dy: str, y: str) -> str:
    return v.mul(v.mul(dy, y), v.sub(1.0, y))


def _tanh_backward(v: Lanes, dy: str, y: str) -> str:
    return v.mul(dy, v.fma(v.negative(y), y, 1.0))


def _both_sides(v: Lanes, x: str) -> tuple[str, str]:
    """``sigmoid(x)`` and ``sigmoid(-x)``, from one exponential and one quotient."""
    e = _power(v, v.negative(v.call("fabs", x)))
    large = v.div(1.0, v.add(e, 1.0))
    small = v.mul(e, large)
    return v.select(x, "olt", 0.0, small, large), v.select(x, "olt", 0.0, large, small)


def _silu_backward(v: Lanes, dy: str, x: str) -> str:
    """``s * (1 + x * (1 - s))`` with ``s = sigmoid(x)``."""
    low = v.format.silu_low
    x = v.at_most(v.at_least(x, low), -low)
    s, rest = _both_sides(v, x)
    return v.mul(v.mul(dy, s), v.fma(x, rest, 1.0))


def _gelu_backward(v: Lanes, dy: str, x: str) -> str:
    """``(1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi)``."""
    far = sqrt(-2 * v.format.exp_low)
    x = v.at_most(v.at_least(x, -far), far)
    below = v.fma(_erf_of_half(v, x), 0.5, 0.5)
    density = _power(v, v.mul(v.mul(x, -0.5), x))
    return v.mul(dy, v.fma(v.mul(x, 1 / sqrt(2 * pi)), density, below))


def _gelu_tanh_backward(v: Lanes, dy: str, x: str) -> str:
    """``s + x * s * (1 - s) * gate'`` with ``s = sigmoid(gate(x))``, as gelu_tanh is ``x * s``."""
    outer, cubic = 2 * sqrt(2 / pi), 0.044715
    x = v.at_most(v.at_least(x, _GELU_TANH_LOW), -_GELU_TANH_LOW)
    square = v.mul(x, x)
    s, rest = _both_sides(v, v.mul(x, v.fma(square, cubic * outer, outer)))
    steep = v.mul(x, v.fma(square, 3 * cubic * outer, outer))
    return v.mul(dy, v.fma(v.mul(s, rest), steep, s))


_SLOPES: dict[str, Callable[[Lanes, str, str], str]] = {
    "relu_backward": _relu_backward,
    "sigmoid_backward": _sigmoid_backward,
    "tanh_backward": _tanh_backward,
    "silu_backward": _silu_backward,
    "gelu_backward": _gelu_backward,
    "gelu_tanh_backward": _gelu_tanh_backward,
}


def slope_code(writer: IRWriter, vector: VectorType, name: str, dy: str, value: str) -> str:
    """Apply one of `skipjack.core.nest.SLOPES` to values of a type."""
    return _SLOPES[name](Lanes(writer, vector), dy, value)


_CODE: dict[str, Callable[[Lanes, str], str]] = {
    "exp": _exp,
    "log": _log,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "erf": _erf,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": _rsqrt,
}
FUNCTIONS = frozenset(_CODE)
"""What this file has code for."""


def function_code(writer: IRWriter, vector: VectorType, name: str, value: str) -> str:
    """Apply one of `FUNCTIONS` to a value of a type."""
    return _CODE[name](Lanes(writer, vector), value)
