"""How a row program is run: vectors, copies, rows at a time, and what is kept or streamed."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.nest import Call, Scalar
from skipjack.core.program import RowProgram, parts


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The settings that decide the code of a row program."""

    lanes: int
    copies: int = 1
    """Vectors in a round of a sweep, each with its own accumulators."""
    rows: int = 1
    """Groups that are computed together."""
    keep: bool = False
    """Leave a reduced expression in the output, instead of computing it again for the result."""
    streaming: bool = False
    """Write the result past the caches, where it is aligned for that."""
    parallel: bool = False
    """Share the groups out to threads."""


def kept_part(program: RowProgram) -> Scalar | None:
    """What a reduction computes for every element and the result needs again, if anything."""
    inside = set(parts(program.body))
    for statistic in reversed(program.statistics):
        body = statistic.body
        if statistic.reduction == "sum" and isinstance(body, Call) and body in inside:
            return body
    return None


def can_stream(program: RowProgram, lanes: int) -> bool:
    """Whether every vector of the output is aligned if the first one is."""
    out = program.output
    return not any(size % lanes for size in (program.columns, out.group, out.segment))


def lanes_for(columns: int, lanes: int) -> int:
    """A range that half a vector covers gets a half, not a mask."""
    return min(lanes, 1 << (columns - 1).bit_length())


def fitted(plan: RowsPlan, program: RowProgram) -> RowsPlan:
    """The plan without what makes no difference for this program or cannot be done."""
    lanes = lanes_for(program.columns, plan.lanes)
    return RowsPlan(
        lanes=lanes,
        copies=min(plan.copies, -(-program.columns // lanes)),
        rows=min(plan.rows, program.groups),
        keep=plan.keep and kept_part(program) is not None,
        streaming=plan.streaming and can_stream(program, lanes),
        parallel=plan.parallel,
    )
