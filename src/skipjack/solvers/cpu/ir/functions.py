"""Exponential, logarithm and related functions on vectors, for which LLVM only has calls to libm.

Each is straight-line code without branches and tables: reduce the argument, evaluate a polynomial
or a quotient of two, scale by a power of two made from bits. `ERROR_ULP` states the largest
errors, which hold for denormals too; gelu and gelu_tanh may flush theirs, far below their bound.
The slopes of activations, for gradients, are right to a few eps of the gradient that they scale.
NaN gives NaN and infinities give limits, also where a formula written in NumPy would compute ``inf
* 0``: ``silu(-inf)``, ``gelu(-inf)`` and ``gelu_tanh(-inf)`` are -0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan, pi, sqrt

from skipjack.native import IRWriter, VectorType
from skipjack.operations import ERF, ERF_ONE, Quotient
from skipjack.solvers.cpu.ir.lanes import Lanes

# Coefficients of the polynomials, lowest power first, by element type.
#
# Printed by ``bench/fit_polynomials.py``. A comment gives the largest relative error of the fit.

Polynomial = tuple[float, ...]

EXP: dict[str, Polynomial] = {
    # 2**-28.28
    "f32": (0.499999934, 0.166665206, 0.0416683881, 0.00836871735, 0.00138145937),
    # 2**-57.94
    "f64": (
        0.50000000000000106,
        0.16666666666666413,
        0.041666666666530144,
        0.0083333333334944636,
        0.0013888888943633778,
        0.00019841269506589132,
        2.480149309535225e-5,
        2.7557586355645377e-6,
        2.763024956985306e-7,
        2.500006937047472e-8,
    ),
}
"""``(exp(r) - 1 - r) / r**2`` for ``|r| <= ln(2) / 2``."""

LOG: dict[str, Polynomial] = {
    # 2**-27.35
    "f32": (
        0.333333317,
        -0.250008211,
        0.200012264,
        -0.166233554,
        0.142017682,
        -0.131602113,
        0.127615159,
        -0.0763434408,
    ),
    # 2**-59.5
    "f64": (
        0.66666666666667341,
        0.39999999999416737,
        0.28571428741940362,
        0.22222198618019228,
        0.18183562048997007,
        0.15314107523866989,
        0.14795391827598784,
    ),
}
"""f32: ``(log(1 + f) - f + f**2 / 2) / f**3`` for ``1 + f`` between the roots of 1/2 and 2.

f64: ``(2 * atanh(s) - 2 * s) / s**3`` as a polynomial in ``s**2``, for ``s = f / (2 + f)``.
"""


# exp of arguments that are never above 0, in fewer steps than exp of any argument.
#
# The argument of a softmax is the difference to the largest element. It cannot overflow, and the
# result may be 0 if it underflows. The polynomial is one degree shorter than that of exp: an
# error of one eps is small compared with the rounding error of the difference itself, which exp
# multiplies by the size of its argument.

ERROR_EPS = 1.6
"""Largest relative error, in eps, for arguments near 0; it grows by 1 with the argument's size.

Measured: 1.501 without fused multiply-add, less than 1.5 with it.
"""

_LN2 = 0.6931471805599453
_LEAST = {"f32": -88.0, "f64": -709.0}
"""Below this the power of two is less than the smallest normal number, and the result is 0."""
_EXP = {
    # 2**-23.38
    "f32": (0.999999707, 0.499991492, 0.166676367, 0.0418979776, 0.00829030157),
    # 2**-52.01
    "f64": (
        1.0000000000000056,
        0.4999999999999798,
        0.16666666666564555,
        0.041666666668204261,
        0.0083333333829717983,
        0.0013888888528809548,
        0.00019841173048978507,
        2.4801900437385791e-5,
        2.7639203532147438e-6,
        2.7491962300193502e-7,
    ),
}
"""``(exp(r) - 1) / r`` for ``|r| <= ln(2) / 2``, lowest power first; in comments the largest
relative error. Fitted as in ``bench/fit_polynomials.py``."""


def exp_nonpositive(writer: IRWriter, vector: VectorType, x: str) -> str:
    """exp of values up to 0; 0 if the result is less than the smallest normal number.

    NaN stays NaN.
    """
    v = Lanes(writer, vector)
    bias, mantissa = v.format.bias, v.format.mantissa
    # Adding 1.5 * 2**mantissa rounds to an integer and leaves it in the last bits. With the bias it
    # is the exponent of a power of two, and 0 for the smallest argument allowed.
    magic = 1.5 * 2.0**mantissa + bias
    x = v.at_least(x, _LEAST[v.dtype])
    shifted = v.fma(x, 1 / _LN2, magic)
    # One constant for ln 2 is enough: n times its error is far less than an eps of x.
    rest = v.fma(v.sub(shifted, magic), -_LN2, x)
    near_one = v.polynomial(rest, (1.0, *_EXP[v.dtype]))
    return v.mul(near_one, v.floats(v.whole("shl", v.bits(shifted), mantissa)))


# The functions.

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
_LN2_REST = 2.3190468138462996e-17
"""ln 2 minus its nearest double."""


def _reduce(v: Lanes, x: str, biases: int) -> tuple[str, str]:
    """``x = n * ln 2 + r`` with a small r: returns r, and bits that end in n plus `biases`
    biases."""
    # Adding 1.5 * 2**mantissa rounds to an integer and leaves it in the last bits.
    magic = 1.5 * 2.0**v.format.mantissa + biases * v.format.bias
    shifted = v.fma(x, 1 / _LN2, magic)
    n = v.sub(shifted, magic)
    r = v.fma(n, -v.format.ln2_high, x)
    return v.fma(n, v.format.ln2_high - _LN2 - _LN2_REST, r), v.bits(shifted)


def _exp_parts(v: Lanes, x: str) -> tuple[str, str, str]:
    """Three factors of exp: one near 1 and two powers of two, whose product reaches the
    denormals."""
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

    It is just above 1 at `one`, so clamping it gives exactly 1 from there on.
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
    """``x * sigmoid(x)``, scaled down last: if e is a denormal, ``x * e`` need not be one."""
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

    One power of two is enough: if it is 0 or infinite, the results x and -0 are right to eps of x.
    """
    outer, high = -2 * sqrt(2 / pi), v.format.exp_high
    x = v.at_least(x, _GELU_TANH_LOW)
    gate = v.mul(x, v.fma(v.mul(x, x), 0.044715 * outer, outer))
    r, bits = _reduce(v, v.at_most(v.at_least(gate, 1 - high), high), 1)
    power = v.floats(v.whole("shl", bits, v.format.mantissa))
    near_one = v.polynomial(r, (1.0, 1.0, *EXP[v.dtype]))
    return v.div(x, v.fma(near_one, power, 1.0))


def _power(v: Lanes, x: str) -> str:
    """exp of an argument that is never above 0."""
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
"""Functions that `function_code` knows."""


def function_code(writer: IRWriter, vector: VectorType, name: str, value: str) -> str:
    """Apply one of `FUNCTIONS` to a value of a type."""
    return _CODE[name](Lanes(writer, vector), value)
