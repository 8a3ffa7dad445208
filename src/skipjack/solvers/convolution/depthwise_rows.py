"""Gathering row by row: the code of large filters, whose march would be too long.

The sums of a part of one row stay in registers while the rows of the filter that exist there are
gone through; the edges above and below are nothing but fewer rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import Carried
from skipjack.solvers.convolution.depthwise_axis import Pattern, Reads
from skipjack.solvers.convolution.depthwise_columns import Columns, columns_of
from skipjack.solvers.convolution.depthwise_plan import Plan, Strides
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


@dataclass(frozen=True)
class Rows:
    """Writes the rows of some blocks of a plane."""

    w: WholeNumberWriter
    plan: Plan
    source: Strides
    to: Strides
    more: bool
    """Whether sums are added to what is there."""
    mask: str | None = None
    """Of the last vector of channels."""

    def write(self, source: str, taps: str, to: str, begin: str, end: str) -> None:
        """Pointers are to the whole plane."""
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
                first, count = _range(w, high, reads, block)
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
            columns = columns_of(w, plan, run, self.mask)
            moves = (run.step * plan.pixel, run.size * plan.pixel)

            def piece(
                _: str,
                at: list[str],
                columns: Columns = columns,
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
        self, columns: Columns, source: str, taps: str, to: str, count: str, reads: Reads
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
    """From one read of a position to the next: places, and taps."""
    if len(reads) < 2:
        return 1, 1
    (tap, place), (next_tap, next_place) = reads[:2]
    return next_place - place, next_tap - tap


def _range(w: WholeNumberWriter, pattern: Pattern, reads: Reads, block: str) -> tuple[str, str]:
    """The first of a block's reads that meets anything, and how many do."""
    apart, start = _apart(reads)[0], reads[0][1]
    base = w.mul(block, pattern.stride)
    first = w.rounds(w.without(max(0, -start), base), apart)
    last = w.least(w.rounds(w.without(pattern.given - start, base), apart), len(reads))
    return first, w.without(last, first)
