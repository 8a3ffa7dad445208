"""Masks of what there is to copy: lanes between limits, and loads that leave the others alone."""

from __future__ import annotations

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter

Range = tuple[Number, Number]
"""The first index with something to copy, and the one after the last."""

Mask = str | None
Masks = list[Mask]
"""Of several loads; None where a load is whole."""

NONE = "none"
"""The mask that no lane is in: nothing is loaded."""


def between(w: NumberWriter, lanes: int, first: Number, count: Number) -> Mask:
    """A mask of lanes with ``0 <= first + lane < count``; None if it is all of them, or `NONE`."""
    if isinstance(first, int) and isinstance(count, int):
        active = [0 <= first + lane < count for lane in range(lanes)]
        if all(active):
            return None
        if not any(active):
            return NONE
        texts = [f"i1 {str(each).lower()}" for each in active]
        return "<" + ", ".join(texts) + ">"
    if lanes == 1:
        return w.value(f"icmp ult i64 {first}, {count}")
    kind = f"<{lanes} x i32>"
    numbers = "<" + ", ".join(f"i32 {lane}" for lane in range(lanes)) + ">"
    places = w.value(f"add {kind} {numbers}, {_narrow(w, lanes, first)}")
    return w.value(f"icmp ult {kind} {places}, {_narrow(w, lanes, count)}")


def everywhere(w: NumberWriter, lanes: int, number: Number, count: Number) -> Mask:
    """A mask of all lanes if ``0 <= number < count``, or else of none."""
    if isinstance(number, int) and isinstance(count, int):
        return None if 0 <= number < count else NONE
    if lanes == 1:
        return between(w, 1, number, count)
    left, right = (_narrow(w, lanes, each) for each in (number, count))
    return w.value(f"icmp ult <{lanes} x i32> {left}, {right}")


def both(w: NumberWriter, lanes: int, left: Mask, right: Mask) -> Mask:
    """Lanes that are in two masks."""
    if left is None or right is None:
        return right if left is None else left
    if NONE in (left, right):
        return NONE
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return w.value(f"and {truth} {left}, {right}")


def _narrow(w: NumberWriter, lanes: int, number: Number) -> str:
    """A number in all lanes; 32 bits are enough for indices and make one comparison."""
    if isinstance(number, int):
        return "<" + ", ".join([f"i32 {number}"] * lanes) + ">"
    element = w.value(f"trunc i64 {number} to i32")
    return w.splat_text(f"<{lanes} x i32>", "i32", element, lanes)


def load(w: NumberWriter, kind: VectorType, at: str, mask: Mask) -> str:
    """A vector or an element; what the mask leaves out is zero."""
    if mask == NONE:
        return kind.constant(0.0)
    if mask is None or kind.lanes > 1:
        return w.load(kind, at, mask)
    # A branch and not a choice of values: the element may not be there.
    before = w.block
    then, after = w.name("then"), w.name("after")
    w.emit(f"br i1 {mask}, label %{then}, label %{after}")
    w.open_block(then)
    value = w.load(kind, at)
    w.emit(f"br label %{after}")
    w.open_block(after)
    return w.value(f"phi {kind.text} [ {kind.constant(0.0)}, %{before} ], [ {value}, %{then} ]")
