"""Winograd's linear maps of one line of numbers, and of squares of them, as short lists of steps.

F(m, 3) computes m neighbouring results of a filter of three taps with m + 2 multiplications.
Everything else is a fixed linear map of a few numbers. Each map is written here as sums that share
common terms; a square is transformed by first doing all rows, then all columns of the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skipjack.native import IRWriter, VectorType

_TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+(?:/\d+)?)\s+)?([a-z]\d*)\s*")
Term = tuple[Fraction, str]


@dataclass(frozen=True, slots=True)
class LinearStep:
    """A named sum of multiples of earlier names."""

    name: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class LineTransform:
    """A linear map from x0, x1 ... to y0, y1 ..., step by step."""

    inputs: int
    outputs: int
    steps: tuple[LinearStep, ...]

    def matrix(self) -> list[list[Fraction]]:
        """The map as a matrix: a row for each output."""
        unit = [[Fraction(int(i == j)) for j in range(self.inputs)] for i in range(self.inputs)]
        known = {f"x{number}": row for number, row in enumerate(unit)}
        for step in self.steps:
            rows = [[factor * each for each in known[name]] for factor, name in step.terms]
            known[step.name] = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
        return [known[f"y{number}"] for number in range(self.outputs)]

    def write(self, w: IRWriter, vector: VectorType, values: Sequence[str]) -> list[str]:
        """Write the steps on vectors; returns the outputs."""
        known = {f"x{number}": value for number, value in enumerate(values)}
        for step in self.steps:
            known[step.name] = _sum(w, vector, [(f, known[name]) for f, name in step.terms])
        return [known[f"y{number}"] for number in range(self.outputs)]


def _sum(w: IRWriter, vector: VectorType, terms: Sequence[Term]) -> str:
    (factor, total), *others = terms
    if factor != 1:
        total = w.value(f"fmul {vector.text} {total}, {vector.constant(float(factor))}")
    for factor, value in others:
        if abs(factor) == 1:
            verb = "fadd" if factor == 1 else "fsub"
            total = w.value(f"{verb} {vector.text} {total}, {value}")
        else:
            total = w.call(vector, "fmuladd", [value, vector.constant(float(factor)), total])
    return total


@dataclass(frozen=True, slots=True)
class SquarePlaces:
    """The addresses of a square of vectors, with an optional mask."""

    place: Callable[[int, int], str]
    """Gives a pointer for a row and a column."""
    mask: str | None = None


def transform_square(
    w: IRWriter, vector: VectorType, line: LineTransform, source: SquarePlaces, target: SquarePlaces
) -> None:
    """Write the transform of a square: all rows, then all columns of the result."""
    rows = []
    for row in range(line.inputs):
        places = [source.place(row, column) for column in range(line.inputs)]
        values = [w.load(vector, place, source.mask) for place in places]
        rows.append(line.write(w, vector, values))
    for column in range(line.outputs):
        values = line.write(w, vector, [row[column] for row in rows])
        for row, value in enumerate(values):
            w.store(vector, value, target.place(row, column), target.mask)


def _line(text: str) -> LineTransform:
    """A transform from text such as ``y0 = x0 - 5 x2 + x4``: a factor comes before its name."""
    steps = []
    for row in text.strip().splitlines():
        name, _, right = row.partition("=")
        terms = [
            (Fraction(factor or 1) * (-1 if sign == "-" else 1), read)
            for sign, factor, read in _TERM.findall(right)
        ]
        steps.append(LinearStep(name.strip(), tuple(terms)))
    names = {step.name for step in steps} | {read for step in steps for _, read in step.terms}
    inputs, outputs = (
        1 + max(int(name[1:]) for name in names if name[0] == letter) for letter in "xy"
    )
    return LineTransform(inputs, outputs, tuple(steps))


@dataclass(frozen=True, slots=True)
class Winograd:
    """F(m x m, 3 x 3): the transforms of its operands and of its result.

    A filter's gradient uses the transposed maps: `spread` of the result's gradient and `image` of
    the image are multiplied, and `gather` maps the sums to the filter.
    """

    size: int
    """m: the results of one line."""
    image: LineTransform
    filter: LineTransform
    result: LineTransform
    spread: LineTransform
    gather: LineTransform

    @property
    def points(self) -> int:
        """The numbers in a transformed line."""
        return self.size + 2


F2 = Winograd(
    2,
    image=_line(
        """
        y0 = x0 - x2
        y1 = x1 + x2
        y2 = x2 - x1
        y3 = x1 - x3
        """
    ),
    filter=_line(
        """
        a = x0 + x2
        b = 1/2 a
        y0 = 1 x0
        y1 = b + 1/2 x1
        y2 = b - 1/2 x1
        y3 = 1 x2
        """
    ),
    result=_line(
        """
        a = x1 + x2
        b = x1 - x2
        y0 = x0 + a
        y1 = b - x3
        """
    ),
    spread=_line(
        """
        y0 = 1 x0
        y1 = x0 + x1
        y2 = x0 - x1
        y3 = -1 x1
        """
    ),
    gather=_line(
        """
        a = x1 + x2
        b = x1 - x2
        y0 = x0 + 1/2 a
        y1 = 1/2 b
        y2 = x3 + 1/2 a
        """
    ),
)

F4 = Winograd(
    4,
    image=_line(
        """
        a = x4 - 4 x2
        b = x3 - 4 x1
        c = x4 - x2
        d = x3 - x1
        e = x4 - 5 x2
        f = x5 - 5 x3
        y0 = e + 4 x0
        y1 = a + b
        y2 = a - b
        y3 = c + 2 d
        y4 = c - 2 d
        y5 = f + 4 x1
        """
    ),
    filter=_line(
        """
        a = x0 + x2
        b = -1/6 a
        c = 1/6 x2
        d = c + 1/24 x0
        y0 = 1/4 x0
        y1 = b - 1/6 x1
        y2 = b + 1/6 x1
        y3 = d + 1/12 x1
        y4 = d - 1/12 x1
        y5 = 1 x2
        """
    ),
    result=_line(
        """
        a = x1 + x2
        b = x1 - x2
        c = x3 + x4
        d = x3 - x4
        e = x0 + a
        f = x5 + b
        y0 = e + c
        y1 = b + 2 d
        y2 = a + 4 c
        y3 = f + 8 d
        """
    ),
    spread=_line(
        """
        a = x0 + x2
        b = x1 + x3
        c = x0 + 4 x2
        d = x1 + 4 x3
        y0 = 1 x0
        y1 = a + b
        y2 = a - b
        y3 = c + 2 d
        y4 = c - 2 d
        y5 = 1 x3
        """
    ),
    gather=_line(
        """
        a = x1 + x2
        b = x2 - x1
        c = x3 + x4
        d = x3 - x4
        e = 1/4 x0
        f = e - 1/6 a
        g = x5 - 1/6 a
        h = 1/6 b
        y0 = f + 1/24 c
        y1 = h + 1/12 d
        y2 = g + 1/6 c
        """
    ),
)
