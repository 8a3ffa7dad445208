"""Partial results of threads that share a reduction out: where they are and how they are joined.

Every thread has a copy of the whole output in the workspace, in the output's own layout. The thread
that called joins them, one thread's after the other's, and applies what follows the reduction.
"""

from __future__ import annotations

from skipjack.core.nest import Accumulator, Load, Nest
from skipjack.native.ir import ITEM_BYTES, IRWriter, VectorType, constant_mask
from skipjack.solvers.loops.scalar import combine, evaluated

_APART = 128
"""Threads' copies begin this many bytes apart or more, so that they share no cache line."""


def partial_bytes(nest: Nest, dtype: str) -> int:
    """What one thread's copy of the output takes."""
    return -(-nest.output.tensor.size * ITEM_BYTES[dtype] // _APART) * _APART


def join(
    w: IRWriter, nest: Nest, vector: VectorType, pointers: tuple[str, str], count: str
) -> None:
    """Write the output from the workspace of `count` threads; `pointers` are these two."""
    output, workspace = pointers
    apart = partial_bytes(nest, vector.dtype)
    width = vector.lanes * vector.item_bytes
    full, rest = divmod(nest.output.tensor.size, vector.lanes)

    def vector_at(to: str, start: str, mask: str | None) -> None:
        first = w.load(vector, start, mask)

        def add(_: str, state: list[str]) -> list[str]:
            at, total = w.advance(state[0], apart), state[1]
            value = w.load(vector, at, mask)
            return [at, combine(w, vector, nest.reduction, total, value)]

        others = w.value(f"sub i64 {count}, 1")
        start_state = [("ptr", start), (vector.text, first)]
        total = w.loop_or_skip(others, start_state, add)[1]

        def leaf(scalar: Load | Accumulator) -> str:
            assert isinstance(scalar, Accumulator), "refused by the check of the schedule"
            return total

        w.store(vector, evaluated(w, vector, nest.epilogue, leaf), to, mask)

    def body(_: str, at: list[str]) -> list[str]:
        vector_at(at[0], at[1], None)
        return [w.advance(pointer, width) for pointer in at]

    if full:
        w.loop(full, [("ptr", output), ("ptr", workspace)], body)
    if rest:
        ends = [w.advance(pointer, full * width) for pointer in pointers]
        vector_at(ends[0], ends[1], constant_mask(vector.lanes, rest))
