"""Values of a row program as LLVM IR: expressions for one vector of a row, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeGuard

from skipjack.core import Accumulator, Call, Constant, Load, RowProgram, Scalar, Statistic, View
from skipjack.native import IRWriter, VectorType, constant_mask
from skipjack.solvers.cpu.ir import exp_nonpositive, identity, larger, step

# Expressions for one vector of a row, and for a row as a whole.


@dataclass(slots=True)
class Row:
    number: int
    pointers: list[str]
    """One for each view of the program, and one for the kept values."""
    known: dict[Scalar, str] = field(default_factory=dict)
    """Scalars of the group: statistics, and loads that do not change along the row."""
    splats: dict[Scalar, str] = field(default_factory=dict)
    """Values in all lanes that do not change along the row."""


@dataclass(slots=True)
class RowPosition:
    """The position of one vector of each row in a sweep."""

    offset: str | int
    """Bytes from the start of the segment to the vectors of this iteration."""
    copy: int
    mask: str | None
    loads: dict[tuple[str, int], str] = field(default_factory=dict)
    """Loaded vectors, by start of the segment and step along the columns."""
    values: dict[tuple[int, Scalar], str] = field(default_factory=dict)


class RowValues:
    """Writes the code of expressions."""

    def __init__(
        self,
        writer: IRWriter,
        views: tuple[View, ...],
        vector: VectorType,
        nonpositive: frozenset[Scalar] = frozenset(),
    ) -> None:
        self.w, self.views, self.vector = writer, views, vector
        self._nonpositive = nonpositive
        self.scalar = VectorType(vector.dtype, 1)

    def address(self, place: RowPosition, row: Row, view: int) -> str:
        """The address of a vector of a view."""
        start = self.w.advance(row.pointers[view], place.offset)
        return self.w.advance(start, place.copy * self.vector.lanes * self.vector.item_bytes)

    def value(self, place: RowPosition, row: Row, scalar: Scalar) -> str:
        """An expression for one vector of a row; values computed at this position are reused."""
        if scalar in row.splats:
            return row.splats[scalar]
        match scalar:
            case Load(operand):
                return self._loaded(place, row, operand)
            case Constant(value):
                return self.vector.constant(value)
            case Accumulator(name):
                raise ValueError(f"statistic {name!r} is used before it is computed")
            case Call(_, arguments):
                key = (row.number, scalar)
                if key not in place.values:
                    place.values[key] = self._fused(place, row, scalar) or self._step(
                        scalar, [self.value(place, row, part) for part in arguments]
                    )
                return place.values[key]

    def _step(self, call: Call, arguments: list[str]) -> str:
        if call in self._nonpositive:
            return exp_nonpositive(self.w, self.vector, arguments[0])
        return step(self.w, self.vector, call.function, arguments)

    def _loaded(self, place: RowPosition, row: Row, operand: int) -> str:
        pointer, column = row.pointers[operand], self.views[operand].column
        key = (pointer, column)
        if key not in place.loads:
            place.loads[key] = (
                self.w.load(self.vector, self.address(place, row, operand), place.mask)
                if column
                else self.w.broadcast(self.vector, pointer)
            )
        return place.loads[key]

    def _fused(self, place: RowPosition, row: Row, call: Call) -> str:
        """A sum with a product as one multiply-add; empty if the expression is something else."""
        if call.function not in ("add", "sub"):
            return ""
        left, right = call.arguments
        if _is_product(left, row):
            one, two = (self.value(place, row, part) for part in left.arguments)
            plus = self.value(place, row, right)
            if call.function == "sub":
                plus = self._negative(plus)
        elif _is_product(right, row):
            one, two = (self.value(place, row, part) for part in right.arguments)
            plus = self.value(place, row, left)
            if call.function == "sub":
                one = self._negative(one)
        else:
            return ""
        return self.w.call(self.vector, "fmuladd", [one, two, plus])

    def _negative(self, value: str) -> str:
        return self.w.value(f"fneg {self.vector.text} {value}")

    def hoist(self, row: Row, scalar: Scalar) -> None:
        """Compute the largest parts of an expression that do not change along the row."""
        for part in self.fixed_parts(scalar):
            if part not in row.splats:
                value = self.once(row, part, row.known)
                lanes = self.vector.lanes
                row.splats[part] = value if lanes == 1 else self.w.splat(self.vector, value)

    def fixed_parts(self, scalar: Scalar) -> list[Scalar]:
        """The largest parts of an expression that do not change along a row, except constants."""
        if isinstance(scalar, Constant):
            return []
        if self._of_group(scalar):
            return [scalar]
        arguments = scalar.arguments if isinstance(scalar, Call) else ()
        found = (part for argument in arguments for part in self.fixed_parts(argument))
        return list(dict.fromkeys(found))

    def _of_group(self, scalar: Scalar) -> bool:
        match scalar:
            case Load(operand):
                return self.views[operand].of_group
            case Call(_, arguments):
                return all(map(self._of_group, arguments))
            case _:
                return True

    def once(self, row: Row, scalar: Scalar, known: dict[Scalar, str]) -> str:
        """An expression as one scalar for the row."""
        if scalar in known:
            return known[scalar]
        match scalar:
            case Load(operand):
                row.known[scalar] = self.w.load(self.scalar, row.pointers[operand])
                return row.known[scalar]
            case Constant(value):
                return self.scalar.constant(value)
            case Accumulator(name):
                raise ValueError(f"statistic {name!r} is used before it is computed")
            case Call(name, arguments):
                given = [self.once(row, part, known) for part in arguments]
                return step(self.w, self.scalar, name, given)


def _is_product(scalar: Scalar, row: Row) -> TypeGuard[Call]:
    return isinstance(scalar, Call) and scalar.function == "mul" and scalar not in row.splats


# Reductions: over a group, to one number at the end, and over all groups.


class Reductions:
    def __init__(self, writer: IRWriter, values: RowValues, kept: Scalar | None) -> None:
        self.w, self.values, self.vector = writer, values, values.vector
        self._kept = kept

    def start(self, reduction: str) -> str:
        """The initial value of an accumulator."""
        return self.vector.constant(identity(reduction))

    def added(self, place: RowPosition, row: Row, statistic: Statistic, before: str) -> str:
        """The accumulator after one more vector."""
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
        """Several accumulators combined pairwise."""
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            odd = values[len(values) & ~1 :]
            values = [self._combined(reduction, *pair) for pair in pairs] + odd
        return values[0]

    def total(self, reduction: str, accumulator: str) -> str:
        """The lanes of an accumulator reduced to one number."""
        kind = self.vector
        if kind.lanes == 1:
            return accumulator
        # Accumulators of a maximum are never NaN: only larger values replace them.
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
    """Sums over all groups, which are in memory, where every group adds to them.

    With one thread they are in the output. With several, each has scratch memory of its own, and
    the kernel adds these up at the end.
    """

    def __init__(self, program: RowProgram, vector: VectorType) -> None:
        self._sums, self._columns, self._vector = program.column_sums, program.columns, vector
        self._first = len(program.views) - len(self._sums)
        """The index of the first one's view."""
        vectors = -(-program.columns // vector.lanes)
        self._room = vectors * vector.lanes * vector.item_bytes
        self.size = len(self._sums) * self._room
        """Scratch memory of one thread, in bytes."""

    def own(self, w: IRWriter, pointers: list[str], memory: str) -> list[str]:
        """The pointers of the views, with those of the sums replaced by a thread's own memory."""
        places = [w.advance(memory, self._room * at) for at in range(len(self._sums))]
        return [*pointers[: self._first], *places]

    def start(self, w: IRWriter, pointers: list[str]) -> None:
        """Set the sums to 0."""
        zero = self._vector.constant(0.0)

        def clear(at: list[str], mask: str | None) -> None:
            w.store(self._vector, zero, at[0], mask)

        for pointer in pointers[self._first :]:
            self._each_vector(w, [pointer], clear)

    def hoist(self, values: RowValues, row: Row) -> None:
        """Compute the parts of the sums that do not change along a row."""
        for one in self._sums:
            values.hoist(row, one.value)

    def add(self, values: RowValues, place: RowPosition, rows: list[Row]) -> None:
        """Add one vector of some rows."""
        w = values.w
        for number, one in enumerate(self._sums, self._first):
            at = values.address(place, rows[0], number)
            total = w.load(self._vector, at, place.mask)
            for row in rows:
                total = self._added(values, place, row, one.value, total)
            w.store(self._vector, total, at, place.mask)

    def _added(
        self, values: RowValues, place: RowPosition, row: Row, scalar: Scalar, before: str
    ) -> str:
        if isinstance(scalar, Call) and scalar.function == "mul":
            factors = [values.value(place, row, part) for part in scalar.arguments]
            return values.w.call(self._vector, "fmuladd", [*factors, before])
        value = values.value(place, row, scalar)
        return values.w.value(f"fadd {self._vector.text} {before}, {value}")

    def gather(self, w: IRWriter, outputs: list[str], memory: str, apart: int, count: str) -> None:
        """Add up the sums of `count` threads, which lie `apart` bytes apart."""
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
        """Loop over the vectors of some arrays; the last one may have a mask."""
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
