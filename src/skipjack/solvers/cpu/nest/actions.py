"""Single steps on schedules (split, merge, swap, move, mark), and which of them are legal.

Every action is a pure function of a legal schedule; it gives a legal schedule or raises
`ScheduleError`. `LegalActions` decides which actions are legal without trying them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import compress

from skipjack.core import Nest
from skipjack.errors import ScheduleError
from skipjack.reading import numbered
from skipjack.solvers.cpu.nest.schedule import (
    MAX_STEP,
    Loop,
    Mark,
    Schedule,
    can_vectorize,
    check,
    loop_range,
    partial_results_fault,
)

FACTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32)
"""The factors that are offered for splits; `split` itself accepts any."""


class ActionKind(StrEnum):
    """What an action does."""

    SPLIT = "split"
    MERGE = "merge"
    SWAP = "swap"
    MOVE = "move"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on the loop at a position; the argument is a factor, a position or a mark."""

    kind: ActionKind
    position: int
    argument: int | Mark = 0

    def __post_init__(self) -> None:
        if isinstance(self.argument, Mark) != (self.kind is ActionKind.MARK):
            raise ScheduleError(f"action {self.kind} cannot take the argument {self.argument!r}")

    def __str__(self) -> str:
        return f"{self.kind} {self.position} {self.argument!s}".rstrip()


def split(schedule: Schedule, nest: Nest, position: int, factor: int) -> Schedule:
    """Put a loop with a step `factor` times as long around the loop.

    If the loop is in the marked suffix, it stays there as the inner loop, and the outer one goes
    directly above the suffix. A parallel loop stays parallel, and the inner one goes directly below
    the parallel loops.
    """
    loop = _loop_at(schedule, position)
    step = loop.step * factor
    covered = loop_range(schedule, position, nest)
    if factor < 2 or step >= covered:
        raise ScheduleError(
            f"loop {loop.text()} over a range of {covered} cannot be split by {factor}; "
            "the factor must be at least 2 and the new step less than the range"
        )
    loops = list(schedule.loops)
    if loop.mark is Mark.PARALLEL:
        loops[position] = replace(loop, step=step)
        below = sum(each.mark is Mark.PARALLEL for each in loops)
        loops.insert(below, Loop(loop.variable, loop.step))
    else:
        loops.insert(min(position, schedule.suffix_start), Loop(loop.variable, step))
    return _legal(loops, nest)


def merge(schedule: Schedule, nest: Nest, position: int) -> Schedule:
    """Remove the loop; the next inner one on its variable then covers its range.

    The innermost loop on a variable stays, and the next outer one is removed instead.
    """
    loop = _loop_at(schedule, position)
    same = [at for at, each in enumerate(schedule.loops) if each.variable == loop.variable]
    if len(same) == 1:
        raise ScheduleError(f"loop {loop.text()} is the only one on its variable; nothing to merge")
    gone = same[-2] if position == same[-1] else position
    return _legal([each for at, each in enumerate(schedule.loops) if at != gone], nest)


def swap(schedule: Schedule, nest: Nest, position: int) -> Schedule:
    """Exchange the loop with the next inner one."""
    loop = _loop_at(schedule, position)
    if position + 1 == len(schedule.loops):
        raise ScheduleError(
            f"loop {loop.text()} is the innermost; there is nothing to swap it with"
        )
    return move(schedule, nest, position, position + 1)


def move(schedule: Schedule, nest: Nest, position: int, to: int) -> Schedule:
    """Move the loop to position `to`."""
    loop = _loop_at(schedule, position)
    _loop_at(schedule, to)
    if to == position:
        raise ScheduleError(f"loop {loop.text()} is already at position {to}")
    low, high = sorted((position, to))
    crossed = (
        each for at, each in enumerate(schedule.loops[low : high + 1], low) if at != position
    )
    if any(each.variable == loop.variable for each in crossed):
        raise ScheduleError(f"loop {loop.text()} cannot cross another loop on {loop.variable}")
    loops = list(schedule.loops)
    loops.insert(to, loops.pop(position))
    return _legal(loops, nest)


def mark(schedule: Schedule, nest: Nest, position: int, mark: Mark) -> Schedule:
    """Give the loop another mark, or none."""
    loop = _loop_at(schedule, position)
    if loop.mark is mark:
        raise ScheduleError(f"loop {loop.text()} already has the mark {mark.value!r}")
    loops = list(schedule.loops)
    loops[position] = replace(loop, mark=mark)
    return _legal(loops, nest)


def apply(action: Action, schedule: Schedule, nest: Nest) -> Schedule:
    match action.kind:
        case ActionKind.SPLIT:
            return split(schedule, nest, action.position, int(action.argument))
        case ActionKind.MERGE:
            return merge(schedule, nest, action.position)
        case ActionKind.SWAP:
            return swap(schedule, nest, action.position)
        case ActionKind.MOVE:
            return move(schedule, nest, action.position, int(action.argument))
        case ActionKind.MARK:
            return mark(schedule, nest, action.position, Mark(str(action.argument)))


