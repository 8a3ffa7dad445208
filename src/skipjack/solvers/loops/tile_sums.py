"""The accumulators of a tile: what they start from, how they take values, where they end.

A sum has one value for each accumulator. A maximum must keep NaN, and the single instruction that
x86 has for it does not. So accumulators of a maximum pass over NaN, and a *watch* beside them turns
NaN when a value was; one comparison watches two values, which is half the work of a maximum that
keeps NaN by itself.
"""

from __future__ import annotations

from functools import reduce as fold
from math import nan

from skipjack.core.nest import Accumulator, Load
from skipjack.core.program import parts as scalar_parts
from skipjack.native.ir import IRWriter, VectorType
from skipjack.solvers.loops.lane_sums import reduced_lanes, runs
from skipjack.solvers.loops.scalar import combine, evaluated, identity, larger
from skipjack.solvers.loops.streaming import store
from skipjack.solvers.loops.tile_points import Point, Spot, Sum, TileShape

_WATCH = (-1,)
"""In the place of an accumulator's number."""


class TileSums:
    """Writes the code around the accumulators of one tile."""

    def __init__(self, writer: IRWriter, shape: TileShape, vector: VectorType) -> None:
        self.w, self.shape, self.vector = writer, shape, vector
        self.nest, self.reduction = shape.nest, shape.nest.reduction

    def keys(self, points: list[Point]) -> list[Sum]:
        """The accumulators of some copies of the body, and their watches."""
        output = self.nest.output
        found = dict.fromkeys((point.offset(output), point.accumulator) for point in points)
        if self.reduction == "max":
            found |= dict.fromkeys((offset, _WATCH) for offset, _ in list(found))
        return list(found)

    def fresh(self, key: Sum) -> str:
        """What an accumulator starts from."""
        if key[1] == _WATCH:
            return self.vector.constant(-0.0)  # added to anything, it changes nothing
        return self.vector.constant(identity(self.reduction))

    def start(self, spot: Spot, keys: list[Sum], points: dict[int, Point]) -> list[str]:
        """The accumulators at the beginning: one of each element has what the output holds."""
        started = {key: self.fresh(key) for key in keys}
        if spot.first is True or self.shape.across:
            return list(started.values())
        seen: set[int] = set()
        for key in keys:
            offset = key[0]
            if offset not in seen:
                seen.add(offset)
                before = self._before(spot, offset, self.vector, self.shape.mask(points[offset]))
                started[key] = self._unless_first(spot, self.vector, before, started[key])
        return list(started.values())

    # taking values

    def take(self, state: dict[Sum, str], key: Sum, value: str) -> None:
        """Bring a value into an accumulator; a maximum is watched for NaN apart."""
        if self.reduction == "max":
            state[key] = larger(self.w, self.vector, value, state[key])
        else:
            state[key] = combine(self.w, self.vector, self.reduction, state[key], value)

    def watch(self, state: dict[Sum, str], offset: int, left: str, right: str) -> None:
        """Remember whether one of two values of an output element is NaN."""
        key = (offset, _WATCH)
        text, lanes = self.vector.text, self.vector.lanes
        odd = self.w.value(f"fcmp uno {text} {left}, {right}")
        truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
        bad = self.vector.constant(nan)
        state[key] = self.w.value(f"select {truth} {odd}, {text} {bad}, {text} {state[key]}")

    def folded(self, left: list[str], right: list[str]) -> list[str]:
        """Accumulators of a sum joined one by one."""
        pairs = zip(left, right, strict=True)
        return [combine(self.w, self.vector, self.reduction, *pair) for pair in pairs]

    def neutral(self, value: str, point: Point) -> str:
        """The value with the reduction's identity in lanes that lie beyond the end."""
        mask = self.shape.mask(point)
        if mask is None or not self.shape.across:
            return value
        neutral = self.vector.constant(identity(self.reduction))
        text = self.vector.text
        lanes = f"<{self.vector.lanes} x i1>"
        return self.w.value(f"select {lanes} {mask}, {text} {value}, {text} {neutral}")

    # the end

    def finish(
        self, spot: Spot, keys: list[Sum], values: list[str], points: dict[int, Point]
    ) -> None:
        """Join the accumulators of each output element and write it."""
        own: dict[int, list[str]] = {}
        watches: dict[int, str] = {}
        for (offset, number), value in zip(keys, values, strict=True):
            if number == _WATCH:
                watches[offset] = value
            else:
                own.setdefault(offset, []).append(value)
        totals: dict[int, str] = {}
        for offset, parts in own.items():
            totals[offset] = self._tree(parts)
            if offset in watches:
                added = f"fadd {self.vector.text} {totals[offset]}, {watches[offset]}"
                totals[offset] = self.w.value(added)
        if self.shape.across:
            self._write_elements(spot, totals, points)
            return
        for offset, total in totals.items():
            done = self._epilogue(spot, self.vector, total, points[offset])
            at = self.w.advance(spot.pointers[-1], offset * self.vector.item_bytes)
            mask = self.shape.mask(points[offset])
            store(self.w, self.vector, done, at, mask, spot.stream)

    def _write_elements(self, spot: Spot, totals: dict[int, str], points: dict[int, Point]) -> None:
        """Reduce the lanes; output elements that are neighbours are done together."""
        reads = any(isinstance(part, Load) for part in scalar_parts(self.nest.epilogue))
        lanes = 1 if reads else self.vector.lanes
        for run in runs(sorted(totals), lanes):
            values = [totals[offset] for offset in run]
            kind, total = reduced_lanes(self.w, self.vector, self.reduction, values)
            if spot.first is not True:
                before = self._before(spot, run[0], kind, None)
                neutral = kind.constant(identity(self.reduction))
                before = self._unless_first(spot, kind, before, neutral)
                total = combine(self.w, kind, self.reduction, before, total)
            total = self._epilogue(spot, kind, total, points[run[0]])
            at = self.w.advance(spot.pointers[-1], run[0] * kind.item_bytes)
            store(self.w, kind, total, at, None, spot.stream)

    def _tree(self, values: list[str]) -> str:
        """Combine accumulators pairwise, so that no long chain of roundings appears."""
        while len(values) > 1:
            pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
            values = [
                fold(lambda a, b: combine(self.w, self.vector, self.reduction, a, b), pair)
                for pair in pairs
            ]
        return values[0]

    def _before(self, spot: Spot, offset: int, kind: VectorType, mask: str | None) -> str:
        at = self.w.advance(spot.pointers[-1], offset * kind.item_bytes)
        return self.w.load(kind, at, mask)

    def _unless_first(self, spot: Spot, kind: VectorType, before: str, neutral: str) -> str:
        if spot.first is False:
            return before
        return self.w.value(f"select i1 {spot.first}, {kind.text} {neutral}, {kind.text} {before}")

    def _epilogue(self, spot: Spot, kind: VectorType, total: str, point: Point) -> str:
        if self.nest.epilogue == Accumulator() or spot.last is False:
            return total

        def leaf(scalar: Load | Accumulator) -> str:
            if isinstance(scalar, Accumulator):
                return total
            return self._beside(scalar.operand, kind, spot, point)

        done = evaluated(self.w, kind, self.nest.epilogue, leaf)
        if spot.last is True:
            return done
        return self.w.value(f"select i1 {spot.last}, {kind.text} {done}, {kind.text} {total}")

    def _beside(self, operand: int, kind: VectorType, spot: Spot, point: Point) -> str:
        """An input of the epilogue, where the output element is."""
        access = self.nest.inputs[operand]
        at = self.w.advance(spot.pointers[operand], point.offset(access) * kind.item_bytes)
        if kind.lanes == 1 or access.stride(self.shape.vector_variable or "") == 0:
            return self.w.broadcast(kind, at)
        return self.w.load(kind, at, self.shape.mask(point))
