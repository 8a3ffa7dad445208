"""Values inside of a row program: trees for one vector of a row, and what a row has in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeGuard

from skipjack.core.nest import Accumulator, Call, Constant, Load, Scalar
from skipjack.core.program import View
from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.exp_nonpositive import exp_nonpositive
from skipjack.solvers.loops.scalar import step


@dataclass(slots=True)
class Row:
    """One of the groups that are computed together."""

    number: int
    pointers: list[str]
    """For each view of the program, and for what is kept."""
    known: dict[Scalar, str] = field(default_factory=dict)
    """Scalars of the group: statistics, and loads of what belongs to it."""
    splats: dict[Scalar, str] = field(default_factory=dict)
    """What follows from them and does not change along the row, in all lanes."""


@dataclass(slots=True)
class Place:
    """One vector of each row inside of a sweep."""

    offset: str | int
    """Bytes from the start of the segment to the vectors of this round."""
    copy: int
    mask: str | None
    loads: dict[tuple[str, int], str] = field(default_factory=dict)
    """By start of the segment, and whether along the columns."""
    values: dict[tuple[int, Scalar], str] = field(default_factory=dict)


class RowValues:
    """Writes the code of trees."""

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

    def address(self, place: Place, row: Row, view: int) -> str:
        """Where the vector begins."""
        start = self.w.advance(row.pointers[view], place.offset)
        return self.w.advance(start, place.copy * self.vector.lanes * self.vector.item_bytes)

    def value(self, place: Place, row: Row, scalar: Scalar) -> str:
        """A tree for one vector of a row; what was computed at this place is used again."""
        if scalar in row.splats:
            return row.splats[scalar]
        match scalar:
            case Load(operand):
                return self._loaded(place, row, operand)
            case Constant(value):
                return self.vector.constant(value)
            case Accumulator(name):
                raise ValueError(f"statistic {name!r} was not collected")
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

    def _loaded(self, place: Place, row: Row, operand: int) -> str:
        pointer, column = row.pointers[operand], self.views[operand].column
        key = (pointer, column)
        if key not in place.loads:
            place.loads[key] = (
                self.w.load(self.vector, self.address(place, row, operand), place.mask)
                if column
                else self.w.broadcast(self.vector, pointer)
            )
        return place.loads[key]

    def _fused(self, place: Place, row: Row, call: Call) -> str:
        """A product and a sum in one step; empty if the tree is not that."""
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
        """Work out the largest parts of a tree that do not change along the row."""
        for part in self.fixed_parts(scalar):
            if part not in row.splats:
                value = self.once(row, part, row.known)
                lanes = self.vector.lanes
                row.splats[part] = value if lanes == 1 else self.w.splat(self.vector, value)

    def fixed_parts(self, scalar: Scalar) -> list[Scalar]:
        """The largest parts of a tree that do not change along a row, constants left out."""
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
        """A tree as one number for the row."""
        if scalar in known:
            return known[scalar]
        match scalar:
            case Load(operand):
                row.known[scalar] = self.w.load(self.scalar, row.pointers[operand])
                return row.known[scalar]
            case Constant(value):
                return self.scalar.constant(value)
            case Accumulator(name):
                raise ValueError(f"statistic {name!r} was not collected")
            case Call(name, arguments):
                given = [self.once(row, part, known) for part in arguments]
                return step(self.w, self.scalar, name, given)


def _is_product(scalar: Scalar, row: Row) -> TypeGuard[Call]:
    return isinstance(scalar, Call) and scalar.function == "mul" and scalar not in row.splats
