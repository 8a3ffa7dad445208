"""How a row program is run (vectors, unrolling, blocks, threads), and its estimated time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skipjack.core import (
    Accumulator,
    Call,
    Device,
    RowProgram,
    Scalar,
    Statistic,
    View,
    lanes_for,
    subexpressions,
)

# The plan.

AGAIN, OUTPUT, SCRATCH = "again", "output", "scratch"
"""Where the values of a reduced expression are kept for the result: nowhere (they are computed
again), in the output, or in scratch memory that stays in the caches."""

_CHEAP = frozenset({"add", "sub", "mul", "neg", "abs", "square", "max", "min", "relu"})


@dataclass(frozen=True, slots=True)
class RowsPlan:
    """The settings that decide the code of a row program."""

    lanes: int
    copies: int = 1
    """Vectors per iteration of a sweep, each with its own accumulators."""
    rows: int = 1
    """Groups that are computed together."""
    keep: str = AGAIN
    streaming: bool = False
    """Write the result past the caches if it is aligned."""
    parallel: bool = False
    """Whether threads share out the groups."""
    ahead: bool = False
    """Whether the next rows are prefetched while these are written."""
    block: int = 0
    """Groups whose segments are visited in the order of memory, with accumulators in memory; 0
    keeps the accumulators of `rows` groups in registers."""
    aligned: bool = False
    """Whether unaligned rows start with a partial vector, so that the other vectors of the output
    are aligned; otherwise they end with it."""
    chunk: int = 0
    """Vectors of a row that are read once for both a maximum and the sum relative to it; 0 uses one
    sweep over the row for each."""
    pieces: int = 0
    """Parts of each group, one for each thread; 0 shares out whole groups."""


def kept_part(program: RowProgram) -> Scalar | None:
    """The expression that a reduction computes for every element and the result needs again, or
    None.

    Cheap expressions are computed again in less time than it takes to store and load them.
    """
    inside = set(subexpressions(program.body))
    for statistic in reversed(program.statistics):
        body = statistic.body
        if statistic.reduction == "sum" and _is_costly(body) and body in inside:
            return body
    return None


def _is_costly(scalar: Scalar) -> bool:
    return any(
        isinstance(part, Call) and part.function not in _CHEAP for part in subexpressions(scalar)
    )


def nonpositive_powers(program: RowProgram) -> frozenset[Scalar]:
    """The exponentials of a program whose argument is a difference to a maximum of the program."""
    largest = {
        Call("sub", (statistic.body, Accumulator(statistic.name)))
        for statistic in program.statistics
        if statistic.reduction == "max" and statistic.epilogue == Accumulator()
    }
    trees = [*(statistic.body for statistic in program.statistics), program.body]
    calls = (part for tree in trees for part in subexpressions(tree) if isinstance(part, Call))
    return frozenset(
        call for call in calls if call.function == "exp" and call.arguments[0] in largest
    )


def chunkable(program: RowProgram) -> tuple[Statistic, Statistic] | None:
    """A maximum and the sum of exponentials relative to it, if a program consists of these."""
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
    """Whether rows may start unaligned, and have at least one vector."""
    return not can_stream(program, lanes) and program.columns >= lanes > 1


def can_block(program: RowProgram) -> bool:
    """Whether groups lie in pieces, so that the order of memory is not the order of groups."""
    return program.segments > 1 and program.groups > 1


def can_divide(program: RowProgram, pieces: int, lanes: int) -> bool:
    """Whether every group has at least one vector, or one segment, for each thread."""
    if program.column_sums:
        return False
    if program.segments > 1:
        return program.segments >= pieces
    return program.columns >= pieces * lanes


def divided(program: RowProgram, pieces: int, lanes: int) -> tuple[RowProgram, int]:
    """The program with a segment for each part, and the number of columns left over after them.

    Parts start at whole vectors.
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
    """The plan without settings that make no difference for this program or are impossible."""
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


# How long a row program takes under a plan, by arithmetic alone: good enough to order plans.
#
# The unit is a step on a whole vector. Constants are rounded from timings of a CPU with 64-byte
# vectors; the order of plans matters, not the differences.

_PAGE = 4096
_CHAINS = 4.0
"""Concurrent sums at which none waits for another."""
_SWEEP_END = 20.0
"""Reducing vectors to one number, and computing with it."""
_LOAD = 4.0
"""Loading a single element of a group, and a step on it."""
_ACROSS_LINES = 0.3
"""Surcharge of a vector that crosses a cache line."""
_MASKS = 2.0
"""Computing the masks at the start and the end of a row."""
_RECORD = 4.0
"""Loading and storing the accumulators of a group in memory."""
_SECOND = 2.0
"""A vector from L2."""
_LINE = 4.0
"""A vector from or to memory outside L2."""
_EXP = 8.0
_CALL = 500.0
"""Starting a task on the other threads and waiting for the last one."""
_SHORT_JUMP = 2048.0
"""A contiguous piece of this many bytes costs half as much to reach as to read."""


