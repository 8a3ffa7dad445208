"""The loops of a copy: walks from the outside in, each only over what bounds leave of it.

A bound leaves a range of the last of its walks as soon as the others are settled, so that inside of
the loops nothing is compared. What lies outside of the range is filled with zeros, whole boxes at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.copying_interleaved import InterleavedWriter
from skipjack.solvers.loops.copying_leaf import Element, Leaf
from skipjack.solvers.loops.copying_masks import Masks, Range
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter
from skipjack.solvers.loops.copying_pieces import Library
from skipjack.solvers.loops.copying_plan import Plan, Way
from skipjack.solvers.loops.copying_rows import RowWriter
from skipjack.solvers.loops.copying_squares import Pace, SquareWriter
from skipjack.solvers.loops.copying_walks import Bound, Walk
from skipjack.solvers.loops.entry import share

_ROUNDS_PER_THREAD = 4
"""With fewer rounds to share out, further walks are taken in."""


@dataclass(frozen=True)
class Spot:
    """A place in the nest: where its first element is, and what is known of the bounds."""

    out: str
    source: str
    settled: frozenset[str]
    sums: tuple[Number, ...]
    """Of each bound, over the walks that are settled."""
    ranges: dict[str, Range]
    masks: Masks | None = None
    """What the leaf prepared, once that is possible."""


class Nest:
    """Writes the body of a copy, or one thread's share of it."""

    def __init__(self, plan: Plan, vector: VectorType, pace: Pace) -> None:
        self.plan, self.vector = plan, vector
        self.item = vector.item_bytes
        self.w = NumberWriter()
        self.library = Library(vector)
        self.leaf = self._leaf(pace)

    def _leaf(self, pace: Pace) -> Leaf:
        w, plan, vector = self.w, self.plan, self.vector
        match plan.way:
            case Way.ROW:
                (walk,) = plan.leaf
                bounded = any(bound.coefficient(walk.name) for bound in plan.bounds)
                return RowWriter(w, walk, self.library, bounded=bounded, nothing=plan.nothing)
            case Way.SQUARE:
                writer, reader = plan.leaf
                return SquareWriter(w, writer, reader, vector, pace)
            case Way.INTERLEAVED:
                *writers, reader = plan.leaf
                return InterleavedWriter(w, writers[0] if writers else None, reader, vector)
            case Way.ELEMENT:
                return Element(w, vector.dtype, nothing=plan.nothing)

    # Where it begins

    def write(self, out: str, source: str) -> None:
        """All of it."""
        self._level(0, self._start(out, source))

    def write_share(self, out: str, source: str, threads: int) -> None:
        """What falls to one thread: rounds are numbered through the outermost walks."""
        w, spot = self.w, self._start(out, source)
        count = self._shared(threads)
        walks = self.plan.outer[:count]
        extents = [walk.extent for walk in walks]
        blocks = self.leaf.blocks if prod(extents) < _ROUNDS_PER_THREAD * threads else 1
        begin, end = share(w, prod(extents) * blocks)

        def one(counter: str, _: list[str]) -> list[str]:
            *places, block = self._places(w.add(begin, counter), [*extents, blocks])
            self._round(walks, places, spot, block if blocks > 1 else None)
            return []

        w.loop_or_skip(w.sub(end, begin), [], one)

    def _places(self, number: str, sizes: list[int]) -> list[Number]:
        """The indices that a round's number stands for."""
        places: list[Number] = []
        for size in reversed(sizes[1:]):
            if size == 1:
                places.insert(0, 0)
            else:
                number, place = self.w.divided(number, size)
                places.insert(0, place)
        return [number, *places]

    def _shared(self, threads: int) -> int:
        """How many walks threads share out together."""
        rounds = 1
        for count, walk in enumerate(self.plan.outer):
            if rounds >= _ROUNDS_PER_THREAD * threads:
                return count
            rounds *= walk.extent
        return len(self.plan.outer)

    def _round(
        self, walks: tuple[Walk, ...], places: list[Number], spot: Spot, block: Number | None
    ) -> None:
        """One round of the walks that are shared out, if no bound excludes it."""
        w = self.w
        holds: list[str] = []
        for walk, place in zip(walks, places, strict=True):
            low, high = spot.ranges[walk.name]
            if (low, high) != (0, walk.extent):
                holds.append(w.value(f"icmp sge i64 {place}, {low}"))
                holds.append(w.value(f"icmp slt i64 {place}, {high}"))
            spot = self._settle(spot, walk, place)
        inside = len(walks)
        if not holds:
            self._level(inside, spot, block)
            return
        valid = holds[0]
        for each in holds[1:]:
            valid = w.value(f"and i1 {valid}, {each}")
        w.either(
            valid,
            lambda: self._level(inside, spot, block),
            lambda: self._zero_all(inside, spot.out, block),
        )

    def _start(self, out: str, source: str) -> Spot:
        plan = self.plan
        out = self.w.advance(out, plan.out_offset * self.item)
        source = self.w.advance(source, plan.source_offset * self.item)
        ranges: dict[str, Range] = {walk.name: (0, walk.extent) for walk in plan.walks}
        sums = tuple(bound.constant for bound in plan.bounds)
        return self._known(Spot(out, source, frozenset(), sums, ranges), plan.bounds)

    # Bounds

    def _settle(self, spot: Spot, walk: Walk, index: Number) -> Spot:
        """Go to an index of a walk."""
        w = self.w
        concerned = [bound for bound in self.plan.bounds if bound.coefficient(walk.name)]
        sums = tuple(
            w.plus(total, w.times(index, bound.coefficient(walk.name)))
            if bound in concerned and {name for name, _ in bound.terms} - spot.settled - {walk.name}
            else total
            for bound, total in zip(self.plan.bounds, spot.sums, strict=True)
        )
        spot = replace(
            spot,
            out=w.moved(spot.out, index, walk.out * self.item),
            source=w.moved(spot.source, index, walk.source * self.item),
            settled=spot.settled | {walk.name},
            sums=sums,
        )
        return self._known(spot, concerned)

    def _known(self, spot: Spot, bounds: tuple[Bound, ...] | list[Bound]) -> Spot:
        """Ranges of walks that are the last ones of these bounds; masks if that settles them."""
        ranges = dict(spot.ranges)
        for bound, total in zip(self.plan.bounds, spot.sums, strict=True):
            left = [term for term in bound.terms if term[0] not in spot.settled]
            if bound in bounds and len(left) == 1:
                name, coefficient = left[0]
                ranges[name] = self._narrowed(ranges[name], coefficient, total, bound.size)
        spot = replace(spot, ranges=ranges)
        if spot.masks is None and self._leaf_is_known(spot):
            spot = replace(spot, masks=self.leaf.prepared(ranges))
        return spot

    def _leaf_is_known(self, spot: Spot) -> bool:
        """Whether nothing more can be learnt of the leaf's walks."""
        own = {walk.name for walk in self.plan.leaf}
        return all(
            names <= spot.settled | own
            for names in ({name for name, _ in bound.terms} for bound in self.plan.bounds)
            if names & own
        )

    def _narrowed(self, old: Range, coefficient: int, total: Number, size: int) -> Range:
        """What one more bound leaves: ``0 <= coefficient * index + total < size``."""
        w, by = self.w, abs(coefficient)
        below = w.floor_divided(total, by)
        above = w.floor_divided(w.minus(size - 1, total), by)
        if coefficient > 0:
            low, high = w.minus(0, below), w.plus(above, 1)
        else:
            low, high = w.minus(0, above), w.plus(below, 1)
        low = w.smaller(w.larger(low, old[0]), old[1])
        return low, w.larger(w.smaller(high, old[1]), low)

    # Loops

    def _level(self, depth: int, spot: Spot, block: Number | None = None) -> None:
        w = self.w
        if depth == len(self.plan.outer):
            assert spot.masks is not None
            self.leaf.write(spot.out, spot.source, spot.ranges, spot.masks, block)
            return
        walk = self.plan.outer[depth]
        low, high = spot.ranges[walk.name]

        def inside(first: Number, rounds: Number) -> None:
            def body(counter: str, at: list[str]) -> list[str]:
                index = w.plus(0 if counter == "0" else counter, first)
                here = self._settle(replace(spot, out=at[0], source=at[1]), still, index)
                self._level(depth + 1, here)
                return [w.advance(p, m) for p, m in zip(at, moves, strict=True)]

            # Pointers move from round to round, so that settling has nothing to add to them.
            still = replace(walk, out=0, source=0)
            moves = [walk.out * self.item, walk.source * self.item]
            starts = [
                ("ptr", w.moved(pointer, first, move))
                for pointer, move in zip((spot.out, spot.source), moves, strict=True)
            ]
            self._loop(rounds, starts, body)

        if low != 0:
            self._zero(depth, spot.out, low)
        inside(low, w.minus(high, low))
        if high != walk.extent:
            behind = w.moved(spot.out, high, walk.out * self.item)
            self._zero(depth, behind, w.minus(walk.extent, high))

    def _loop(
        self,
        rounds: Number,
        carried: list[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> None:
        if isinstance(rounds, str):
            self.w.loop_or_skip(rounds, carried, body)
        elif rounds:
            self.w.loop(rounds, carried, body)

    def _zero(self, depth: int, out: str, count: Number) -> None:
        """Zeros in so many steps of the walk at this depth."""
        walks = self.plan.walks
        inner = [(walk.extent, walk.out) for walk in walks[depth + 1 :]]
        self.library.boxes(self.w, out, count, walks[depth].out, inner)

    def _zero_all(self, depth: int, out: str, block: Number | None = None) -> None:
        """Zeros in all of what is inside; where blocks of it are shared out, with the first one."""
        walks, w = self.plan.walks, self.w
        if isinstance(block, str):
            first = w.value(f"icmp eq i64 {block}, 0")
            w.when(first, lambda: self._zero_all(depth, out))
        elif depth < len(walks):
            self._zero(depth, out, walks[depth].extent)
        else:
            element = VectorType(self.vector.dtype, 1)
            w.store(element, element.constant(0.0), out)
