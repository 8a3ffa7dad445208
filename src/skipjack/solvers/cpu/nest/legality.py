"""Which schedules are legal for a nest, and why others are not."""

from __future__ import annotations

from math import prod

from skipjack.core.nest import Access, Load, Nest
from skipjack.core.program import parts
from skipjack.errors import ScheduleError
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, long_variables


def can_vectorize(variable: str, nest: Nest) -> bool:
    """Whether neighbouring values of the variable can lie in one vector.

    Inputs must be contiguous along it or not depend on it. So must the output be contiguous, unless
    the variable is reduced away: then at least one input must be contiguous.
    """
    strides = {access.stride(variable) for access in nest.inputs}
    if not strides <= {0, 1}:
        return False
    if variable in nest.reduction_loops:
        return 1 in strides
    return nest.output.stride(variable) == 1


def vector_variables(nest: Nest, lanes: int) -> tuple[str, ...]:
    """What can be vectorised, best first: contiguous in the output, then contiguous reductions."""
    if lanes < 2:
        return ()
    reduced = nest.reduction_loops
    able = [name for name in long_variables(nest) if can_vectorize(name, nest)]
    return tuple(sorted(able, key=lambda name: (name in reduced, -nest.extent(name))))


def carrying_start(schedule: Schedule, nest: Nest) -> int:
    """Position of the first of the reduction loops that stand directly above the marked suffix.

    They carry the accumulators in registers. A reduction loop further out, or shared out to
    threads, begins with what the rounds before it have written.
    """
    start = schedule.suffix_start
    reduced = nest.reduction_loops
    while start and schedule.loops[start - 1].variable in reduced:
        if schedule.loops[start - 1].mark is Mark.PARALLEL:
            break
        start -= 1
    return start


def check(schedule: Schedule, nest: Nest) -> None:
    """Raise `ScheduleError` with the first reason why the schedule is not legal for the nest."""
    reason = _chain_fault(schedule, nest) or _order_fault(schedule) or _mark_fault(schedule, nest)
    if reason:
        raise ScheduleError(f"schedule '{schedule.text()}' is not legal: {reason}")


def is_legal(schedule: Schedule, nest: Nest) -> bool:
    """Whether `check` passes."""
    return not (
        _chain_fault(schedule, nest) or _order_fault(schedule) or _mark_fault(schedule, nest)
    )


def _chain_fault(schedule: Schedule, nest: Nest) -> str:
    extents = dict(nest.loops)
    left = dict(extents)
    for loop in schedule.loops:
        name = loop.variable
        if name not in extents:
            return f"the nest has no variable {name}, it has {', '.join(extents) or 'none'}"
        if loop.step >= left[name]:
            return f"loop {loop.text()} runs once over its range of {left[name]}; leave it out"
        left[name] = loop.step
    for name, step in left.items():
        if step != 1 and not schedule.chain(name):
            return f"variable {name} has no loop"
        if step != 1:
            return f"the innermost loop on {name} has a step of {step}; add a loop with a step of 1"
    return ""


def _order_fault(schedule: Schedule) -> str:
    """Parallel loops come first, then plain ones, then the marked suffix."""
    plain_seen, suffix_seen = "", ""
    for loop in schedule.loops:
        if loop.mark.in_suffix:
            suffix_seen = suffix_seen or loop.text()
        elif suffix_seen:
            return (
                f"loop {loop.text()} lies inside of {suffix_seen}, which becomes straight-line code"
            )
        elif loop.mark is Mark.PARALLEL and plain_seen:
            return f"parallel loop {loop.text()} lies inside of {plain_seen}, which is not parallel"
        elif loop.mark is Mark.NONE:
            plain_seen = plain_seen or loop.text()
    return ""


def _mark_fault(schedule: Schedule, nest: Nest) -> str:
    reduced = nest.reduction_loops if any(loop.mark for loop in schedule.loops) else ()
    vectorized = ""
    for at, loop in enumerate(schedule.loops):
        if loop.mark is Mark.PARALLEL and loop.variable in reduced:
            fault = _partial_fault(schedule, nest, at)
            if fault:
                return f"loop {loop.text()} reduces and cannot be parallel: {fault}"
        if loop.mark is Mark.ACCUMULATE and loop.variable not in reduced:
            return f"loop {loop.text()} does not reduce, so it has nothing to accumulate"
        if not loop.mark.in_vectors:
            continue
        if vectorized:
            return f"loops {vectorized} and {loop.text()} are both vectorised"
        vectorized = loop.text()
        if loop.step != 1:
            return f"vectorised loop {loop.text()} must have a step of 1"
        if not can_vectorize(loop.variable, nest):
            return f"variable {loop.variable} cannot be vectorised: an access strides along it"
        if loop.mark is Mark.STREAM:
            fault = _stream_fault(schedule, nest, loop)
            if fault:
                return f"loop {loop.text()} cannot be stored past the caches: {fault}"
    return ""


def _partial_fault(schedule: Schedule, nest: Nest, position: int) -> str:
    """Why threads cannot have partial results."""
    if position or any(loop.mark is Mark.PARALLEL for loop in schedule.loops[1:]):
        return "it is not the only parallel loop"
    return partial_results_fault(nest)


def partial_results_fault(nest: Nest) -> str:
    """Why the nest's threads cannot have partial results, whatever the schedule; empty if not."""
    if not _is_complete(nest.output, nest):
        return "it leaves parts of the output alone"
    if any(isinstance(part, Load) for part in parts(nest.epilogue)):
        return "what follows the reduction reads arrays"
    return ""


def _is_complete(output: Access, nest: Nest) -> bool:
    """Whether the loops that remain reach all of the output; then they reach each element once."""
    reduced = nest.reduction_loops
    return prod(size for name, size in nest.loops if name not in reduced) == output.tensor.size


def _stream_fault(schedule: Schedule, nest: Nest, loop: Loop) -> str:
    """Why the output should not leave the caches."""
    reduced = nest.reduction_loops
    if loop.variable in reduced:
        return "it reduces"
    outer = schedule.loops[: carrying_start(schedule, nest)]
    again = next((each for each in outer if each.variable in reduced), None)
    return f"loop {again.text()} reads the output again" if again else ""
