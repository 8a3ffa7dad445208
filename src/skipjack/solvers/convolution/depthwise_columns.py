"""A row's part of a run as vectors: how it is loaded, what it meets there, how it is stored.

With channels last a vector holds some channels of one pixel. Else it holds neighbouring pixels of
one channel; where the convolution has a stride, every second pixel, say, which is picked from two
vectors, and backward two vectors of every second pixel are put together again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from skipjack.solvers.convolution.depthwise_axis import Run
from skipjack.solvers.convolution.depthwise_lanes import chosen, lane_mask, stream_pieces
from skipjack.solvers.convolution.depthwise_plan import NEXT, Plan
from skipjack.solvers.loops.streaming import store
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Meetings = list[tuple[int, int]]
"""Positions and the taps through which they read a value."""


class Columns(Protocol):
    """Rows are given by the pointer to the run's base, or to its first position."""

    positions: int
    """Vectors of a row."""

    def values(self, row: str) -> Iterator[tuple[str, Meetings]]:
        """Every vector of a row that is read, loaded when it is its turn."""
        ...

    def load(self, row: str) -> list[str]:
        """The run's own positions of a row."""
        ...

    def store(self, row: str, values: Sequence[str]) -> None:
        """The same back."""
        ...


def columns_of(w: WholeNumberWriter, plan: Plan, run: Run, mask: str | None) -> Columns:
    """The kind that the layout asks for; `mask` is for the last vector of channels."""
    return Pixels(w, plan, run, mask) if plan.last else Neighbours(w, plan, run)


class Pixels:
    """Vectors of channels; `mask` is for the last of them."""

    def __init__(self, w: WholeNumberWriter, plan: Plan, run: Run, mask: str | None) -> None:
        self.w, self.plan, self.run, self.mask = w, plan, run, mask
        self.positions = run.size

    def values(self, row: str) -> Iterator[tuple[str, Meetings]]:
        """Pixel by pixel."""
        w, run = self.w, self.run
        for place in sorted({place for reads in run.reads for _, place in reads}):
            at = w.advance(row, place * self.plan.pixel)
            value = w.load(self.plan.vector, at, self.mask)
            if self.plan.fetch == NEXT:
                self._fetch(w.advance(at, self.plan.vector_bytes))
            yield (
                value,
                [
                    (position, tap)
                    for position, reads in enumerate(run.reads)
                    for tap, met in reads
                    if met == place
                ],
            )

    def _fetch(self, pointer: str) -> None:
        w = self.w
        w.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        w.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def load(self, row: str) -> list[str]:
        """Pixel by pixel."""
        w, vector = self.w, self.plan.vector
        places = (w.advance(row, at * self.plan.pixel) for at in range(self.positions))
        return [w.load(vector, place, self.mask) for place in places]

    def store(self, row: str, values: Sequence[str]) -> None:
        """Pixel by pixel."""
        w, alignment = self.w, self.plan.vector_bytes if self.plan.stream else 0
        for at, value in enumerate(values):
            place = w.advance(row, at * self.plan.pixel)
            store(w, self.plan.vector, value, place, self.mask, alignment)


