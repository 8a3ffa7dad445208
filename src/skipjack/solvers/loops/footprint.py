"""How much straight-line code and how many registers the marked suffix of a schedule takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from skipjack.core.nest import Nest
from skipjack.solvers.loops.schedule import Mark, Schedule, is_legal, ranges


def suffix_trips(schedule: Schedule, nest: Nest, lanes: int) -> tuple[int, ...]:
    """How many copies each loop of the marked suffix makes; a vectorised loop counts in vectors."""
    start = schedule.suffix_start
    pairs = zip(schedule.loops[start:], ranges(schedule, nest)[start:], strict=True)
    return tuple(
        -(-covered // (lanes if loop.mark is Mark.VECTORIZE else loop.step))
        for loop, covered in pairs
    )


def unrolled_copies(schedule: Schedule, nest: Nest, lanes: int) -> int:
    """How often the body stands in the code of the innermost loop."""
    return prod(suffix_trips(schedule, nest, lanes))


def accumulator_vectors(schedule: Schedule, nest: Nest, lanes: int) -> int:
    """How many vectors hold partial results at once; 0 if nothing is reduced."""
    if not nest.reduction:
        return 0
    reduced = nest.reduction_loops
    suffix = schedule.loops[schedule.suffix_start :]
    return prod(
        trips
        for loop, trips in zip(suffix, suffix_trips(schedule, nest, lanes), strict=True)
        if loop.mark is Mark.ACCUMULATE or loop.variable not in reduced
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """What a machine and a code generator can stand."""

    lanes: int
    """Elements in a vector."""
    registers: int
    """Vector registers; twice as many accumulators are tolerated, the rest being spilled."""
    max_unrolled: int
    """Copies of the body in straight-line code."""

    def allow(self, schedule: Schedule, nest: Nest) -> bool:
        """Whether a legal schedule keeps within the limits."""
        return (
            unrolled_copies(schedule, nest, self.lanes) <= self.max_unrolled
            and accumulator_vectors(schedule, nest, self.lanes) <= 2 * self.registers
        )

    def admit(self, schedule: Schedule, nest: Nest) -> bool:
        """Whether a schedule is legal and keeps within the limits."""
        return is_legal(schedule, nest) and self.allow(schedule, nest)

    def fit(self, schedule: Schedule, nest: Nest) -> Schedule:
        """The legal schedule with marks taken off the top of its suffix until it is allowed."""
        while not self.allow(schedule, nest):
            start = schedule.suffix_start
            loops = list(schedule.loops)
            loops[start] = replace(loops[start], mark=Mark.NONE)
            schedule = Schedule(tuple(loops))
        return schedule
