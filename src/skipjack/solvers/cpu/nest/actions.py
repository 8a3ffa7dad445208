"""Single steps on schedules: split, merge, swap, move and mark.

Every action is a pure function of a legal schedule; it gives a legal schedule or raises
`ScheduleError`. Which ones are legal is decided without trying them in `action_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from skipjack.core.nest import Nest
from skipjack.errors import ScheduleError
from skipjack.reading import numbered
from skipjack.solvers.cpu.nest.legality import check
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, loop_range

FACTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32)
"""The factors that are offered for splits; `split` itself takes any."""


class ActionKind(StrEnum):
    """What an action does."""

    SPLIT = "split"
    MERGE = "merge"
    SWAP = "swap"
    MOVE = "move"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Action:
    """An action on the loop at a position. The argument is a factor, a position or a mark."""

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

    The inner loop stays where it is if it is in the marked suffix, and the outer one goes right
    above the suffix. A parallel loop stays parallel, and the inner one goes right below the
    parallel loops.
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
    """Remove the loop, so that the next inner one on its variable covers its range.

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
    """Take the loop out and put it back so that it lies at position `to`."""
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
    """The schedule after the action."""
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
def family(
    loops: int,
    factors: tuple[int, ...] = FACTORS,
    kinds: tuple[ActionKind, ...] = tuple(ActionKind),
) -> tuple[Action, ...]:
    """Every action on a schedule of so many loops, legal or not, in a fixed order."""
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
