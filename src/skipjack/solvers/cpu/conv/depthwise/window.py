"""A window that slides down the rows of a plane so that every row is loaded once.

Round by round the next rows of the image (backward: of the result) are loaded and multiplied by
all rows of the filter that use them. They contribute to rows of the other array, in blocks of as
many as one round finishes: the rows of a few blocks are live at the same time and stay in
registers from round to round. Rounds at the ends, where rows are missing, are kept apart from
those in between, which are all alike and become a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from skipjack.operations import Axis
from skipjack.solvers.cpu.ir import WholeNumberWriter

# One axis: which positions each position is computed from.
#
# Forward, a position of the result reads the image at a fixed distance for every tap. Backward,
# a position of the image reads the result, and the taps that it uses depend on its phase, the
# remainder of its index by the stride. Both are a `ReadPattern`, so the same code does both.
# `position_runs` cuts an axis into runs of a size; the runs at the ends, where taps fall outside
# the array, are kept apart from those in between, which are all alike and need no checks.

Reads = tuple[tuple[int, int], ...]
"""Pairs of a tap of the filter and the place that it reads, by ascending place."""


@dataclass(frozen=True, slots=True)
class ReadPattern:
    """Position ``step * block + phase`` reads ``stride * block + place`` for all of a phase."""

    size: int
    given: int
    """Positions of the array that is read."""
    step: int
    stride: int
    phases: tuple[Reads, ...]

    @property
    def blocks(self) -> int:
        """The number of blocks of the first phase; other phases may have one less."""
        return -(-self.size // self.step)

    def count(self, phase: int) -> int:
        """The number of positions of a phase."""
        return -(-(self.size - phase) // self.step)


@dataclass(frozen=True, slots=True)
class PositionRun:
    """Neighbouring positions, and the number of equal runs from this one on."""

    begin: int
    size: int
    base: int
    """The position of the array that is read, to which places are relative."""
    reads: tuple[Reads, ...]
    """The reads of each position; places outside the array are left out."""
    step: int
    """From the base of a run to the next one's."""
    repeats: int = 1

    @property
    def taps(self) -> list[int]:
        """The taps that read anything."""
        return sorted({tap for reads in self.reads for tap, _ in reads})


def read_pattern(axis: Axis, *, backward: bool) -> ReadPattern:
    """What the result reads from the image, or backward the image from the result."""
    if not backward:
        reads = tuple((tap, tap * axis.dilation - axis.pad) for tap in range(axis.filter))
        return ReadPattern(axis.result, axis.image, 1, axis.stride, (reads,))
    phases = tuple(_phase_reads(axis, phase) for phase in range(axis.stride))
    return ReadPattern(axis.image, axis.result, axis.stride, 1, phases)


