"""The loops of a march as code: strips of columns, and down each of them the rounds.

Rows under way are values that loops carry from round to round, so that they stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from skipjack.native.ir import Carried
from skipjack.solvers.convolution.depthwise_columns import Columns, columns_of
from skipjack.solvers.convolution.depthwise_march import March, Partner, Round
from skipjack.solvers.convolution.depthwise_plan import Plan, Strides
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Under = dict[Partner, list[str]]
"""The vectors of every row that is under way."""


@dataclass(frozen=True)
class Place:
    """Where a round happens."""

    columns: Columns
    source: str
    """The first of the round's rows."""
    partners: str
    """The first row of the block with the round's number."""


Meet = Callable[[Round, Place, Under, list[str]], list[str]]
"""Writes one round: it changes what is under way, and gives the sums that are carried on."""


@dataclass(frozen=True)
class Strips:
    """Writes all strips of a plane, or of a chunk of its rows."""

    w: WholeNumberWriter
    plan: Plan
    march: March
    source: Strides
    partner: Strides
    meet: Meet
    mask: str | None = None
    """Of the last vector of channels."""

    def write(self, source: str, partners: str, sums: Sequence[str] = ()) -> list[str]:
        """Everything; gives the sums as they are at the end."""
        w, plan, ends = self.w, self.plan, list(sums)
        below = self._below(self.march.start)
        source, partners = w.advance(source, below[0]), w.advance(partners, below[1])
        for run in plan.runs:
            begins: Carried = [
                ("ptr", w.advance(source, run.base * plan.pixel)),
                ("ptr", w.advance(partners, run.begin * plan.pixel)),
            ]
            columns = columns_of(w, plan, run, self.mask)
            moves = (run.step * plan.pixel, run.size * plan.pixel)
            strip = partial(self._strip, columns, moves)
            ends = w.loop(run.repeats, [*begins, *self._typed(ends)], strip)[2:]
        return ends

    def _below(self, rounds: int) -> tuple[int, int]:
        """How far apart rounds are in both arrays."""
        _, high, _ = self.plan.patterns
        return rounds * high.stride * self.source.row, rounds * high.step * self.partner.row

    def _strip(self, columns: Columns, moves: tuple[int, int], _: str, at: list[str]) -> list[str]:
        """All rounds of a strip; gives where the next one begins."""
        w, (source, partners, *sums) = self.w, at
        many, under = len(sums), Under()
        for each in self.march.rounds:
            values = [value for partner in sorted(under) for value in under[partner]]
            start: Carried = [("ptr", source), ("ptr", partners), *self._typed([*sums, *values])]
            body = partial(self._round, each, columns, many)
            source, partners, *rest = w.loop(each.repeats, start, body)
            sums, under = rest[:many], _by_partner(each.later, rest[many:])
        return [w.advance(at[0], moves[0]), w.advance(at[1], moves[1]), *sums]

    def _round(self, each: Round, columns: Columns, many: int, _: str, at: list[str]) -> list[str]:
        w, (source, partners, *rest) = self.w, at
        under = _by_partner(each.known, rest[many:])
        sums = self.meet(each, Place(columns, source, partners), under, rest[:many])
        left = [value for key in sorted(under) if key not in each.done for value in under[key]]
        moves = self._below(1)
        return [w.advance(source, moves[0]), w.advance(partners, moves[1]), *sums, *left]

    def _typed(self, values: Iterable[str]) -> Carried:
        return [(self.plan.vector.text, value) for value in values]


def _by_partner(partners: Iterable[Partner], values: Sequence[str]) -> Under:
    """Values that were carried: equally many for each, in order."""
    order = sorted(partners)
    each = len(values) // len(order) if order else 0
    return {partner: list(values[at * each : (at + 1) * each]) for at, partner in enumerate(order)}
