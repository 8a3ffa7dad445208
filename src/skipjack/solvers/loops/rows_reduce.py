"""Reductions of a row program: accumulators of vectors, and one number from them in the end."""

from __future__ import annotations

from skipjack.core.nest import Call, Scalar
from skipjack.core.program import Statistic
from skipjack.native.ir import IRWriter
from skipjack.solvers.loops.rows_values import Place, Row, RowValues
from skipjack.solvers.loops.scalar import identity, larger


class Reducing:
    """Writes the arithmetic of reductions."""

    def __init__(self, writer: IRWriter, values: RowValues, kept: Scalar | None) -> None:
        self.w, self.values, self.vector = writer, values, values.vector
        self._kept = kept

    def start(self, reduction: str) -> str:
        """What an accumulator holds at first."""
        return self.vector.constant(identity(reduction))

    def added(self, place: Place, row: Row, statistic: Statistic, before: str) -> str:
        """An accumulator after one more vector."""
        body, text = statistic.body, self.vector.text
        if statistic.reduction == "max":
            value = self.values.value(place, row, body)
            after = larger(self.w, self.vector, value, before)
        elif isinstance(body, Call) and body.function in ("mul", "square") and body != self._kept:
            factors = [self.values.value(place, row, part) for part in body.arguments]
            after = self.w.call(self.vector, "fmuladd", [factors[0], factors[-1], before])
        else:
            value = self.values.value(place, row, body)
            after = self.w.value(f"fadd {text} {before}, {value}")
        if place.mask is None:
            return after
        lanes = f"<{self.vector.lanes} x i1>"
        return self.w.value(f"select {lanes} {place.mask}, {text} {after}, {text} {before}")

    def together(self, reduction: str, values: list[str]) -> str:
        """One accumulator from several, pairwise."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            odd = values[len(values) & ~1 :]
            values = [self._combined(reduction, *pair) for pair in pairs] + odd
        return values[0]

    def total(self, reduction: str, accumulator: str) -> str:
        """One number from the lanes."""
        kind = self.vector
        if kind.lanes == 1:
            return accumulator
        # Accumulators of a maximum are never NaN: they take only what is larger.
        step, flag = ("fadd", "reassoc") if reduction == "sum" else ("fmax", "nnan")
        name = f"@llvm.vector.reduce.{step}.{kind.suffix}"
        start = [(kind.scalar, self.values.scalar.constant(-0.0))] if reduction == "sum" else []
        given = [*start, (kind.text, accumulator)]
        types = ", ".join(type_ for type_, _ in given)
        self.w.declarations.add(f"declare {kind.scalar} {name}({types})")
        arguments = ", ".join(f"{type_} {value}" for type_, value in given)
        return self.w.value(f"call {flag} {kind.scalar} {name}({arguments})")

    def _combined(self, reduction: str, left: str, right: str) -> str:
        if reduction == "max":
            return larger(self.w, self.vector, left, right)
        return self.w.value(f"fadd {self.vector.text} {left}, {right}")
