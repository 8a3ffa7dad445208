"""A schedule: the order and the steps of the loops of a nest, how they run, and which are legal.

A schedule is a list of loops, outermost first. Its text has one word per loop: in ``m:12 n:32 k
m/u n/v`` m runs in steps of 12, n in steps of 32 and k in steps of 1, then the 12 values of m are
unrolled and the 32 values of n lie in vectors. A loop with step s runs over its range (the step of
the next outer loop on the same variable, else the extent) in strides of s. If s does not divide
the range, the last stride is shorter, and the inner loops on that variable cover the rest. From
the outside in, a legal schedule has parallel loops, plain loops, and a marked suffix (unrolled,
vectorised, accumulating) that becomes straight-line code. Legal schedules are in normal form, and
text and schedule map one to one. Marks: see `Mark`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from skipjack.core import Access, Load, Nest, subexpressions
from skipjack.errors import ScheduleError


class Mark(StrEnum):
    """How a loop runs.

    Several parallel loops, each on another variable, are shared out together. A reduction loop can
    be parallel if it is the only parallel loop: every thread has a partial result, and these are
    combined at the end.
    """

    NONE = ""
    VECTORIZE = "v"  # its elements lie in vectors
    UNROLL = "u"
    ACCUMULATE = "a"  # unrolled, each copy with an accumulator of its own
    PARALLEL = "p"  # shared out to threads
    STREAM = "s"  # vectorised, and stored past the caches

    @property
    def in_suffix(self) -> bool:
        """Whether a loop with this mark becomes straight-line code at the bottom of the nest."""
        return self not in (Mark.NONE, Mark.PARALLEL)

    @property
    def in_vectors(self) -> bool:
        """Whether the elements of a loop with this mark lie in vectors."""
        return self in (Mark.VECTORIZE, Mark.STREAM)


MAX_STEP = 10**18 - 1
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD = re.compile(r"([A-Za-z_]\w*)(?::([1-9]\d{0,17}))?(?:/([vuaps]))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: its variable, its step, and how it runs."""

    variable: str
    step: int = 1
    mark: Mark = Mark.NONE

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.variable):
            raise ScheduleError(
                f"a loop cannot be named {self.variable!r}; use letters, digits and underscores"
            )
        if not 1 <= self.step <= MAX_STEP:
            raise ScheduleError(
                f"the loop on {self.variable} cannot have a step of {self.step}; use 1 or more"
            )

    def text(self) -> str:
        """The text of the loop: ``variable[:step][/mark]``."""
        step = f":{self.step}" if self.step != 1 else ""
        mark = f"/{self.mark}" if self.mark else ""
        return f"{self.variable}{step}{mark}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The loops of a nest, outermost first."""

    loops: tuple[Loop, ...]

    def text(self) -> str:
        """The texts of the loops joined by spaces; `parse` is the inverse."""
        return " ".join(loop.text() for loop in self.loops)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule with exactly this text."""
        return cls(tuple(map(_parse_loop, text.split(" "))) if text else ())

    def chain(self, variable: str) -> tuple[Loop, ...]:
        """The loops on one variable, outermost first."""
        return tuple(loop for loop in self.loops if loop.variable == variable)

    @property
    def suffix_start(self) -> int:
        """Position of the first loop of the marked suffix; the number of loops if there is none."""
        start = len(self.loops)
        while start and self.loops[start - 1].mark.in_suffix:
            start -= 1
        return start

    @property
    def vectorized(self) -> Loop | None:
        """The loop that lies in vectors, if there is one."""
        return next((loop for loop in self.loops if loop.mark.in_vectors), None)

    def __str__(self) -> str:
        return self.text()


def _parse_loop(word: str) -> Loop:
    match = _WORD.fullmatch(word)
    if not match:
        raise ScheduleError(
            f"{word!r} is not a loop of a schedule; write variable[:step][/mark] with a mark of "
            "v, s, u, a or p, and one space between loops, as in 'm:4 n:64 k m/u n/v'"
        )
    if match[2] == "1":
        raise ScheduleError(f"{word!r} in a schedule: a step of 1 is left out")
    return Loop(match[1], int(match[2] or 1), Mark(match[3] or ""))


def ranges(schedule: Schedule, nest: Nest) -> tuple[int, ...]:
    """The range of every loop: the number of elements of its variable that it covers."""
    left = dict(nest.loops)
    found = []
    for loop in schedule.loops:
        found.append(left[loop.variable])
        left[loop.variable] = loop.step
    return tuple(found)


def loop_range(schedule: Schedule, position: int, nest: Nest) -> int:
    """The range of one loop: the step of the next outer loop on its variable, else the extent."""
    return ranges(schedule, nest)[position]


def normalize(loops: Iterable[Loop], nest: Nest) -> Schedule:
    """The equivalent schedule without the loops that run only once."""
    left = dict(nest.loops)
    kept = []
    for loop in loops:
        if loop.step < left[loop.variable]:
            kept.append(loop)
            left[loop.variable] = loop.step
    return Schedule(tuple(kept))


def long_variables(nest: Nest) -> tuple[str, ...]:
    """The variables that have loops: those with an extent above 1."""
    return tuple(name for name, extent in nest.loops if extent > 1)


# Which schedules are legal for a nest, and the reasons why others are not.


def can_vectorize(variable: str, nest: Nest) -> bool:
    """Whether consecutive values of the variable can lie in one vector.

    Inputs must be contiguous along it or not depend on it. The output must be contiguous, unless
    the variable is reduced: then at least one input must be contiguous.
    """
    strides = {access.stride(variable) for access in nest.inputs}
    if not strides <= {0, 1}:
        return False
    if variable in nest.reduction_loops:
        return 1 in strides
    return nest.output.stride(variable) == 1


def vector_variables(nest: Nest, lanes: int) -> tuple[str, ...]:
    """The variables that can be vectorised, best first: those of the output, then reductions."""
    if lanes < 2:
        return ()
    reduced = nest.reduction_loops
    able = [name for name in long_variables(nest) if can_vectorize(name, nest)]
    return tuple(sorted(able, key=lambda name: (name in reduced, -nest.extent(name))))


def carrying_start(schedule: Schedule, nest: Nest) -> int:
    """Position of the first of the reduction loops directly above the marked suffix.

    They carry the accumulators in registers. A reduction loop further out, or shared out to
    threads, starts from the values that earlier iterations have written.
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
            fault = _parallel_reduction_fault(schedule, nest, at)
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


