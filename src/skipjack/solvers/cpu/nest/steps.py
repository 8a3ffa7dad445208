"""Small steps from one schedule to others: the neighbourhood that searches walk in.

Most steps are single actions (`actions`). Some useful changes would take two or three of them,
through a schedule that is slower or over the limits, so they are steps of their own: another length
for a tile, a register tile made of a plain loop, a register tile folded back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.action_rules import legal_actions
from skipjack.solvers.cpu.nest.actions import FACTORS, ActionKind, apply
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, ranges

Step = Callable[[Schedule, Nest, int], Iterator[Schedule]]
"""From a legal schedule, a nest and the number of lanes to schedules that may not be legal."""


def lengths(lanes: int) -> tuple[int, ...]:
    """The factors that tiles are made with: a fixed list and multiples of a vector."""
    return tuple(sorted({*FACTORS, *(lanes * vectors for vectors in range(1, 9))} - {1}))


def _acting(kind: ActionKind) -> Step:
    def step(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
        for action in legal_actions(schedule, nest, lengths(lanes), kinds=(kind,)):
            yield apply(action, schedule, nest)

    return step


def _resize(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Give an outer loop another multiple of the next inner loop's step."""
    covered = ranges(schedule, nest)
    for at, loop in enumerate(schedule.loops):
        inner = next((x.step for x in schedule.loops[at + 1 :] if x.variable == loop.variable), 0)
        for length in lengths(lanes) if inner else ():
            if loop.step != inner * length < covered[at]:
                yield _with(schedule, at, replace(loop, step=inner * length))


def _tile(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Make a register tile of a plain loop: the inner part goes into the suffix, unrolled."""
    covered = ranges(schedule, nest)
    top = schedule.suffix_start
    for at, loop in enumerate(schedule.loops[:top]):
        if loop.step != 1:
            continue
        for length in lengths(lanes):
            if length < covered[at]:
                loops = list(schedule.loops)
                loops[at] = replace(loop, step=length)
                loops.insert(top, Loop(loop.variable, 1, Mark.UNROLL))
                yield Schedule(tuple(loops))


def _fold(schedule: Schedule, nest: Nest, lanes: int) -> Iterator[Schedule]:
    """Fold a loop of the suffix back into the next outer loop on its variable."""
    for at in range(schedule.suffix_start, len(schedule.loops)):
        loop = schedule.loops[at]
        above = [x for x in range(at) if schedule.loops[x].variable == loop.variable]
        if above and not loop.mark.in_vectors:
            loops = list(schedule.loops)
            loops[above[-1]] = replace(loops[above[-1]], step=loop.step)
            del loops[at]
            yield Schedule(tuple(loops))


def _with(schedule: Schedule, at: int, loop: Loop) -> Schedule:
    return Schedule((*schedule.loops[:at], loop, *schedule.loops[at + 1 :]))


STEPS: Mapping[str, Step] = {
    "resize": _resize,
    "tile": _tile,
    "fold": _fold,
    "swap": _acting(ActionKind.SWAP),
    "mark": _acting(ActionKind.MARK),
    "merge": _acting(ActionKind.MERGE),
    "split": _acting(ActionKind.SPLIT),
    "move": _acting(ActionKind.MOVE),
}
"""The kinds of steps, in the order in which neighbours are listed."""