def _phase_reads(axis: Axis, phase: int) -> Reads:
    """The taps that a phase of the image uses; the last tap reads the first place."""
    distances = [
        (tap, phase + axis.pad - tap * axis.dilation) for tap in reversed(range(axis.filter))
    ]
    return tuple((tap, far // axis.stride) for tap, far in distances if far % axis.stride == 0)


@lru_cache(maxsize=256)
def position_runs(pattern: ReadPattern, size: int) -> tuple[PositionRun, ...]:
    """All positions in runs of up to a size; all except the last have the same length.

    The size is a multiple of the pattern's step.
    """
    found: list[PositionRun] = []
    for begin in range(0, pattern.size, size):
        run = _run(pattern, begin, size)
        last = found[-1] if found else None
        if last is not None and (last.size, last.reads) == (run.size, run.reads):
            found[-1] = replace(last, repeats=last.repeats + 1)
        else:
            found.append(run)
    return tuple(found)


def balanced_size(pattern: ReadPattern, most: int, unit: int = 1) -> int:
    """A size of at most `most` units of positions that cuts an axis into about equal runs."""
    units = -(-pattern.size // (unit * pattern.step))
    pieces = -(-units // max(1, most))
    return -(-units // pieces) * unit * pattern.step


def _run(pattern: ReadPattern, begin: int, size: int) -> PositionRun:
    base = pattern.stride * (begin // pattern.step)
    reads = []
    for at in range(min(size, pattern.size - begin)):
        shift = pattern.stride * (at // pattern.step)
        places = [(tap, place + shift) for tap, place in pattern.phases[at % pattern.step]]
        reads.append(
            tuple((tap, place) for tap, place in places if 0 <= base + place < pattern.given)
        )
    return PositionRun(
        begin, len(reads), base, tuple(reads), pattern.stride * (size // pattern.step)
    )


# The rounds of a window.


@dataclass(frozen=True, slots=True, order=True)
class LiveRow:
    """A live row: in the block `back` before the round's number, with a phase in that block."""

    back: int
    phase: int


@dataclass(frozen=True, slots=True)
class WindowRound:
    """The rows that are loaded together in a round, which is repeated `repeats` times."""

    rows: tuple[tuple[int, tuple[tuple[LiveRow, int], ...]], ...]
    """The rows of the round that exist, each with the live rows that use it and the filter's
    rows."""
    known: frozenset[LiveRow]
    """The rows that are live when the round starts."""
    done: tuple[LiveRow, ...]
    """The rows that are finished when it ends."""
    repeats: int = 1

    @property
    def met(self) -> frozenset[LiveRow]:
        """The live rows that use a row of this round."""
        return frozenset(live_row for _, uses in self.rows for live_row, _ in uses)

    @property
    def later(self) -> frozenset[LiveRow]:
        """The rows that are live after it, numbered as in the next round."""
        left = (self.known | self.met) - set(self.done)
        return frozenset(LiveRow(live_row.back + 1, live_row.phase) for live_row in left)


@dataclass(frozen=True)
class SlidingWindow:
    """All rounds of some blocks of a plane; numbers are relative to the first of these blocks."""

    rounds: tuple[WindowRound, ...]
    start: int
    """The number of the first round."""

    @cached_property
    def live(self) -> int:
        """The largest number of live rows."""
        return max((len(each.known | each.met) for each in self.rounds), default=0)


@lru_cache(maxsize=1024)
def sliding_window(pattern: ReadPattern, begin: int = 0, end: int | None = None) -> SlidingWindow:
    """The window over the blocks of a plane's rows from `begin` to before `end`."""
    sliding = _WindowRounds(pattern, begin, pattern.blocks if end is None else end)
    found: list[WindowRound] = []
    known: frozenset[LiveRow] = frozenset()
    start = 0
    for number in sliding.numbers():
        each = WindowRound(sliding.rows(number), known, sliding.done(number))
        if not found and not (each.rows or each.done):
            continue
        start = start if found else number - begin
        known = each.later
        if found and replace(found[-1], repeats=1) == each:
            found[-1] = replace(found[-1], repeats=found[-1].repeats + 1)
        else:
            found.append(each)
    return SlidingWindow(tuple(found), start)


class _WindowRounds:
    """The rounds of a window by number."""

    def __init__(self, pattern: ReadPattern, begin: int, end: int) -> None:
        self.pattern, self.begin, self.end = pattern, begin, end
        self.uses: list[tuple[LiveRow, int, int]] = []
        """Live rows, with the row of a round that they use and the tap."""
        for phase, reads in enumerate(pattern.phases):
            for tap, place in reads:
                back, row = divmod(place, pattern.stride)
                self.uses.append((LiveRow(back, phase), row, tap))
        backs = [live_row.back for live_row, _, _ in self.uses] or [0]
        self.first, self.last = min(backs), max(backs)
        self.ends = [
            LiveRow(
                max([p.back for p, _, _ in self.uses if p.phase == phase], default=self.last),
                phase,
            )
            for phase in range(pattern.step)
        ]
        """For every phase, the live row that uses the last of its rows."""

    def numbers(self) -> range:
        return range(self.begin + self.first, self.end + self.last)

    def done(self, number: int) -> tuple[LiveRow, ...]:
        return tuple(live_row for live_row in self.ends if self._exists(live_row, number))

    def rows(self, number: int) -> tuple[tuple[int, tuple[tuple[LiveRow, int], ...]], ...]:
        found = []
        for row in range(self.pattern.stride):
            met = tuple(
                (live_row, tap)
                for live_row, its, tap in self.uses
                if its == row and self._exists(live_row, number)
            )
            if met and 0 <= self.pattern.stride * number + row < self.pattern.given:
                found.append((row, met))
        return tuple(found)

    def _exists(self, live_row: LiveRow, number: int) -> bool:
        block = number - live_row.back
        return self.begin <= block < min(self.end, self.pattern.count(live_row.phase))


@dataclass(frozen=True, slots=True)
class PlaneChunk:
    """Some blocks of a plane with a window of their own, and the number of equal chunks."""

    sliding_window: SlidingWindow
    first: int
    """The index of the first of these chunks."""
    repeats: int = 1


@lru_cache(maxsize=256)
def plane_chunks(pattern: ReadPattern, count: int) -> tuple[PlaneChunk, ...]:
    """A plane's rows in `count` chunks of `chunk_blocks` blocks; the last may have fewer."""
    blocks = chunk_blocks(pattern, count)
    found: list[PlaneChunk] = []
    for number, begin in enumerate(range(0, pattern.blocks, blocks)):
        each = sliding_window(pattern, begin, min(begin + blocks, pattern.blocks))
        if found and found[-1].sliding_window == each:
            found[-1] = replace(found[-1], repeats=found[-1].repeats + 1)
        else:
            found.append(PlaneChunk(each, number))
    return tuple(found)


def chunk_choice(
    w: WholeNumberWriter, found: Sequence[PlaneChunk], number: str, body: Callable[[int], None]
) -> None:
    """Run the body for the kind of chunk with a number; all kinds are written."""
    if len(found) == 1:
        body(0)
        return
    for kind, chunk in enumerate(found):
        after = w.value(f"icmp uge i64 {number}, {chunk.first}")
        before = w.value(f"icmp ult i64 {number}, {chunk.first + chunk.repeats}")
        w.when(w.value(f"and i1 {after}, {before}"), partial(body, kind))


def chunk_blocks(pattern: ReadPattern, count: int) -> int:
    """The number of blocks of a chunk."""
    return -(-pattern.blocks // count)