class Neighbours:
    """Vectors of pixels. Positions are phases, of one vector after the other."""

    def __init__(self, w: WholeNumberWriter, plan: Plan, run: Run) -> None:
        self.w, self.plan, self.run = w, plan, run
        self.lanes, self.item = plan.vector.lanes, plan.item
        self.wide = plan.patterns[2]
        self.step, self.stride = self.wide.step, self.wide.stride
        self.count = -(-run.size // (self.lanes * self.step))
        self.positions = self.count * self.step

    # What is read

    def values(self, row: str) -> Iterator[tuple[str, Meetings]]:
        """Vector by vector, each at all distances at which it is read."""
        for number in range(self.count):
            reads = self._reads(number)
            if not reads:
                continue
            lowest = min(reads)
            loaded: dict[int, list[str]] = {}
            for place in sorted(reads):
                ahead, residue = divmod(place - lowest, self.stride)
                start = lowest + ahead * self.stride
                if start not in loaded:
                    together = [other for other in reads if 0 <= other - start < self.stride]
                    loaded[start] = self._loaded(row, start, reads, together)
                picks = [residue + self.stride * lane for lane in range(self.lanes)]
                value = chosen(self.w, self.plan.vector, loaded[start], picks)
                yield value, reads[place][0]

    def _reads(self, number: int) -> dict[int, tuple[Meetings, set[int]]]:
        """By the place of a vector's first lane: what is met there, and by which lanes."""
        found: dict[int, tuple[Meetings, set[int]]] = {}
        for lane in range(self.lanes):
            for phase in range(self.step):
                at = (number * self.lanes + lane) * self.step + phase
                for tap, place in self.run.reads[at] if at < self.run.size else ():
                    meetings, lanes = found.setdefault(place - self.stride * lane, ([], set()))
                    lanes.add(lane)
                    if (meeting := (number * self.step + phase, tap)) not in meetings:
                        meetings.append(meeting)
        return found

    def _loaded(
        self,
        row: str,
        start: int,
        reads: dict[int, tuple[Meetings, set[int]]],
        together: Sequence[int],
    ) -> list[str]:
        """As many vectors as the stride from a place on, of which lanes of those places are used.

        Where all of it lies in the row no mask is needed; what lies beyond it is zero.
        """
        used = {
            place - start + self.stride * lane for place in together for lane in reads[place][1]
        }
        w, run, values = self.w, self.run, []
        for part in range(self.stride):
            first = part * self.lanes
            mask = [first + lane in used for lane in range(self.lanes)]
            begin = run.base + start + first
            end = begin + (run.repeats - 1) * run.step + self.lanes
            whole = begin >= 0 and end <= self.wide.given and self._full
            place = w.advance(row, (start + first) * self.item)
            values.append(self._load(place, [True] * self.lanes if whole and any(mask) else mask))
        return values

    @property
    def _full(self) -> bool:
        return self.run.size % (self.lanes * self.step) == 0

    def _load(self, place: str, mask: list[bool]) -> str:
        vector = self.plan.vector
        if not any(mask):
            return vector.constant(0.0)
        return self.w.load(vector, place, lane_mask(mask))

    # The run's own positions

    def load(self, row: str) -> list[str]:
        """Phases are picked from neighbours; what lies beyond the row is zero."""
        values: list[str] = []
        for places, masks in self._own(row):
            parts = [self._load(place, mask) for place, mask in zip(places, masks, strict=True)]
            for phase in range(self.step):
                picks = [phase + self.step * lane for lane in range(self.lanes)]
                values.append(chosen(self.w, self.plan.vector, parts, picks))
        return values

    def store(self, row: str, values: Sequence[str]) -> None:
        """Phases are put together to neighbours."""
        w, vector, step, lanes = self.w, self.plan.vector, self.step, self.lanes
        for number, (places, masks) in enumerate(self._own(row)):
            phases = values[number * step : (number + 1) * step]
            for part, (place, mask) in enumerate(zip(places, masks, strict=True)):
                if not any(mask):
                    continue
                at = range(part * lanes, (part + 1) * lanes)
                picks = [(each % step) * lanes + each // step for each in at]
                value = chosen(w, vector, phases, picks)
                if self.plan.stream:
                    stream_pieces(w, vector, value, place, sum(mask), self.plan.alignment)
                else:
                    w.store(vector, value, place, lane_mask(mask))

    def _own(self, row: str) -> Iterable[tuple[list[str], list[list[bool]]]]:
        """For every vector: where the parts of its phases lie, and which lanes of them exist."""
        for number in range(self.count):
            starts = [(number * self.step + part) * self.lanes for part in range(self.step)]
            yield (
                [self.w.advance(row, start * self.item) for start in starts],
                [[start + lane < self.run.size for lane in range(self.lanes)] for start in starts],
            )
