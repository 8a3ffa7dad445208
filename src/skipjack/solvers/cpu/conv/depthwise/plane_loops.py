"""The loops over a plane: strips with a sliding window, or row by row for large filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from skipjack.native import Carried
from skipjack.solvers.cpu.conv.depthwise.plan import ArrayStrides, DepthwisePlan
from skipjack.solvers.cpu.conv.depthwise.row_vectors import RowVectors, row_vectors_of
from skipjack.solvers.cpu.conv.depthwise.window import (
    LiveRow,
    ReadPattern,
    Reads,
    SlidingWindow,
    WindowRound,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter

# Strips: the loops of a sliding window as code.
#
# Live rows are values that loops carry from round to round, so that they stay in registers.

LiveValues = dict[LiveRow, list[str]]
"""The vectors of every live row."""


@dataclass(frozen=True)
class StripPosition:
    """The position of a round."""

    columns: RowVectors
    source: str
    """The address of the first row of the round."""
    live_rows: str
    """The address of the first row of the block with the round's number."""


WriteRound = Callable[[WindowRound, StripPosition, LiveValues, list[str]], list[str]]
"""Writes one round: updates the live values, and returns the sums that are carried on."""


@dataclass(frozen=True)
class Strips:
    w: WholeNumberWriter
    plan: DepthwisePlan
    sliding_window: SlidingWindow
    source: ArrayStrides
    live_row: ArrayStrides
    write_round: WriteRound
    mask: str | None = None
    """The mask of the last vector of channels."""

    def write(self, source: str, live_rows: str, sums: Sequence[str] = ()) -> list[str]:
        """Write all strips; returns the sums at the end."""
        w, plan, ends = self.w, self.plan, list(sums)
        below = self._below(self.sliding_window.start)
        source, live_rows = w.advance(source, below[0]), w.advance(live_rows, below[1])
        for run in plan.runs:
            begins: Carried = [
                ("ptr", w.advance(source, run.base * plan.pixel)),
                ("ptr", w.advance(live_rows, run.begin * plan.pixel)),
            ]
            columns = row_vectors_of(w, plan, run, self.mask)
            moves = (run.step * plan.pixel, run.size * plan.pixel)
            strip = partial(self._strip, columns, moves)
            ends = w.loop(run.repeats, [*begins, *self._typed(ends)], strip)[2:]
        return ends

    def _below(self, rounds: int) -> tuple[int, int]:
        """The distance of a number of rounds in both arrays, in bytes."""
        _, high, _ = self.plan.patterns
        return rounds * high.stride * self.source.row, rounds * high.step * self.live_row.row

    def _strip(
        self, columns: RowVectors, moves: tuple[int, int], _: str, at: list[str]
    ) -> list[str]:
        """All rounds of a strip; returns the start of the next one."""
        w, (source, live_rows, *sums) = self.w, at
        many, live_values = len(sums), LiveValues()
        for each in self.sliding_window.rounds:
            values = [value for live_row in sorted(live_values) for value in live_values[live_row]]
            start: Carried = [("ptr", source), ("ptr", live_rows), *self._typed([*sums, *values])]
            body = partial(self._round, each, columns, many)
            source, live_rows, *rest = w.loop(each.repeats, start, body)
            sums, live_values = rest[:many], _by_live_row(each.later, rest[many:])
        return [w.advance(at[0], moves[0]), w.advance(at[1], moves[1]), *sums]

    def _round(
        self, each: WindowRound, columns: RowVectors, many: int, _: str, at: list[str]
    ) -> list[str]:
        w, (source, live_rows, *rest) = self.w, at
        live_values = _by_live_row(each.known, rest[many:])
        sums = self.write_round(
            each, StripPosition(columns, source, live_rows), live_values, rest[:many]
        )
        left = [
            value
            for key in sorted(live_values)
            if key not in each.done
            for value in live_values[key]
        ]
        moves = self._below(1)
        return [w.advance(source, moves[0]), w.advance(live_rows, moves[1]), *sums, *left]

    def _typed(self, values: Iterable[str]) -> Carried:
        return [(self.plan.vector.text, value) for value in values]


def _by_live_row(live_rows: Iterable[LiveRow], values: Sequence[str]) -> LiveValues:
    """The carried values of each live row: equally many, in order."""
    order = sorted(live_rows)
    each = len(values) // len(order) if order else 0
    return {
        live_row: list(values[at * each : (at + 1) * each]) for at, live_row in enumerate(order)
    }


