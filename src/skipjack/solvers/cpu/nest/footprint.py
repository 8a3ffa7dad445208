"""What a schedule takes: code, registers, aligned vectors, threads; and its features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log2, prod

from skipjack.core import Nest, lanes_for
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, is_legal, normalize, ranges

# The size of the marked suffix: code, registers, and alignment of vectors.


def suffix_trips(schedule: Schedule, nest: Nest, lanes: int) -> tuple[int, ...]:
    """The copies that each loop of the marked suffix makes; a vectorised loop counts vectors."""
    start = schedule.suffix_start
    pairs = zip(schedule.loops[start:], ranges(schedule, nest)[start:], strict=True)
    return tuple(
        -(-covered // (lanes if loop.mark.in_vectors else loop.step)) for loop, covered in pairs
    )


def unrolled_copies(schedule: Schedule, nest: Nest, lanes: int) -> int:
    """The number of copies of the body in the code of the innermost loop."""
    return prod(suffix_trips(schedule, nest, lanes))


def accumulator_vectors(schedule: Schedule, nest: Nest, lanes: int) -> int:
    """The number of vectors that hold partial results; 0 if nothing is reduced."""
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
    """Lanes of a vector, as many as the vectorised loop needs."""
    for loop, covered in zip(schedule.loops, ranges(schedule, nest), strict=True):
        if loop.mark.in_vectors:
            return lanes_for(covered, lanes)
    return 1


def is_streaming(schedule: Schedule) -> bool:
    """Whether the output is to be stored past the caches."""
    loop = schedule.vectorized
    return loop is not None and loop.mark is Mark.STREAM


def is_aligned(schedule: Schedule, nest: Nest, lanes: int) -> bool:
    """Whether all vectors of the output are aligned, if the output itself is."""
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
    """Limits of a machine and of the code generator."""

    lanes: int
    """Elements in a vector."""
    registers: int
    """Vector registers; twice as many accumulators are allowed, and the excess is spilled."""
    max_unrolled: int
    """Most copies of the body in straight-line code."""

    def allow(self, schedule: Schedule, nest: Nest) -> bool:
        """Whether a legal schedule is within the limits."""
        return (
            unrolled_copies(schedule, nest, self.lanes) <= self.max_unrolled
            and accumulator_vectors(schedule, nest, self.lanes) <= 2 * self.registers
            and (not is_streaming(schedule) or is_aligned(schedule, nest, self.lanes))
        )

    def admit(self, schedule: Schedule, nest: Nest) -> bool:
        """Whether a schedule is legal and within the limits."""
        return is_legal(schedule, nest) and self.allow(schedule, nest)

    def fit(self, schedule: Schedule, nest: Nest) -> Schedule:
        """The schedule with marks removed from the top of its suffix until it is allowed.

        It keeps a streaming mark only if that is legal in the end.
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


# A schedule as numbers: the same number of features for every schedule of a nest.

_MARK_CODES = {
    Mark.NONE: 0.0,
    Mark.PARALLEL: 1.0,
    Mark.UNROLL: 2.0,
    Mark.ACCUMULATE: 3.0,
    Mark.VECTORIZE: 4.0,
    Mark.STREAM: 5.0,
}
_LOOPS_PER_VARIABLE = 3
_FEATURES_PER_LOOP = 5


def schedule_features(schedule: Schedule, nest: Nest, lanes: int) -> tuple[float, ...]:
    """Features of the whole schedule, then five for each of the innermost three loops per variable.

    For the schedule: log2 of the unrolled copies, log2 of the accumulators, number of loops. For a
    loop: log2 of step and range, mark, the tail's share of the range, and its depth (1 for the
    innermost). Missing loops are zeros.
    """
    numbers = [
        log2(unrolled_copies(schedule, nest, lanes)),
        log2(max(1, accumulator_vectors(schedule, nest, lanes))),
        float(len(schedule.loops)),
    ]
    rows = _rows(schedule, nest)
    for name, _ in nest.loops:
        inner = rows.get(name, [])[-_LOOPS_PER_VARIABLE:]
        missing = _LOOPS_PER_VARIABLE - len(inner)
        numbers += [0.0] * (_FEATURES_PER_LOOP * missing)
        numbers += [number for row in inner for number in row]
    return tuple(numbers)