def _parallel_reduction_fault(schedule: Schedule, nest: Nest, position: int) -> str:
    if position or any(loop.mark is Mark.PARALLEL for loop in schedule.loops[1:]):
        return "it is not the only parallel loop"
    return partial_results_fault(nest)


def partial_results_fault(nest: Nest) -> str:
    """Why threads cannot have partial results of the nest under any schedule; empty if they can."""
    if not _is_complete(nest.output, nest):
        return "the nest does not write all of its output"
    if any(isinstance(part, Load) for part in subexpressions(nest.epilogue)):
        return "the expression after the reduction reads arrays"
    return ""


def _is_complete(output: Access, nest: Nest) -> bool:
    """Whether the loops that are not reduced reach all of the output; then each element once."""
    reduced = nest.reduction_loops
    return prod(size for name, size in nest.loops if name not in reduced) == output.tensor.size


def _stream_fault(schedule: Schedule, nest: Nest, loop: Loop) -> str:
    """Why the output must not be stored past the caches; empty if it may."""
    reduced = nest.reduction_loops
    if loop.variable in reduced:
        return "it reduces"
    outer = schedule.loops[: carrying_start(schedule, nest)]
    again = next((each for each in outer if each.variable in reduced), None)
    return f"loop {again.text()} reads the output again" if again else ""
