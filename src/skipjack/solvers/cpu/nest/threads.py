"""Which loops of a schedule threads share out, and how they could, best first.

The outermost loop is shared out where its rounds are many enough for all threads to have about the
same number. Elsewhere a loop is put around everything that gives each thread one long piece of a
variable: of one that the output keeps, or of a reduced one, with partial results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.legality import is_legal
from skipjack.solvers.cpu.nest.schedule import Loop, Mark, Schedule, normalize, ranges

_BALANCE = 0.9
"""Least share of the threads' time that is used where rounds are shared out."""
_RUN = 1024
"""Elements that a thread should find side by side: pieces much shorter than a page are slow."""
_WHOLE = 64
"""A piece of a variable that lies in vectors has a multiple of these elements: whole vectors."""


def is_parallel(schedule: Schedule) -> bool:
    """Whether threads share the outermost loop out."""
    return bool(schedule.loops) and schedule.loops[0].mark is Mark.PARALLEL


def has_partials(schedule: Schedule, nest: Nest) -> bool:
    """Whether threads share a reduction out, so that each has a partial result."""
    return is_parallel(schedule) and schedule.loops[0].variable in nest.reduction_loops


def shared_loops(schedule: Schedule) -> tuple[Loop, ...]:
    """The parallel loops that are shared out together: each is on another variable.

    A further parallel loop runs inside of a thread.
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
    """A loop with one round for each thread around everything; long variables first."""
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
