"""Derives the coefficients of exp, log and erf; needs mpmath, prints Python text.

Polynomials and rational functions close to the best in the largest relative error, by linear least
squares on Chebyshev points. Two weights are moved from round to round: the last denominator, which
makes the linear problem that of ``f - P/Q`` (Sanathanan and Koerner), and one for each point that
grows where the error is large (Lawson).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as m
from mpmath import mpf

m.mp.dps = 100
Function = Callable[[mpf], mpf]
_DIGITS = {"f32": 9, "f64": 17}
_POINTS = 200
_ROUNDS = 40
_SETTLING = 5
"""Rounds that only move the denominator."""


@dataclass(frozen=True)
class Target:
    """``factor(x) * (P(x) / Q(x)) + given(x)`` shall be ``exact(x)``; P and Q are wanted."""

    name: str
    exact: Function
    factor: Function
    given: Function
    low: mpf
    high: mpf
    square: bool = False
    """P and Q are functions of ``x * x``."""


def points(target: Target) -> list[mpf]:
    """Chebyshev points; never 0, where a relative error has no meaning."""
    middle, half = (target.low + target.high) / 2, (target.high - target.low) / 2
    return [middle - half * m.cos(m.pi * (at + mpf(1) / 2) / _POINTS) for at in range(_POINTS)]


def fit(target: Target, p: int, q: int) -> tuple[list[mpf], list[mpf], mpf]:
    """Coefficients of P and Q (which starts with 1), lowest first, and the largest error."""
    xs = points(target)
    exact = [target.exact(x) for x in xs]
    wanted = [(y - target.given(x)) / target.factor(x) for x, y in zip(xs, exact, strict=True)]
    weight = [abs(target.factor(x) / y) for x, y in zip(xs, exact, strict=True)]
    powers = [[(x * x if target.square else x) ** j for j in range(max(p, q) + 1)] for x in xs]
    denominator, emphasis = [mpf(1)] * _POINTS, [mpf(1)] * _POINTS
    best: tuple[list[mpf], list[mpf], mpf] | None = None
    for round_ in range(_ROUNDS):
        rows, right = [], []
        for f, w, d, x in zip(wanted, weight, denominator, powers, strict=True):
            scale = w / d
            rows.append([scale * y for y in x[: p + 1]] + [-scale * f * y for y in x[1 : q + 1]])
            right.append(scale * f)
        solved = least_squares(rows, right, emphasis)
        above = solved[: p + 1]
        below = [mpf(1), *solved[p + 1 :]]
        denominator = [m.fdot(below, x[: q + 1]) for x in powers]
        values = [m.fdot(above, x[: p + 1]) / d for x, d in zip(powers, denominator, strict=True)]
        errors = [abs(f - v) * w for f, v, w in zip(wanted, values, weight, strict=True)]
        if best is None or max(errors) < best[2]:
            best = (above, below, max(errors))
        if not q or round_ >= _SETTLING:
            mean = m.fdot(emphasis, errors) / sum(emphasis)
            emphasis = [
                e * (error / mean + mpf("1e-3")) for e, error in zip(emphasis, errors, strict=True)
            ]
    assert best is not None
    return best


def least_squares(rows: list[list[mpf]], right: list[mpf], emphasis: list[mpf]) -> list[mpf]:
    """By the normal equations: there are digits enough."""
    columns = list(zip(*rows, strict=True))
    weighted = [[e * y for e, y in zip(emphasis, column, strict=True)] for column in columns]
    normal = m.matrix([[m.fdot(left, other) for other in columns] for left in weighted])
    return list(m.lu_solve(normal, m.matrix([m.fdot(left, right) for left in weighted])))


def identity(x: mpf) -> mpf:
    """x itself."""
    return x


def nothing(x: mpf) -> mpf:
    """No given part."""
    return mpf(0)


HALF = m.log(2) / 2 * mpf("1.0001")
ROOT = m.sqrt(2) - 1
EXP = Target("EXP", m.exp, lambda x: x * x, lambda x: 1 + x, -HALF, HALF)
LOG = Target("LOG", m.log1p, lambda f: f**3, lambda f: f - f * f / 2, 1 / m.sqrt(2) - 1, ROOT)
ATANH = Target(
    "LOG",
    lambda s: 2 * m.atanh(s),
    lambda s: s**3,
    lambda s: 2 * s,
    mpf(0),
    ROOT / (2 + ROOT),
    square=True,
)
ERF = {
    dtype: Target("ERF", m.erf, identity, nothing, mpf(0), mpf(high), True)
    for dtype, high in (("f32", "3.93"), ("f64", "5.93"))
}
PLAN = (
    (EXP, "f32", 4, 0),
    (EXP, "f64", 9, 0),
    (LOG, "f32", 7, 0),
    (ATANH, "f64", 6, 0),
    (ERF["f32"], "f32", 5, 5),
    (ERF["f64"], "f64", 12, 13),
)


def main() -> None:
    """Print every table with the error that remains."""
    for target, dtype, p, q in PLAN:
        above, below, error = fit(target, p, q)
        print(f"# {target.name} {dtype}: relative error 2**{m.nstr(m.log(error, 2), 4)}")
        for part in (above, below) if q else (above,):
            print("(" + ", ".join(m.nstr(c, _DIGITS[dtype]) for c in part) + "),", flush=True)


if __name__ == "__main__":
    main()
