"""How a row program is run: vectors, copies, rows at a time, and what is kept or streamed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skipjack.core.cpu_levels import lanes_for
from skipjack.core.nest import Accumulator, Call, Scalar
from skipjack.core.program import RowProgram, Statistic, View, parts

AGAIN, OUTPUT, SCRATCH = "again", "output", "scratch"
"""Where a reduced expression waits for the result: nowhere (it is computed again), in the output,
or in memory of the kernel's own that stays in the caches."""

_CHEAP = frozenset({"add", "sub", "mul", "neg", "abs", "square", "max", "min", "relu"})


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The settings that decide the code of a row program."""

    lanes: int
    copies: int = 1
    """Vectors in a round of a sweep, each with its own accumulators."""
    rows: int = 1
    """Groups that are computed together."""
    keep: str = AGAIN
    streaming: bool = False
    """Write the result past the caches, where it is aligned for that."""
    parallel: bool = False
    """Share the groups out to threads."""
    ahead: bool = False
    """Fetch the next rows while these are written."""
    block: int = 0
    """Groups whose segments are visited in the order of memory, with their accumulators there;
    0 keeps accumulators of `rows` groups in registers."""
    aligned: bool = False
    """Start rows that begin anywhere with part of a vector, so that the others of the output are
    aligned; otherwise they end with it."""
    chunk: int = 0
    """Vectors of a row that are read once for a maximum and what is relative to it; 0 sweeps over
    whole rows for each."""
    pieces: int = 0
    """Share every group out to so many threads; 0 shares whole groups."""


def kept_part(program: RowProgram) -> Scalar | None:
    """What a reduction computes for every element and the result needs again, if anything.

    A few products are computed again in less time than it takes to store and load them.
    """
    inside = set(parts(program.body))
    for statistic in reversed(program.statistics):
        body = statistic.body
        if statistic.reduction == "sum" and _is_costly(body) and body in inside:
            return body
    return None


def _is_costly(scalar: Scalar) -> bool:
    return any(isinstance(part, Call) and part.function not in _CHEAP for part in parts(scalar))


def nonpositive_powers(program: RowProgram) -> frozenset[Scalar]:
    """The exponentials of a program whose argument is a difference to its own maximum."""
    largest = {
        Call("sub", (statistic.body, Accumulator(statistic.name)))
        for statistic in program.statistics
        if statistic.reduction == "max" and statistic.epilogue == Accumulator()
    }
    trees = [*(statistic.body for statistic in program.statistics), program.body]
    calls = (part for tree in trees for part in parts(tree) if isinstance(part, Call))
    return frozenset(
        call for call in calls if call.function == "exp" and call.arguments[0] in largest
    )


def chunkable(program: RowProgram) -> tuple[Statistic, Statistic] | None:
    """The maximum and the sum of exponentials relative to it, if a program is made of these."""
    further = program.results or program.column_sums
    if program.segments > 1 or further or [len(p) for p in program.passes()] != [1, 1]:
        return None
    (largest,), (total,) = program.passes()
    power = Call("exp", (Call("sub", (largest.body, Accumulator(largest.name))),))
    fits = total.reduction == "sum" and total.body == power in nonpositive_powers(program)
    return (largest, total) if fits else None


def can_stream(program: RowProgram, lanes: int) -> bool:
    """Whether every vector of the output is aligned if the first one is."""
    out = program.output
    return not any(size % lanes for size in (program.columns, out.group, out.segment))


def can_align(program: RowProgram, lanes: int) -> bool:
    """Whether rows begin anywhere, and hold a vector at least."""
    return not can_stream(program, lanes) and program.columns >= lanes > 1


def can_block(program: RowProgram) -> bool:
    """Whether groups lie in pieces, so that the order of memory is not that of groups."""
    return program.segments > 1 and program.groups > 1


def can_divide(program: RowProgram, pieces: int, lanes: int) -> bool:
    """Whether every group has a vector at least, or a segment, for each thread."""
    if program.column_sums:
        return False
    if program.segments > 1:
        return program.segments >= pieces
    return program.columns >= pieces * lanes


def divided(program: RowProgram, pieces: int, lanes: int) -> tuple[RowProgram, int]:
    """The program with a segment for each piece, and the columns that are left over behind them.

    Pieces begin at whole vectors.
    """
    if program.segments > 1:
        return program, 0
    columns = program.columns // pieces // lanes * lanes

    def cut(view: View) -> View:
        return replace(view, segment=columns) if view.column else view

    whole = replace(
        program,
        segments=pieces,
        columns=columns,
        inputs=tuple(map(cut, program.inputs)),
        output=cut(program.output),
    )
    return whole, program.columns - pieces * columns


def fitted(plan: RowsPlan, program: RowProgram) -> RowsPlan:
    """The plan without what makes no difference for this program or cannot be done."""
    lanes = lanes_for(program.columns, plan.lanes)
    block = min(plan.block, program.groups) if can_block(program) else 0
    pieces = plan.pieces if plan.parallel and can_divide(program, plan.pieces, lanes) else 0
    block = program.groups if pieces else block
    keep = plan.keep if kept_part(program) is not None else AGAIN
    if keep == SCRATCH and (block or program.segments > 1):
        keep = OUTPUT
    chunk = 0
    if lanes > 1 and not pieces and chunkable(program):
        chunk = min(plan.chunk, -(-program.columns // lanes))
    aligned = plan.aligned and can_align(program, lanes)
    streaming = plan.streaming and (aligned or can_stream(program, lanes)) and keep != OUTPUT
    return RowsPlan(
        lanes=lanes,
        copies=min(plan.copies, -(-program.columns // lanes)),
        rows=1 if block or chunk else min(plan.rows, program.groups),
        keep=keep,
        streaming=streaming,
        parallel=plan.parallel,
        ahead=plan.ahead and not block,
        block=block,
        aligned=aligned,
        chunk=chunk,
        pieces=pieces,
    )
