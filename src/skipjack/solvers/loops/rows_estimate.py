"""How long a row program takes under a plan, by arithmetic alone: good enough to order plans.

The unit is a step on a whole vector. Constants are rounded from timings of a CPU with 64-byte
vectors; what matters is which plan comes first, not by how much.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.core.program import RowProgram
from skipjack.solvers.loops.rows_plan import AGAIN, RowsPlan, can_stream, kept_part

_PAGE = 4096
_CHAINS = 4.0
"""Sums under way at which none waits for another."""
_SWEEP_END = 20.0
"""One number from vectors, and what follows from it."""
_LOAD = 4.0
"""One element of a group by itself, and a step on it."""
_ACROSS_LINES = 0.3
"""A vector of which each end lies in another line of the cache costs so much more."""
_MASKS = 2.0
"""Finding out where a row begins and ends in its vectors."""
_RECORD = 4.0
"""Fetching and storing the accumulators of a group in memory."""
_SECOND = 2.0
"""A vector from the second cache."""
_LINE = 4.0
"""A vector from or to beyond the second cache."""
_EXP = 8.0
_CALL = 500.0
"""Handing a task to other threads and waiting for the last."""
_SHORT_JUMP = 2048.0
"""A piece of memory of this length costs half as much again to reach as to read."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a plan meets: the width of vectors, and how much the caches hold."""

    lanes: int
    item_bytes: int
    first: int
    second: int
    last: int
    moved: int
    """Bytes of all arrays."""
    threads: int = 1

    @classmethod
    def of(cls, device: Device, item_bytes: int, moved: int) -> Surroundings:
        """Of a device; unknown caches are small."""
        sizes = [size for _, size in device.caches] or [0]
        second = sizes[min(1, len(sizes) - 1)]
        lanes = device.vector_bytes // item_bytes
        return cls(lanes, item_bytes, sizes[0], second, max(sizes), moved, device.units)


def estimate(program: RowProgram, plan: RowsPlan, around: Surroundings) -> float:
    """Steps for each element."""
    steps = _arithmetic(program, plan, around) + _overheads(program, plan)
    if around.moved > around.second:
        steps += _memory(program, plan, around)
    return _shared(program, plan, around, steps)


def _shared(program: RowProgram, plan: RowsPlan, around: Surroundings, steps: float) -> float:
    """Threads divide the work, as evenly as it can be divided, and have to be told."""
    if not plan.parallel:
        return steps
    elements = program.groups * program.segments * program.columns
    if plan.pieces:
        return steps / around.threads + _CALL * (len(program.passes()) + 1) / elements
    shares = -(-program.groups // (plan.block or plan.rows))
    longest = -(-shares // around.threads)
    return steps * longest / shares + _CALL / elements


def _vectors(program: RowProgram, plan: RowsPlan, around: Surroundings) -> float:
    """Vectors for each element; half ones are a little cheaper than whole ones."""
    whole = -(-program.columns // plan.lanes) / program.columns
    return float(whole * (plan.lanes / around.lanes) ** 0.4)


def _arithmetic(program: RowProgram, plan: RowsPlan, around: Surroundings) -> float:
    vectors = _vectors(program, plan, around)
    sweeps = len(program.passes()) + 1
    work = vectors * sweeps
    if kept_part(program) is not None:
        work += vectors * _EXP * (2 if plan.keep == AGAIN else 1)
    if plan.chunk:
        work += vectors * 2 * _EXP / plan.chunk
    if program.segments == 1 and 2 * program.columns * around.item_bytes > around.first:
        work += vectors * _SECOND * (sweeps - (2 if plan.chunk else 1))
    if plan.aligned:
        work += _MASKS * sweeps / program.columns
    elif not can_stream(program, plan.lanes):
        work += _ACROSS_LINES * vectors * sweeps
    # Additions into one accumulator wait for each other; more rounds than needed end in more rest.
    chains = plan.copies * (1 if plan.aligned and program.segments == 1 else plan.rows)
    waiting = vectors * sweeps * max(0.0, _CHAINS / chains - 1.0)
    work += vectors * 0.1 * max(0.0, chains / _CHAINS - 1.0)
    if plan.block:
        # The next group's sums do not wait for this one's.
        return work + 0.25 * waiting
    # Rows side by side need more registers, and at multiples of a page share their place in L1.
    same_place = program.output.group * around.item_bytes % _PAGE == 0 and program.segments == 1
    return work + waiting + vectors * (plan.rows - 1) * (0.5 if same_place else 0.05)


def _overheads(program: RowProgram, plan: RowsPlan) -> float:
    sweeps = len(program.passes()) + 1
    own = sum(view.of_group for view in program.inputs)
    ends = (_SWEEP_END * sweeps + _LOAD * own) / (program.columns * program.segments)
    if plan.block:
        return ends + _RECORD * sweeps / program.columns
    return ends / plan.rows


def _memory(program: RowProgram, plan: RowsPlan, around: Surroundings) -> float:
    """Traffic beyond the second cache."""
    together = plan.block or plan.rows
    row = program.columns * around.item_bytes
    inputs = sum(bool(view.column and view.group) for view in program.inputs)
    held = together * program.segments * row * (inputs + 1) <= around.second
    large = around.moved > around.last // 2
    transfers = inputs * (1.0 if held else 1.0 + len(program.passes()) * (1.0 if large else 0.4))
    if plan.keep != AGAIN:
        # Behind exponentials there is time to fetch lines of the output before they are written.
        stored = 1.45 if plan.streaming else 1.5
    else:
        stored = 1.0 if plan.streaming else 2.0 if large else 1.5
    jumps = 1.0
    if program.segments > 1 and plan.block < program.groups:
        jumps += min(1.0, _SHORT_JUMP / (row * together)) * (0.3 if plan.ahead else 0.8)
    elif plan.chunk:
        # A row in chunks is read at an even pace, which needs no help.
        jumps += 0.05 * plan.ahead - 0.2
    elif plan.ahead:
        jumps += 0.02 if row < around.first // 2 else -0.2
    return float((transfers + stored) * jumps * _LINE / around.lanes)
