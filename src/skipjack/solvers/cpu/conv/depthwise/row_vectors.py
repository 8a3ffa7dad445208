"""A row's part of a run as vectors: how it is loaded, which taps use it, how it is stored.

With channels last a vector holds some channels of one pixel. Otherwise it holds neighbouring
pixels of one channel; if the convolution has a stride, for example every second pixel, picked from
two vectors, and backward two vectors of every second pixel are interleaved again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from skipjack.native import IRWriter, VectorType
from skipjack.solvers.cpu.conv.depthwise.plan import NEXT, DepthwisePlan
from skipjack.solvers.cpu.conv.depthwise.window import PositionRun
from skipjack.solvers.cpu.ir import WholeNumberWriter, store_or_stream

# Lanes of vectors: picked from several vectors, masked one by one, stored past the caches in
# parts.

STREAMED = 16
"""The smallest store past the caches, in bytes."""


def lane_mask(lanes: Sequence[bool]) -> str | None:
    """A constant mask; None if all lanes are active."""
    if all(lanes):
        return None
    return "<" + ", ".join(f"i1 {str(lane).lower()}" for lane in lanes) + ">"


def chosen(w: IRWriter, vector: VectorType, sources: Sequence[str], picks: Sequence[int]) -> str:
    """A vector of lanes picked from several vectors; lanes are numbered through all of them."""
    lanes = vector.lanes
    if list(picks) == list(range(lanes)):
        return sources[0]
    needed = sorted({pick // lanes for pick in picks})
    value, have = sources[needed[0]], [needed[0] * lanes + lane for lane in range(lanes)]
    if len(needed) == 1:
        return w.shuffle(vector, (value, "poison"), [have.index(pick) for pick in picks])
    for source in needed[1:]:
        both = [*have, *(source * lanes + lane for lane in range(lanes))]
        # Lanes whose source comes later stay as they are.
        now = [both.index(pick) if pick in both else at for at, pick in enumerate(picks)]
        value = w.shuffle(vector, (value, sources[source]), now)
        have = [both[at] if pick in both else -1 for at, pick in zip(now, picks, strict=True)]
    return value


def stream_pieces(
    w: IRWriter, vector: VectorType, value: str, place: str, active: int, alignment: int
) -> None:
    """Store the first lanes past the caches, in parts of the alignment."""
    piece = VectorType(vector.dtype, alignment // vector.item_bytes)
    for start in range(0, active, piece.lanes):
        part = value
        if piece.lanes < vector.lanes:
            part = w.shuffle(vector, (value, "poison"), range(start, start + piece.lanes))
        w.stream(piece, part, w.advance(place, start * vector.item_bytes), alignment)


# Vectors of channels or of pixels.

TapUses = list[tuple[int, int]]
"""The positions that read a value, and the taps through which they do."""


class RowVectors(Protocol):
    """The vectors of a row, given by the pointer to the run's base or to its first position."""

    positions: int
    """The number of vectors of a row."""

    def values(self, row: str) -> Iterator[tuple[str, TapUses]]:
        """Every vector of a row that is read, with its uses; each is loaded when it is needed."""
        ...

    def load(self, row: str) -> list[str]:
        """Load the run's own positions of a row."""
        ...

    def store(self, row: str, values: Sequence[str]) -> None:
        """Store the run's own positions of a row."""
        ...


def row_vectors_of(
    w: WholeNumberWriter, plan: DepthwisePlan, run: PositionRun, mask: str | None
) -> RowVectors:
    """The vectors for the layout of the plan; `mask` is for the last vector of channels."""
    return ChannelVectors(w, plan, run, mask) if plan.last else PixelVectors(w, plan, run)


class ChannelVectors:
    """Vectors of channels of each pixel; `mask` is for the last vector of channels."""

    def __init__(
        self, w: WholeNumberWriter, plan: DepthwisePlan, run: PositionRun, mask: str | None
    ) -> None:
        self.w, self.plan, self.run, self.mask = w, plan, run, mask
        self.positions = run.size

    def values(self, row: str) -> Iterator[tuple[str, TapUses]]:
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
        w, vector = self.w, self.plan.vector
        places = (w.advance(row, at * self.plan.pixel) for at in range(self.positions))
        return [w.load(vector, place, self.mask) for place in places]

    def store(self, row: str, values: Sequence[str]) -> None:
        w, alignment = self.w, self.plan.vector_bytes if self.plan.stream else 0
        for at, value in enumerate(values):
            place = w.advance(row, at * self.plan.pixel)
            store_or_stream(w, self.plan.vector, value, place, self.mask, alignment)


class PixelVectors:
    """Vectors of pixels of a channel; positions are the phases of each vector."""

    def __init__(self, w: WholeNumberWriter, plan: DepthwisePlan, run: PositionRun) -> None:
        self.w, self.plan, self.run = w, plan, run
        self.lanes, self.item = plan.vector.lanes, plan.item
        self.wide = plan.patterns[2]
        self.step, self.stride = self.wide.step, self.wide.stride
        self.count = -(-run.size // (self.lanes * self.step))
        self.positions = self.count * self.step

    # Reads

    def values(self, row: str) -> Iterator[tuple[str, TapUses]]:
        """Every vector at all distances at which it is read."""
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

    def _reads(self, number: int) -> dict[int, tuple[TapUses, set[int]]]:
        """By the place of a vector's first lane: the uses of the vector, and the lanes used."""
        found: dict[int, tuple[TapUses, set[int]]] = {}
        for lane in range(self.lanes):
            for phase in range(self.step):
                at = (number * self.lanes + lane) * self.step + phase
                for tap, place in self.run.reads[at] if at < self.run.size else ():
                    uses, lanes = found.setdefault(place - self.stride * lane, ([], set()))
                    lanes.add(lane)
                    if (use := (number * self.step + phase, tap)) not in uses:
                        uses.append(use)
        return found

    def _loaded(
        self,
        row: str,
        start: int,
        reads: dict[int, tuple[TapUses, set[int]]],
        together: Sequence[int],
    ) -> list[str]:
        """As many vectors as the stride from a place on, with masks of the lanes that are used.

        If all lanes lie in the row, no mask is needed; lanes outside are zero.
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
        """Load the phases from neighbouring pixels; lanes outside the row are zero."""
        values: list[str] = []
        for places, masks in self._own(row):
            parts = [self._load(place, mask) for place, mask in zip(places, masks, strict=True)]
            for phase in range(self.step):
                picks = [phase + self.step * lane for lane in range(self.lanes)]
                values.append(chosen(self.w, self.plan.vector, parts, picks))
        return values

    def store(self, row: str, values: Sequence[str]) -> None:
        """Interleave the phases to neighbouring pixels and store them."""
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
        """For every vector: the addresses of the parts of its phases, and the lanes that exist."""
        for number in range(self.count):
            starts = [(number * self.step + part) * self.lanes for part in range(self.step)]
            yield (
                [self.w.advance(row, start * self.item) for start in starts],
                [[start + lane < self.run.size for lane in range(self.lanes)] for start in starts],
            )
