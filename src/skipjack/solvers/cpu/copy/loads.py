"""Vector loads of elements that lie some steps apart, with masks, and arithmetic on indices."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.native import VectorType
from skipjack.solvers.cpu.ir import WholeNumberWriter

# Arithmetic on numbers that are known either now or only at run time.

Number = int | str
"""Known now, or an i64 value."""


class NumberWriter(WholeNumberWriter):
    """Arithmetic on signed integers; known numbers cost no instruction."""

    def plus(self, left: Number, right: Number) -> Number:
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0 or right == 0:
            return right if left == 0 else left
        return self.add(left, right)

    def minus(self, left: Number, right: Number) -> Number:
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self.sub(left, right)

    def times(self, left: Number, right: int) -> Number:
        if isinstance(left, int):
            return left * right
        if right in (0, 1):
            return left if right else 0
        return self.mul(left, right)

    def smaller(self, left: Number, right: Number) -> Number:
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        self.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {right})")

    def larger(self, left: Number, right: Number) -> Number:
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        return self.most(left, right)

    def floor_divided(self, number: Number, by: int) -> Number:
        """The quotient by a positive number, rounded down."""
        if isinstance(number, int):
            return number // by
        if by == 1:
            return number
        # For negative numbers through the complement: floor(a / b) is ~(~a / b).
        sign = self.value(f"ashr i64 {number}, 63")
        quotient = self.value(f"udiv i64 {self.value(f'xor i64 {number}, {sign}')}, {by}")
        return self.value(f"xor i64 {quotient}, {sign}")

    def moved(self, pointer: str, number: Number, bytes_: int) -> str:
        """The pointer after a number of steps of `bytes_` bytes."""
        return self.advance(pointer, self.times(number, bytes_))

    def each(self, count: int, body: Callable[[Number], None]) -> None:
        """Write a loop of `body` over the numbers below a count."""

        def one(number: str, _: list[str]) -> list[str]:
            body(0 if count == 1 else number)
            return []

        self.loop(count, [], one)


# Masks: lanes within limits, and loads that do not touch the others.

Range = tuple[Number, Number]
"""The first valid index, and the one after the last."""

Mask = str | None
Masks = list[Mask]
"""Masks of several loads; None for a load without a mask."""

NONE = "none"
"""The empty mask: nothing is loaded."""


def between(w: NumberWriter, lanes: int, first: Number, count: Number) -> Mask:
    """A mask of the lanes with ``0 <= first + lane < count``; None for all lanes, `NONE` for
    none."""
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
    """A mask of all lanes if ``0 <= number < count``, else of none."""
    if isinstance(number, int) and isinstance(count, int):
        return None if 0 <= number < count else NONE
    if lanes == 1:
        return between(w, 1, number, count)
    left, right = (_narrow(w, lanes, each) for each in (number, count))
    return w.value(f"icmp ult <{lanes} x i32> {left}, {right}")


def both(w: NumberWriter, lanes: int, left: Mask, right: Mask) -> Mask:
    """The intersection of two masks."""
    if left is None or right is None:
        return right if left is None else left
    if NONE in (left, right):
        return NONE
    truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return w.value(f"and {truth} {left}, {right}")


def _narrow(w: NumberWriter, lanes: int, number: Number) -> str:
    """A number in all lanes; 32 bits are enough for indices, which then take one comparison."""
    if isinstance(number, int):
        return "<" + ", ".join([f"i32 {number}"] * lanes) + ">"
    element = w.value(f"trunc i64 {number} to i32")
    return w.splat_text(f"<{lanes} x i32>", "i32", element, lanes)


def load(w: NumberWriter, kind: VectorType, at: str, mask: Mask) -> str:
    """Load a vector or an element; lanes outside the mask are zero."""
    if mask == NONE:
        return kind.constant(0.0)
    if mask is None or kind.lanes > 1:
        return w.load(kind, at, mask)
    # A branch and not a select: reading the element may be invalid.
    before = w.block
    then, after = w.name("then"), w.name("after")
    w.emit(f"br i1 {mask}, label %{then}, label %{after}")
    w.open_block(then)
    value = w.load(kind, at)
    w.emit(f"br label %{after}")
    w.open_block(after)
    return w.value(f"phi {kind.text} [ {kind.constant(0.0)}, %{before} ], [ {value}, %{then} ]")


# Loads of vectors whose elements lie some steps apart in the source.

LARGEST_STEP = 4
"""The largest step at which elements are picked from whole vectors, one load per step."""


def is_vector_step(step: int) -> bool:
    """Whether elements with this step are loaded in vectors."""
    return -1 <= step <= LARGEST_STEP


class StepLoads:
    """Loads vectors of elements `step` apart; 0 repeats one element, -1 goes backwards."""

    def __init__(self, w: NumberWriter, step: int) -> None:
        self.w, self.step = w, step

    def masks(self, lanes: int, start: Number, limits: Range) -> Masks:
        """Masks for the vector that starts at an index, if only indices within limits are read."""
        w, step, (low, high) = self.w, self.step, limits
        count = w.minus(high, low)
        if step == -1:
            return [between(w, lanes, w.minus(w.minus(high, start), lanes), count)]
        first = w.minus(start, low)
        if step == 0:
            return [between(w, 1, 0, count), between(w, lanes, first, count)]
        if step > 1:
            # From the first valid element to the last one, and nothing after it.
            count = w.larger(w.minus(w.times(count, step), step - 1), 0)
        first = w.times(first, step)
        return [between(w, lanes, w.plus(first, offset), count) for offset in self._offsets(lanes)]

    def vector(self, kind: VectorType, at: str, masks: Masks) -> str:
        """The vector whose first element is at a pointer; without masks all elements are valid."""
        w, item = self.w, kind.item_bytes
        if self.step == 0:
            return self._repeated(kind, at, masks or [None, None])
        offsets = self._offsets(kind.lanes)
        values = [
            load(w, kind, w.advance(at, offset * item), mask)
            for offset, mask in zip(offsets, masks or [None] * len(offsets), strict=True)
        ]
        return self._chosen(kind, values, offsets)

    def _offsets(self, lanes: int) -> list[int]:
        """Offsets of the loaded vectors from the first element; the last one ends with the last
        element."""
        if lanes == 1:
            return [0]
        if self.step == -1:
            return [1 - lanes]
        last = self.step * (lanes - 1) + 1 - lanes
        return [min(part * lanes, last) for part in range(self.step)]

    def _chosen(self, kind: VectorType, values: list[str], offsets: list[int]) -> str:
        """Every `step`-th element of the loaded vectors."""
        w, lanes, step = self.w, kind.lanes, self.step
        if lanes == 1 or step == 1:
            return values[0]
        if step == -1:
            return w.shuffle(kind, (values[0], "poison"), range(lanes - 1, -1, -1))
        owners = [step * lane // lanes for lane in range(lanes)]
        result = values[0]
        for number in range(1, step):
            indices = []
            for lane, owner in enumerate(owners):
                if owner == number:
                    indices.append(lanes + step * lane - offsets[number])
                else:
                    indices.append(step * lane if number == 1 and owner == 0 else lane)
            result = w.shuffle(kind, (result, values[number]), indices)
        return result

    def _repeated(self, kind: VectorType, at: str, masks: Masks) -> str:
        """One element in all lanes of the mask; it is read if any lane needs it."""
        w, (some, mask) = self.w, masks
        if NONE in masks:
            return kind.constant(0.0)
        element = load(w, VectorType(kind.dtype, 1), at, some)
        if kind.lanes == 1:
            return element
        value, zero = w.splat(kind, element), kind.constant(0.0)
        if mask is None:
            return value
        truth = f"<{kind.lanes} x i1>"
        return w.value(f"select {truth} {mask}, {kind.text} {value}, {kind.text} {zero}")
