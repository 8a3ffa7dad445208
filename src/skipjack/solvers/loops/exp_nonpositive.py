"""exp of what is never above 0, in a row program: fewer steps than exp of anything.

The argument of a softmax is a difference to the largest element. It cannot overflow, and what
underflows may be 0. The polynomial is one degree shorter than that of exp: an error of one eps is
small beside that of the difference itself, which exp multiplies by the size of its argument.
"""

from __future__ import annotations

from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.lanes import Lanes

ERROR_EPS = 1.6
"""Largest relative error, in eps, for arguments near 0; it grows by 1 with the argument's size.

Without fused multiply-add 1.501 was seen; with it, less than 1.5.
"""

_LN2 = 0.6931471805599453
_LEAST = {"f32": -88.0, "f64": -709.0}
"""From here on the power of two is less than the smallest normal number, and the result is 0."""
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
    """exp of values up to 0; 0 where it is less than the smallest normal number. NaN stays."""
    v = Lanes(writer, vector)
    bias, mantissa = v.format.bias, v.format.mantissa
    # Adding 1.5 * 2**mantissa rounds to an integer, which then stands in the last bits. With the
    # bias it is the exponent of a power of two, and 0 for the least that is let through.
    magic = 1.5 * 2.0**mantissa + bias
    x = v.at_least(x, _LEAST[v.dtype])
    shifted = v.fma(x, 1 / _LN2, magic)
    # One constant for ln 2 is enough: n times its error is far less than an eps of x.
    rest = v.fma(v.sub(shifted, magic), -_LN2, x)
    near_one = v.polynomial(rest, (1.0, *_EXP[v.dtype]))
    return v.mul(near_one, v.floats(v.whole("shl", v.bits(shifted), mantissa)))
