"""Lanes of vectors: picked from several, masked one by one, stored in pieces past the caches."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.native.ir import IRWriter, VectorType

STREAMED = 16
"""Bytes that can be stored past the caches at the least."""


def lane_mask(lanes: Sequence[bool]) -> str | None:
    """A constant mask; None where all lanes are active."""
    if all(lanes):
        return None
    return "<" + ", ".join(f"i1 {str(lane).lower()}" for lane in lanes) + ">"


def chosen(w: IRWriter, vector: VectorType, sources: Sequence[str], picks: Sequence[int]) -> str:
    """A vector of chosen lanes of several, which are numbered through all of them."""
    lanes = vector.lanes
    if list(picks) == list(range(lanes)):
        return sources[0]
    needed = sorted({pick // lanes for pick in picks})
    value, have = sources[needed[0]], [needed[0] * lanes + lane for lane in range(lanes)]
    if len(needed) == 1:
        return w.shuffle(vector, (value, "poison"), [have.index(pick) for pick in picks])
    for source in needed[1:]:
        both = [*have, *(source * lanes + lane for lane in range(lanes))]
        # Lanes whose source comes later are left as they are.
        now = [both.index(pick) if pick in both else at for at, pick in enumerate(picks)]
        value = w.shuffle(vector, (value, sources[source]), now)
        have = [both[at] if pick in both else -1 for at, pick in zip(now, picks, strict=True)]
    return value


def stream_pieces(
    w: IRWriter, vector: VectorType, value: str, place: str, active: int, alignment: int
) -> None:
    """Store the first lanes past the caches, in whole pieces of the alignment."""
    piece = VectorType(vector.dtype, alignment // vector.item_bytes)
    for start in range(0, active, piece.lanes):
        part = value
        if piece.lanes < vector.lanes:
            part = w.shuffle(vector, (value, "poison"), range(start, start + piece.lanes))
        w.stream(piece, part, w.advance(place, start * vector.item_bytes), alignment)
