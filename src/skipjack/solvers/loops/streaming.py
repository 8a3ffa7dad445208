"""Stores past the caches: where the output allows them is known only when the kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skipjack.native.ir import IRWriter, VectorType

_PIECE = 16
"""Bytes that allocators align arrays to, and x86 can store past the caches."""


def stream_alignments(vector: VectorType) -> tuple[int, ...]:
    """What an output is aligned to for streams of whole vectors, and of pieces of them."""
    width = vector.lanes * vector.item_bytes
    return tuple(dict.fromkeys((width, min(width, _PIECE))))


def streamed_if_aligned(
    w: IRWriter, pointer: str, alignments: Sequence[int], body: Callable[[int], None]
) -> None:
    """`body(alignment)` for the first of these that a pointer has, or `body(0)` for plain stores.

    The test is made at run time. Whoever is told of the stores after it sees them.
    """
    address = w.value(f"ptrtoint ptr {pointer} to i64")

    def streamed(alignment: int) -> None:
        body(alignment)
        # These stores are not ordered by themselves.
        w.emit("fence seq_cst")

    def from_alignment(*left: int) -> None:
        if not left:
            body(0)
            return
        odd = w.value(f"and i64 {address}, {left[0] - 1}")
        w.when(w.value(f"icmp eq i64 {odd}, 0"), lambda: streamed(left[0]))
        w.when(w.value(f"icmp ne i64 {odd}, 0"), lambda: from_alignment(*left[1:]))

    from_alignment(*alignments)


def store(
    w: IRWriter, vector: VectorType, value: str, at: str, mask: str | None, alignment: int
) -> None:
    """Store a vector, past the caches if it is whole and an alignment is given."""
    if alignment and mask is None:
        w.stream(vector, value, at, alignment)
    else:
        w.store(vector, value, at, mask)
