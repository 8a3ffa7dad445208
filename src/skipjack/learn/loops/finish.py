"""What a backend that marks loops by itself makes of a schedule without marks.

LoopNest vectorises the innermost loop and keeps as much of the result in registers as fits. Here a
schedule without marks is scalar code, so the preset `looptune` builds what `finish` makes of it.
"""

from __future__ import annotations

from dataclasses import replace

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest import (
    Loop,
    Mark,
    Schedule,
    ScheduleLimits,
    accumulator_vectors,
    can_vectorize,
    ranges,
    unrolled_copies,
)

_LOADED = 2
"""Registers that are left for what is loaded."""
_COPIES = 128
"""Of the body in straight-line code; more are longer to compile and no faster."""


def finish(schedule: Schedule, nest: Nest, limits: ScheduleLimits) -> Schedule:
    """The schedule with marks from the innermost loop outwards, while sums fit the registers.

    The innermost loop is vectorised where that is legal and unrolled elsewhere; one that is too
    long is split first. A loop that reduces has accumulators of its own where there are registers
    for them.
    """
    if not schedule.loops:
        return schedule
    *outer, last = schedule.loops
    covered = ranges(schedule, nest)[-1]
    mark = Mark.VECTORIZE if can_vectorize(last.variable, nest) else Mark.UNROLL
    width = limits.lanes if mark is Mark.VECTORIZE else 1
    chunk = width << (_room(limits).bit_length() - 1)
    if chunk == 1:
        return schedule
    if covered > chunk:
        outer.append(Loop(last.variable, chunk))
    finished = Schedule((*outer, replace(last, mark=mark)))
    for at in reversed(range(len(outer))):
        marked = _marked(finished, at, nest, limits)
        if marked is None:
            break
        finished = marked
    return finished


def _marked(schedule: Schedule, at: int, nest: Nest, limits: ScheduleLimits) -> Schedule | None:
    """The schedule with the loop right above its suffix in the suffix; none if it does not fit."""
    loop = schedule.loops[at]
    reduces = loop.variable in nest.reduction_loops
    for mark in (Mark.ACCUMULATE, Mark.UNROLL) if reduces else (Mark.UNROLL,):
        loops = list(schedule.loops)
        loops[at] = replace(loop, mark=mark)
        marked = Schedule(tuple(loops))
        if _fits(marked, nest, limits):
            return marked
    return None


def _fits(schedule: Schedule, nest: Nest, limits: ScheduleLimits) -> bool:
    copies = unrolled_copies(schedule, nest, limits.lanes)
    if not nest.reduction:
        return copies <= _room(limits)
    sums = accumulator_vectors(schedule, nest, limits.lanes)
    return copies <= min(_COPIES, limits.max_unrolled) and sums <= _room(limits)


def _room(limits: ScheduleLimits) -> int:
    """Vectors of sums, or of results where nothing is summed, that stay in registers."""
    return min(max(1, limits.registers - _LOADED), limits.max_unrolled)