# Row by row: the loops for large filters, whose sliding window would be too long.
#
# The sums of a part of one row stay in registers during the loop over the rows of the filter that
# exist there; at the upper and lower edge this loop just has fewer iterations.


@dataclass(frozen=True)
class RowLoops:
    w: WholeNumberWriter
    plan: DepthwisePlan
    source: ArrayStrides
    to: ArrayStrides
    more: bool
    """Whether sums are added to the values in the output."""
    mask: str | None = None
    """The mask of the last vector of channels."""

    def write(self, source: str, taps: str, to: str, begin: str, end: str) -> None:
        """Write the rows of blocks from `begin` to before `end`; pointers are to the whole
        plane."""
        w, (_, high, _) = self.w, self.plan.patterns
        for phase, reads in enumerate(high.phases):

            def row(
                number: str, _: list[str], phase: int = phase, reads: Reads = reads
            ) -> list[str]:
                block = w.add(begin, number)
                there = w.advance(to, w.mul(w.add(w.mul(block, high.step), phase), self.to.row))
                if not reads:
                    self._runs(source, taps, there, "0", reads)
                    return []
                first, count = _valid_reads(w, high, reads, block)
                apart, between = _apart(reads)
                place = w.add(w.mul(block, high.stride), reads[0][1])
                place = w.add(place, w.mul(first, apart))
                here = w.advance(source, w.mul(place, self.source.row))
                tap = w.add(w.mul(first, between), reads[0][0])
                self._runs(
                    here, w.advance(taps, w.mul(tap, self.plan.tap_row)), there, count, reads
                )
                return []

            stop = w.least(end, high.count(phase))
            w.loop_or_skip(w.without(stop, begin), [], row)

    def _runs(self, source: str, taps: str, to: str, count: str, reads: Reads) -> None:
        w, plan = self.w, self.plan
        for run in plan.runs:
            columns = row_vectors_of(w, plan, run, self.mask)
            moves = (run.step * plan.pixel, run.size * plan.pixel)

            def piece(
                _: str,
                at: list[str],
                columns: RowVectors = columns,
                moves: tuple[int, int] = moves,
            ) -> list[str]:
                self._sums(columns, at[0], taps, at[1], count, reads)
                return [w.advance(at[0], moves[0]), w.advance(at[1], moves[1])]

            begins = [
                ("ptr", w.advance(source, run.base * plan.pixel)),
                ("ptr", w.advance(to, run.begin * plan.pixel)),
            ]
            w.loop(run.repeats, begins, piece)

    def _sums(
        self, columns: RowVectors, source: str, taps: str, to: str, count: str, reads: Reads
    ) -> None:
        w, vector = self.w, self.plan.vector
        zero = vector.constant(0.0)
        start = columns.load(to) if self.more else [zero] * columns.positions
        apart, between = _apart(reads)

        def filter_row(_: str, at: list[str]) -> list[str]:
            sums, known = at[2:], dict[int, str]()
            for value, met in columns.values(at[0]):
                for position, tap in met:
                    if tap not in known:
                        known[tap] = self.plan.load_tap(w, at[1], 0, tap)
                    sums[position] = w.call(vector, "fmuladd", [value, known[tap], sums[position]])
            moved = w.advance(at[0], apart * self.source.row)
            return [moved, w.advance(at[1], between * self.plan.tap_row), *sums]

        carried: Carried = [("ptr", source), ("ptr", taps)]
        carried += [(vector.text, value) for value in start]
        columns.store(to, w.loop_or_skip(count, carried, filter_row)[2:])


def _apart(reads: Reads) -> tuple[int, int]:
    """The distance from one read of a position to the next, in places and in taps."""
    if len(reads) < 2:
        return 1, 1
    (tap, place), (next_tap, next_place) = reads[:2]
    return next_place - place, next_tap - tap


def _valid_reads(
    w: WholeNumberWriter, pattern: ReadPattern, reads: Reads, block: str
) -> tuple[str, str]:
    """The first read of a block inside the array, and the number of reads inside."""
    apart, start = _apart(reads)[0], reads[0][1]
    base = w.mul(block, pattern.stride)
    first = w.rounds(w.without(max(0, -start), base), apart)
    last = w.least(w.rounds(w.without(pattern.given - start, base), apart), len(reads))
    return first, w.without(last, first)
