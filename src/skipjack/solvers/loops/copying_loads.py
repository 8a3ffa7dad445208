"""Vectors of elements that lie some steps apart in the source, with masks for what is not there."""

from __future__ import annotations

from skipjack.native.ir import VectorType
from skipjack.solvers.loops.copying_masks import NONE, Masks, Range, between, load
from skipjack.solvers.loops.copying_numbers import Number, NumberWriter

LARGEST_STEP = 4
"""Between elements that are chosen from whole vectors; it takes as many loads."""


def loads(step: int) -> bool:
    """Whether elements so far apart are loaded in vectors."""
    return -1 <= step <= LARGEST_STEP


class StepLoads:
    """Loads vectors of elements `step` apart; 0 repeats one element, -1 goes backwards."""

    def __init__(self, w: NumberWriter, step: int) -> None:
        self.w, self.step = w, step

    def masks(self, lanes: int, start: Number, limits: Range) -> Masks:
        """For the vector from index `start` on, where bounds leave some indices alone."""
        w, step, (low, high) = self.w, self.step, limits
        count = w.minus(high, low)
        if step == -1:
            return [between(w, lanes, w.minus(w.minus(high, start), lanes), count)]
        first = w.minus(start, low)
        if step == 0:
            return [between(w, 1, 0, count), between(w, lanes, first, count)]
        if step > 1:
            # From the first that is there to the last one, and nothing after it.
            count = w.larger(w.minus(w.times(count, step), step - 1), 0)
        first = w.times(first, step)
        return [between(w, lanes, w.plus(first, offset), count) for offset in self._offsets(lanes)]

    def vector(self, kind: VectorType, at: str, masks: Masks) -> str:
        """The vector whose first element is at a pointer; without masks, all of it is there."""
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
        """Where vectors are loaded, from the first element's place; the last one ends with it."""
        if lanes == 1:
            return [0]
        if self.step == -1:
            return [1 - lanes]
        last = self.step * (lanes - 1) + 1 - lanes
        return [min(part * lanes, last) for part in range(self.step)]

    def _chosen(self, kind: VectorType, values: list[str], offsets: list[int]) -> str:
        """Every `step`-th element of the vectors loaded."""
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
        """One element in all lanes where it belongs; it is read if it belongs anywhere."""
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