@dataclass(frozen=True, slots=True)
class RowTarget:
    """The device and the sizes of a problem: width of vectors, caches, bytes moved."""

    lanes: int
    item_bytes: int
    first: int
    second: int
    last: int
    moved: int
    """Size of all arrays."""
    threads: int = 1

    @classmethod
    def of(cls, device: Device, item_bytes: int, moved: int) -> RowTarget:
        """The values of a device; unknown caches count as small."""
        sizes = [size for _, size in device.caches] or [0]
        second = sizes[min(1, len(sizes) - 1)]
        lanes = device.vector_bytes // item_bytes
        return cls(lanes, item_bytes, sizes[0], second, max(sizes), moved, device.units)


def estimate(program: RowProgram, plan: RowsPlan, target: RowTarget) -> float:
    """Steps per element."""
    steps = _arithmetic(program, plan, target) + _overheads(program, plan)
    if target.moved > target.second:
        steps += _memory(program, plan, target)
    return _shared(program, plan, target, steps)


def _shared(program: RowProgram, plan: RowsPlan, target: RowTarget, steps: float) -> float:
    """Threads divide the work as evenly as possible, and starting them takes time."""
    if not plan.parallel:
        return steps
    elements = program.groups * program.segments * program.columns
    if plan.pieces:
        return steps / target.threads + _CALL * (len(program.passes()) + 1) / elements
    shares = -(-program.groups // (plan.block or plan.rows))
    longest = -(-shares // target.threads)
    return steps * longest / shares + _CALL / elements


def _vectors(program: RowProgram, plan: RowsPlan, target: RowTarget) -> float:
    """Vectors per element; half vectors are a little cheaper than whole ones."""
    whole = -(-program.columns // plan.lanes) / program.columns
    return float(whole * (plan.lanes / target.lanes) ** 0.4)


def _arithmetic(program: RowProgram, plan: RowsPlan, target: RowTarget) -> float:
    vectors = _vectors(program, plan, target)
    sweeps = len(program.passes()) + 1
    work = vectors * sweeps
    if kept_part(program) is not None:
        work += vectors * _EXP * (2 if plan.keep == AGAIN else 1)
    if plan.chunk:
        work += vectors * 2 * _EXP / plan.chunk
    if program.segments == 1 and 2 * program.columns * target.item_bytes > target.first:
        work += vectors * _SECOND * (sweeps - (2 if plan.chunk else 1))
    if plan.aligned:
        work += _MASKS * sweeps / program.columns
    elif not can_stream(program, plan.lanes):
        work += _ACROSS_LINES * vectors * sweeps
    # Additions to one accumulator wait for each other; longer iterations leave a longer remainder.
    chains = plan.copies * (1 if plan.aligned and program.segments == 1 else plan.rows)
    waiting = vectors * sweeps * max(0.0, _CHAINS / chains - 1.0)
    work += vectors * 0.1 * max(0.0, chains / _CHAINS - 1.0)
    if plan.block:
        # The sums of the next group do not wait for those of this one.
        return work + 0.25 * waiting
    # Rows side by side need more registers, and at multiples of a page they compete for L1.
    same_place = program.output.group * target.item_bytes % _PAGE == 0 and program.segments == 1
    return work + waiting + vectors * (plan.rows - 1) * (0.5 if same_place else 0.05)


def _overheads(program: RowProgram, plan: RowsPlan) -> float:
    sweeps = len(program.passes()) + 1
    own = sum(view.of_group for view in program.inputs)
    ends = (_SWEEP_END * sweeps + _LOAD * own) / (program.columns * program.segments)
    if plan.block:
        return ends + _RECORD * sweeps / program.columns
    return ends / plan.rows


def _memory(program: RowProgram, plan: RowsPlan, target: RowTarget) -> float:
    """Traffic outside L2."""
    together = plan.block or plan.rows
    row = program.columns * target.item_bytes
    inputs = sum(bool(view.column and view.group) for view in program.inputs)
    held = together * program.segments * row * (inputs + 1) <= target.second
    large = target.moved > target.last // 2
    transfers = inputs * (1.0 if held else 1.0 + len(program.passes()) * (1.0 if large else 0.4))
    if plan.keep != AGAIN:
        # Exponentials leave time to prefetch lines of the output before they are written.
        stored = 1.45 if plan.streaming else 1.5
    else:
        stored = 1.0 if plan.streaming else 2.0 if large else 1.5
    jumps = 1.0
    if program.segments > 1 and plan.block < program.groups:
        jumps += min(1.0, _SHORT_JUMP / (row * together)) * (0.3 if plan.ahead else 0.8)
    elif plan.chunk:
        # A row in chunks is read evenly, which the hardware prefetcher handles well.
        jumps += 0.05 * plan.ahead - 0.2
    elif plan.ahead:
        jumps += 0.02 if row < target.first // 2 else -0.2
    return float((transfers + stored) * jumps * _LINE / target.lanes)
