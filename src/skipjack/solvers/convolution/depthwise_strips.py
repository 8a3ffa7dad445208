"""The loops of a march as code: strips of columns, and down each of them the rounds.

Rows under way are values that loops carry from round to round, so that they stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    mask: str | None = None
    """Of the last vector of channels."""

    def write(self, source: str, partners: str, sums: list[str], meet: Meet) -> list[str]:
        """Everything; gives the sums as they are at the end."""
        w, plan = self.w, self.plan
        _, high, _ = plan.patterns
        start = self.march.start
        source = w.advance(source, start * high.stride * self.source.row)
        partners = w.advance(partners, start * high.step * self.partner.row)
        for run in plan.runs:
            columns = columns_of(w, plan, run, self.mask)
            moves = (run.step * plan.pixel, run.size * plan.pixel)
            begins = [
                ("ptr", w.advance(source, run.base * plan.pixel)),
                ("ptr", w.advance(partners, run.begin * plan.pixel)),
            ]

            def strip(
                _: str,
                at: list[str],
                columns: Columns = columns,
                moves: tuple[int, int] = moves,
            ) -> list[str]:
                ends = self._rounds(Place(columns, at[0], at[1]), at[2:], meet)
                return [w.advance(at[0], moves[0]), w.advance(at[1], moves[1]), *ends]

            sums = w.loop(run.repeats, [*begins, *self._typed(sums)], strip)[2:]
        return sums

    def _rounds(self, place: Place, sums: list[str], meet: Meet) -> list[str]:
        w, under = self.w, Under()
        _, high, _ = self.plan.patterns
        source, partners, many = place.source, place.partners, len(sums)
        moves = (high.stride * self.source.row, high.step * self.partner.row)
        for each in self.march.rounds:
            known = _in_order(each.known)
            # Those under way after a round that repeats come in the order in which it takes them.
            following = known if each.repeats > 1 else None

            def body(_: str, at: list[str], each: Round = each) -> list[str]:
                nonlocal following
                here = Place(place.columns, at[0], at[1])
                own = iter(at[2 + many :])
                mine = {
                    partner: [next(own) for _ in range(place.columns.positions)]
                    for partner in _in_order(each.known)
                }
                now = meet(each, here, mine, at[2 : 2 + many])
                later = {
                    Partner(partner.back + 1, partner.phase): values
                    for partner, values in mine.items()
                    if partner not in each.done
                }
                following = _in_order(later) if following is None else following
                assert set(following) == set(later)
                carried = [value for partner in following for value in later[partner]]
                return [w.advance(at[0], moves[0]), w.advance(at[1], moves[1]), *now, *carried]

            values = [value for partner in known for value in under[partner]]
            start: Carried = [("ptr", source), ("ptr", partners), *self._typed([*sums, *values])]
            source, partners, *rest = w.loop(each.repeats, start, body)
            sums, ended = rest[:many], iter(rest[many:])
            under = {
                partner: [next(ended) for _ in range(place.columns.positions)]
                for partner in following or ()
            }
        return sums

    def _typed(self, values: list[str]) -> Carried:
        return [(self.plan.vector.text, value) for value in values]


def _in_order(partners: object) -> list[Partner]:
    assert isinstance(partners, (frozenset, dict))
    return sorted(partners, key=lambda partner: (partner.back, partner.phase))
