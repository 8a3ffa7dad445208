"""The error function, which NumPy lacks.

``erf(x) / x`` is a quotient of polynomials in ``x**2``, lowest power first, by element type. The
coefficients come from ``bench/fit_polynomials.py``; generated code uses them as well.
"""

from __future__ import annotations

import numpy as np

from skipjack.core import Array

Polynomial = tuple[float, ...]
Quotient = tuple[Polynomial, Polynomial]

ERF: dict[str, Quotient] = {
    # 2**-25.63
    "f32": (
        (1.12837915, 0.190778925, 0.052789639, 0.00377939775, 0.000284803662, 2.04200703e-6),
        (1.0, 0.502406141, 0.114255495, 0.0149970164, 0.00116516095, 3.800419e-5),
    ),
    # 2**-57.25
    "f64": (
        (
            1.1283791670955126,
            0.22297793563176709,
            0.066974605235120942,
            0.0071122088297299488,
            0.00089034993459135338,
            6.0833932036650816e-5,
            4.2595463597591565e-6,
            1.9270750920127964e-7,
            8.0787611754358946e-9,
            2.2191130986124797e-10,
            4.9511703727062115e-12,
            4.5031359145349939e-14,
            7.5810828335041891e-17,
        ),
        (
            1.0,
            0.53094238367207778,
            0.13633549303828496,
            0.022463480752805933,
            0.0026551853946382109,
            0.00023821872583450724,
            1.671604019514744e-5,
            9.2939152907485107e-7,
            4.08631428506343e-8,
            1.3919734100190699e-9,
            3.4783494136778341e-11,
            5.5782881735340256e-13,
            2.4057490336627151e-15,
            1.0643387189878526e-18,
        ),
    ),
}
"""Numerator and denominator. The comments give the largest relative error of the fit."""

ERF_ONE = {"f32": 4.2, "f64": 6.1}
"""From this argument on, erf rounds to 1; the quotient is slightly above it."""


def erf(x: Array, out: Array | None = None) -> Array:
    """The error function in the precision of x."""
    if x.dtype.itemsize < 4:  # too narrow for the coefficients
        wide = erf(x.astype(np.float32))
        if out is None:
            return wide.astype(x.dtype)
        out[...] = wide
        return out
    dtype = "f32" if x.dtype == np.float32 else "f64"
    x = np.clip(x, -ERF_ONE[dtype], ERF_ONE[dtype])
    z = x * x
    above, below = (_polynomial(z, part) for part in ERF[dtype])
    result: Array = np.clip(x * above / below, -1.0, 1.0, out=out)
    return result


def _polynomial(z: Array, coefficients: Polynomial) -> Array:
    result = np.full_like(z, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result *= z
        result += coefficient
    return result
