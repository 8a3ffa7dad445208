"""Reductions of a row program: over a group, to one number in the end, and over all groups."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.core.nest import Call, Scalar
from skipjack.core.program import RowProgram, Statistic
from skipjack.native.ir import IRWriter, VectorType, constant_mask
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


class ColumnSums:
    """Sums over groups stand in memory, where every group adds to them.

    With one thread that is their place in the output. Each of several has scratch memory of its
    own, and the kernel adds these up when all have come to their end.
    """

    def __init__(self, program: RowProgram, vector: VectorType) -> None:
        self._sums, self._columns, self._vector = program.column_sums, program.columns, vector
        self._first = len(program.views) - len(self._sums)
        """The number of the first one's view."""
        vectors = -(-program.columns // vector.lanes)
        self._room = vectors * vector.lanes * vector.item_bytes
        self.size = len(self._sums) * self._room
        """Bytes of a thread's own."""

    def own(self, w: IRWriter, pointers: list[str], memory: str) -> list[str]:
        """The pointers of the views, those of the sums to a thread's own memory."""
        places = [w.advance(memory, self._room * at) for at in range(len(self._sums))]
        return [*pointers[: self._first], *places]

    def start(self, w: IRWriter, pointers: list[str]) -> None:
        """Set them to 0."""
        zero = self._vector.constant(0.0)

        def clear(at: list[str], mask: str | None) -> None:
            w.store(self._vector, zero, at[0], mask)

        for pointer in pointers[self._first :]:
            self._each_vector(w, [pointer], clear)

    def hoist(self, values: RowValues, row: Row) -> None:
        """Work out what of them does not change along a row."""
        for one in self._sums:
            values.hoist(row, one.value)

    def add(self, values: RowValues, place: Place, rows: list[Row]) -> None:
        """One vector of some rows."""
        w = values.w
        for number, one in enumerate(self._sums, self._first):
            at = values.address(place, rows[0], number)
            total = w.load(self._vector, at, place.mask)
            for row in rows:
                total = self._added(values, place, row, one.value, total)
            w.store(self._vector, total, at, place.mask)

    def _added(self, values: RowValues, place: Place, row: Row, scalar: Scalar, before: str) -> str:
        if isinstance(scalar, Call) and scalar.function == "mul":
            factors = [values.value(place, row, part) for part in scalar.arguments]
            return values.w.call(self._vector, "fmuladd", [*factors, before])
        value = values.value(place, row, scalar)
        return values.w.value(f"fadd {self._vector.text} {before}, {value}")

    def gather(self, w: IRWriter, outputs: list[str], memory: str, apart: int, count: str) -> None:
        """Add up the memory of so many threads, which lie so many bytes apart."""
        others, vector = w.value(f"sub i64 {count}, 1"), self._vector

        def gathered(at: list[str], mask: str | None) -> None:
            def another(_: str, inside: list[str]) -> list[str]:
                there = w.advance(inside[0], apart)
                more = w.load(vector, there, mask)
                return [there, w.value(f"fadd {vector.text} {inside[1]}, {more}")]

            first = w.load(vector, at[1], mask)
            _, total = w.loop_or_skip(others, [("ptr", at[1]), (vector.text, first)], another)
            w.store(vector, total, at[0], mask)

        for number, output in enumerate(outputs):
            self._each_vector(w, [output, w.advance(memory, self._room * number)], gathered)

    def _each_vector(
        self, w: IRWriter, pointers: list[str], do: Callable[[list[str], str | None], None]
    ) -> None:
        """Along the columns of some arrays; a mask for the last vector."""
        lanes, width = self._vector.lanes, self._vector.lanes * self._vector.item_bytes
        rounds, rest = divmod(self._columns, lanes)

        def round_(_: str, here: list[str]) -> list[str]:
            do(here, None)
            return [w.advance(pointer, width) for pointer in here]

        if rounds:
            w.loop(rounds, [("ptr", pointer) for pointer in pointers], round_)
        if rest:
            ends = [w.advance(pointer, rounds * width) for pointer in pointers]
            do(ends, constant_mask(lanes, rest))
