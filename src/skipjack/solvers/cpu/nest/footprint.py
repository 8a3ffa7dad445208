"""What the marked suffix of a schedule takes: code, registers, and places on whole vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from skipjack.core.cpu_levels import lanes_for
from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.legality import is_legal
from skipjack.solvers.cpu.nest.schedule import Mark, Schedule, ranges


def suffix_trips(schedule: Schedule, nest: Nest, lanes: int) -> tuple[int, ...]:
    """How many copies each loop of the marked suffix makes; a vectorised loop counts in vectors."""
    start = schedule.suffix_start
    pairs = zip(schedule.loops[start:], ranges(schedule, nest)[start:], strict=True)
    return tuple(
        -(-covered // (lanes if loop.mark.in_vectors else loop.step)) for loop, covered in pairs
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


def vector_lanes(schedule: Schedule, nest: Nest, lanes: int) -> int:
    """Lanes of a vector: as many as the vectorised loop needs."""
    for loop, covered in zip(schedule.loops, ranges(schedule, nest), strict=True):
        if loop.mark.in_vectors:
            return lanes_for(covered, lanes)
    return 1


def is_streaming(schedule: Schedule) -> bool:
    """Whether the output is to be stored past the caches."""
    loop = schedule.vectorized
    return loop is not None and loop.mark is Mark.STREAM


def is_aligned(schedule: Schedule, nest: Nest, lanes: int) -> bool:
    """Whether all vectors of the output begin on whole vectors, if the output itself does."""
    width = vector_lanes(schedule, nest, lanes)
    moves = [
        loop.step * nest.output.stride(loop.variable)
        for loop in schedule.loops
        if not loop.mark.in_vectors
    ]
    return all(move % width == 0 for move in (nest.output.offset, *moves))


def touched_elements(nest: Nest) -> int:
    """Elements of all arrays that the nest reads or writes."""
    accesses = (*nest.inputs, nest.output)
    return sum({access.tensor.name: access.tensor.size for access in accesses}.values())


def with_streaming(schedule: Schedule) -> Schedule:
    """The same schedule with stores past the caches."""
    return _marked(schedule, Mark.VECTORIZE, Mark.STREAM)


def without_streaming(schedule: Schedule) -> Schedule:
    """The same schedule with stores that go through the caches."""
    return _marked(schedule, Mark.STREAM, Mark.VECTORIZE)


def _marked(schedule: Schedule, old: Mark, new: Mark) -> Schedule:
    loops = (replace(loop, mark=new) if loop.mark is old else loop for loop in schedule.loops)
    return Schedule(tuple(loops))


@dataclass(frozen=True, slots=True)
class ScheduleLimits:
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
            and (not is_streaming(schedule) or is_aligned(schedule, nest, self.lanes))
        )

    def admit(self, schedule: Schedule, nest: Nest) -> bool:
        """Whether a schedule is legal and keeps within the limits."""
        return is_legal(schedule, nest) and self.allow(schedule, nest)

    def fit(self, schedule: Schedule, nest: Nest) -> Schedule:
        """The schedule with marks taken off the top of its suffix until it is allowed.

        It keeps a mark for streaming only where that is legal in the end.
        """
        fitted = without_streaming(schedule)
        while not self.allow(fitted, nest):
            start = fitted.suffix_start
            loops = list(fitted.loops)
            loops[start] = replace(loops[start], mark=Mark.NONE)
            fitted = Schedule(tuple(loops))
        if fitted.loops == without_streaming(schedule).loops and self.admit(schedule, nest):
            return schedule
        return fitted