def _rows(schedule: Schedule, nest: Nest) -> dict[str, list[tuple[float, ...]]]:
    """The features of every loop, by variable, outermost first."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    pairs = zip(schedule.loops, ranges(schedule, nest), strict=True)
    for at, (loop, covered) in enumerate(pairs, 1):
        row = (
            log2(loop.step),
            log2(covered),
            _MARK_CODES[loop.mark],
            covered % loop.step / covered,
            at / len(schedule.loops),
        )
        rows.setdefault(loop.variable, []).append(row)
    return rows


# Which loops of a schedule threads share out, and the possible ways, best first.
#
# The outermost loop is shared out if it has enough iterations for all threads to have about the
# same number. Otherwise a loop is put around everything that gives each thread one long part of
# a variable: of one that the output keeps, or of a reduced one, with partial results.

_BALANCE = 0.9
"""The least share of the threads' time that must be used."""
_RUN = 1024
"""Contiguous elements that a thread should have: parts much shorter than a page are slow."""
_WHOLE = 64
"""The part of a vectorised variable is a multiple of this many elements: whole vectors."""


def is_parallel(schedule: Schedule) -> bool:
    """Whether threads share out the outermost loop."""
    return bool(schedule.loops) and schedule.loops[0].mark is Mark.PARALLEL


def has_partials(schedule: Schedule, nest: Nest) -> bool:
    """Whether threads share out a reduction, so that each has a partial result."""
    return is_parallel(schedule) and schedule.loops[0].variable in nest.reduction_loops


def shared_loops(schedule: Schedule) -> tuple[Loop, ...]:
    """The parallel loops that are shared out together, each on another variable.

    A further parallel loop runs within a thread.
    """
    found: dict[str, Loop] = {}
    for loop in schedule.loops:
        if loop.mark is not Mark.PARALLEL or loop.variable in found:
            break
        found[loop.variable] = loop
    return tuple(found.values())


def shared_out(schedule: Schedule, nest: Nest, threads: int) -> Iterator[Schedule]:
    """Legal parallel forms of a schedule without parallel loops, best first."""
    if threads < 2 or not schedule.loops:
        return
    candidates = _top_shared(schedule, nest, threads) or _in_pieces(schedule, nest, threads)
    yield from (each for each in candidates if is_legal(each, nest))


def _top_shared(schedule: Schedule, nest: Nest, threads: int) -> list[Schedule]:
    top = schedule.loops[0]
    if top.mark or top.variable in nest.reduction_loops:
        return []
    rounds = -(-ranges(schedule, nest)[0] // top.step)
    if rounds / (-(-rounds // threads) * threads) < _BALANCE:
        return []
    return [Schedule((replace(top, mark=Mark.PARALLEL), *schedule.loops[1:]))]


def _in_pieces(schedule: Schedule, nest: Nest, threads: int) -> Iterator[Schedule]:
    """Put a loop with one iteration per thread around everything; long variables first."""
    reduced = nest.reduction_loops
    names = list(dict.fromkeys(loop.variable for loop in schedule.loops))

    def worth(name: str) -> tuple[bool, bool, int]:
        short = nest.extent(name) // threads < _RUN and _is_contiguous(name, nest)
        return short, name in reduced, -nest.extent(name)

    for name in sorted(names, key=worth):
        top = schedule.chain(name)[0]
        unit = _WHOLE if top.mark.in_vectors else top.step
        piece = -(-nest.extent(name) // (threads * unit)) * unit
        around = Loop(name, piece, Mark.PARALLEL)
        pieces = -(-nest.extent(name) // piece)
        if pieces > 1 and pieces / threads >= _BALANCE:
            yield normalize([around, *schedule.loops], nest)


def _is_contiguous(name: str, nest: Nest) -> bool:
    return any(access.stride(name) == 1 for access in nest.inputs)
