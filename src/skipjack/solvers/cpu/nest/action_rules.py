"""Which actions are legal on a schedule, decided without trying them.

From outside in, a legal schedule has parallel loops, plain loops and the marked suffix, each
variable's steps decrease, and at most one loop lies in vectors. An action on a legal schedule keeps
most of that by itself, so each kind of action has a short condition of its own. It agrees with
`apply`, which checks the schedule that an action makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.actions import FACTORS, Action, ActionKind, family
from skipjack.solvers.cpu.nest.legality import can_vectorize, partial_results_fault
from skipjack.solvers.cpu.nest.schedule import MAX_STEP, Mark, Schedule

_MARKS = tuple(Mark)
_NONE, _VECTORIZE, _UNROLL, _ACCUMULATE, _PARALLEL, _STREAM = _MARKS
# A member of an enumeration is reached through its class in 0.1 µs, which is long here.
_NO_MARK = [False] * len(_MARKS)


class ActionRules:
    """What the rules ask of a nest, looked up once: keep one for all schedules of the nest."""

    __slots__ = ("extents", "partial_results", "reduced", "vectorizable")

    def __init__(self, nest: Nest) -> None:
        self.extents = {name: min(extent, MAX_STEP + 1) for name, extent in nest.loops}
        self.reduced = frozenset(nest.reduction_loops)
        self.vectorizable = frozenset(name for name in self.extents if can_vectorize(name, nest))
        self.partial_results = not partial_results_fault(nest)


class LegalActions:
    """The legal actions on one schedule, which must itself be legal for the rules' nest.

    Positions must be those of loops; only `allows` and `mask` take any.
    """

    __slots__ = (
        *("carrying", "covered", "inner", "loops", "outer", "parallel", "reduced"),
        *("rules", "streamed", "suffix", "vectorized"),
    )

    def __init__(self, schedule: Schedule, rules: ActionRules) -> None:
        loops, count = schedule.loops, len(schedule.loops)
        self.loops, self.rules = loops, rules
        self.outer, self.inner = [-1] * count, [count] * count
        """Positions of the next outer and the next inner loop on the same variable."""
        self.covered = [0] * count
        self.reduced = [loop.variable in rules.reduced for loop in loops]
        self.parallel, self.suffix, self.vectorized, self.streamed = 0, count, -1, False
        last: dict[str, int] = {}
        for at, loop in enumerate(loops):
            name, mark = loop.variable, loop.mark
            above = last.get(name, -1)
            if above < 0:
                self.covered[at] = rules.extents[name]
            else:
                self.covered[at], self.outer[at], self.inner[above] = loops[above].step, above, at
            last[name] = at
            if mark is _NONE:
                continue
            if mark is _PARALLEL:
                self.parallel = at + 1
                continue
            self.suffix = min(self.suffix, at)
            if mark is _VECTORIZE or mark is _STREAM:
                self.vectorized, self.streamed = at, mark is _STREAM
        self.carrying = self._carrying(self.suffix)

    # Each kind of action

    def largest_factor(self, at: int) -> int:
        """Splits by 2 up to this factor are legal; 1 if none is."""
        if at < self.parallel:
            # The new loop goes below the parallel ones.
            if self.inner[at] < self.parallel:
                return 1
        elif at >= self.suffix and (self.outer[at] >= self.suffix or self._parts_sums(at)):
            # The new loop goes above the suffix.
            return 1
        return (self.covered[at] - 1) // self.loops[at].step

    def can_merge(self, at: int) -> bool:
        """Whether there is another loop on the variable."""
        return self.outer[at] >= 0 or self.inner[at] < len(self.loops)

    def reach(self, at: int) -> range:
        """The positions that a loop can be moved to, its own included."""
        low, high = self._block(at)
        return range(max(low, self.outer[at] + 1), min(high, self.inner[at]))

    def marks(self, at: int) -> list[Mark]:
        """The marks that a loop can have instead of its own."""
        found: list[Mark] = []
        if at < self.suffix:
            if at == self.parallel - 1:
                found.append(_NONE)
        elif at == self.suffix and (at == self.vectorized or not self._parts_sums(at)):
            found.append(_NONE)
        if at == self.parallel and self._can_share(at):
            found.append(_PARALLEL)
        if at >= self.suffix - 1:
            found.append(_UNROLL)
            if self.reduced[at]:
                found.append(_ACCUMULATE)
            if self._can_vectorize(at):
                found.append(_VECTORIZE)
                if self._can_stream(at):
                    found.append(_STREAM)
        own = self.loops[at].mark
        return [mark for mark in found if mark is not own]

    # All of them

    def allows(self, action: Action) -> bool:
        """Whether `apply` would give a schedule."""
        at, argument = action.position, action.argument
        if not 0 <= at < len(self.loops):
            return False
        if isinstance(argument, Mark):
            return argument in self.marks(at)
        match action.kind:
            case ActionKind.SPLIT:
                return 2 <= argument <= self.largest_factor(at)
            case ActionKind.MERGE:
                return self.can_merge(at)
            case ActionKind.SWAP:
                return at + 1 in self.reach(at)
            case _:
                return argument != at and argument in self.reach(at)

    def mask(
        self,
        loops: int,
        factors: Sequence[int] = FACTORS,
        kinds: Sequence[ActionKind] = tuple(ActionKind),
    ) -> list[bool]:
        """For every member of the `family` of so many loops whether it is legal.

        The schedule may have fewer loops or more than the family.
        """
        here = range(min(loops, len(self.loops)))
        missing = [False] * (loops - len(here))
        mask: list[bool] = []
        for kind in kinds:
            width = 1
            if kind is ActionKind.SPLIT:
                width = len(factors)
                for at in here:
                    largest = self.largest_factor(at)
                    mask += [2 <= factor <= largest for factor in factors]
            elif kind is ActionKind.MERGE:
                mask += [self.can_merge(at) for at in here]
            elif kind is ActionKind.SWAP:
                mask += [at + 1 in self.reach(at) for at in here]
            elif kind is ActionKind.MOVE:
                width = loops
                for at in here:
                    reach = self.reach(at)
                    row = [False] * len(self.loops)
                    row[reach.start : reach.stop] = [True] * len(reach)
                    row[at] = False
                    mask += (row + missing)[:loops]
            else:
                width = len(_MARKS)
                for at in here:
                    legal = self.marks(at)
                    mask += [mark in legal for mark in _MARKS] if legal else _NO_MARK
            mask += missing * width
        return mask

    # Inside

    def _carrying(self, suffix: int) -> int:
        """Position of the first of the reduction loops that stand directly above a suffix."""
        start = suffix
        while start > self.parallel and self.reduced[start - 1]:
            start -= 1
        return start

    def _parts_sums(self, at: int) -> bool:
        """Whether a plain loop on the variable right above the suffix makes a stream illegal.

        The output of a stream is not read again: no reduction loop may lie further out.
        """
        return self.streamed and not self.reduced[at] and self.carrying < self.suffix

    def _block(self, at: int) -> tuple[int, int]:
        """The positions among which the order of loops is free but for loops on one variable."""
        if at < self.parallel:
            return 0, self.parallel
        if at >= self.suffix:
            return self.suffix, len(self.loops)
        if not self.streamed:
            return self.parallel, self.suffix
        low = at < self.carrying
        return (self.parallel, self.carrying) if low else (self.carrying, self.suffix)

    def _can_share(self, at: int) -> bool:
        """Whether threads can share out the first loop that is not parallel, too."""
        if self.reduced[at]:
            return at == 0 and self.rules.partial_results and not self.streamed
        return at == 0 or not self.reduced[0]

    def _can_vectorize(self, at: int) -> bool:
        loop = self.loops[at]
        alone = self.vectorized < 0 or self.vectorized == at
        return alone and loop.step == 1 and loop.variable in self.rules.vectorizable

    def _can_stream(self, at: int) -> bool:
        return not self.reduced[at] and not any(
            self.reduced[: self._carrying(min(at, self.suffix))]
        )


rules_of = lru_cache(maxsize=256)(ActionRules)
"""The rules of a nest, kept for the next call."""


def legal_actions(
    schedule: Schedule,
    nest: Nest,
    factors: tuple[int, ...] = FACTORS,
    kinds: tuple[ActionKind, ...] = tuple(ActionKind),
) -> list[Action]:
    """The members of the schedule's `family` that are legal, in a fixed order."""
    count = len(schedule.loops)
    mask = LegalActions(schedule, rules_of(nest)).mask(count, factors, kinds)
    return list(compress(family(count, factors, kinds), mask))