@lru_cache(maxsize=64)
def all_actions(
    loops: int,
    factors: tuple[int, ...] = FACTORS,
    kinds: tuple[ActionKind, ...] = tuple(ActionKind),
) -> tuple[Action, ...]:
    """Every action on a schedule of `loops` loops, legal or not, in a fixed order."""
    arguments: dict[ActionKind, Sequence[int | Mark]] = {
        ActionKind.SPLIT: factors,
        ActionKind.MERGE: (0,),
        ActionKind.SWAP: (0,),
        ActionKind.MOVE: range(loops),
        ActionKind.MARK: tuple(Mark),
    }
    return tuple(
        Action(kind, at, argument)
        for kind in kinds
        for at in range(loops)
        for argument in arguments[kind]
    )


def _loop_at(schedule: Schedule, position: int) -> Loop:
    if not 0 <= position < len(schedule.loops):
        raise ScheduleError(
            f"schedule '{schedule.text()}' has no loop at position {position}; "
            f"it has {numbered(len(schedule.loops), 'loop')}, counted from 0"
        )
    return schedule.loops[position]


def _legal(loops: Sequence[Loop], nest: Nest) -> Schedule:
    schedule = Schedule(tuple(loops))
    check(schedule, nest)
    return schedule


# Which actions are legal on a schedule, decided without trying them: agrees with `apply`.

_MARKS = tuple(Mark)
_NONE, _VECTORIZE, _UNROLL, _ACCUMULATE, _PARALLEL, _STREAM = _MARKS
# Looking up a member of an enumeration in its class takes 0.1 µs, which is long here.
_NO_MARK = [False] * len(_MARKS)


class ActionRules:
    """The properties of a nest that the rules use: keep one for all schedules of the nest."""

    __slots__ = ("extents", "partial_results", "reduced", "vectorizable")

    def __init__(self, nest: Nest) -> None:
        self.extents = {name: min(extent, MAX_STEP + 1) for name, extent in nest.loops}
        self.reduced = frozenset(nest.reduction_loops)
        self.vectorizable = frozenset(name for name in self.extents if can_vectorize(name, nest))
        self.partial_results = not partial_results_fault(nest)


class LegalActions:
    """The legal actions on one schedule, which must itself be legal for the nest.

    Positions must be those of loops; only `allows` and `mask` accept any.
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
        """Splits by factors from 2 up to this are legal; 1 if none is."""
        if at < self.parallel:
            # The new loop goes below the parallel ones.
            if self.inner[at] < self.parallel:
                return 1
        elif at >= self.suffix and (self.outer[at] >= self.suffix or self._parts_sums(at)):
            # The new loop goes above the suffix.
            return 1
        return (self.covered[at] - 1) // self.loops[at].step

    def can_merge(self, at: int) -> bool:
        return self.outer[at] >= 0 or self.inner[at] < len(self.loops)

    def reach(self, at: int) -> range:
        """The positions that a loop can be moved to, including its own."""
        low, high = self._block(at)
        return range(max(low, self.outer[at] + 1), min(high, self.inner[at]))

    def marks(self, at: int) -> list[Mark]:
        """The marks that can replace a loop's mark."""
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

    def allows(self, action: Action) -> bool:
        """Whether `apply` would succeed."""
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
        """For every member of `all_actions(loops, ...)`, whether it is legal.

        The schedule may have more or fewer loops.
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

    def _carrying(self, suffix: int) -> int:
        """Position of the first of the reduction loops directly above a suffix."""
        start = suffix
        while start > self.parallel and self.reduced[start - 1]:
            start -= 1
        return start

    def _parts_sums(self, at: int) -> bool:
        """Whether a plain loop on the variable directly above the suffix makes streaming illegal.

        Streamed output must not be read again: no reduction loop may lie further out.
        """
        return self.streamed and not self.reduced[at] and self.carrying < self.suffix

    def _block(self, at: int) -> tuple[int, int]:
        """The positions within which loops can be reordered, except loops on the same variable."""
        if at < self.parallel:
            return 0, self.parallel
        if at >= self.suffix:
            return self.suffix, len(self.loops)
        if not self.streamed:
            return self.parallel, self.suffix
        low = at < self.carrying
        return (self.parallel, self.carrying) if low else (self.carrying, self.suffix)

    def _can_share(self, at: int) -> bool:
        """Whether the first loop that is not parallel can become parallel."""
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
"""The rules of a nest, cached."""


def legal_actions(
    schedule: Schedule,
    nest: Nest,
    factors: tuple[int, ...] = FACTORS,
    kinds: tuple[ActionKind, ...] = tuple(ActionKind),
) -> list[Action]:
    """The legal actions on a schedule, in a fixed order."""
    count = len(schedule.loops)
    mask = LegalActions(schedule, rules_of(nest)).mask(count, factors, kinds)
    return list(compress(all_actions(count, factors, kinds), mask))
