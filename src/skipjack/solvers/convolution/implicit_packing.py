"""Packing a panel of the filter for an implicit matrix product, as LLVM IR.

A panel has, for each tap of a phase and each channel to sum over, the filter's elements of
neighbouring columns side by side. Which axis of the filter lies side by side in memory depends on
direction and layout:

- the columns: vectors are copied
- the channels to sum over: squares of them and columns are turned in registers
- the taps (channels first): squares of taps and columns are turned in registers

Columns that fill no vector are copied one by one where squares are turned. Columns that are
missing hold anything: what is computed from them is never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from skipjack.native.ir import VectorType, constant_mask
from skipjack.solvers.convolution.implicit_gather import Gather, Parts
from skipjack.solvers.convolution.implicit_pixel_tile import PixelForm
from skipjack.solvers.loops.packing import transpose
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

PARAMETERS = "ptr noalias %from, ptr noalias %to, i64 %count, i64 %depth"
"""Columns of the panel, and channels to sum over."""


def slack_bytes(form: PixelForm) -> int:
    """Behind the last panel, squares may write what is not there."""
    return form.vector.lanes * form.columns * form.vector.item_bytes


class PanelPacking:
    """Writes the body of a function with `PARAMETERS` for one phase."""

    def __init__(self, gather: Gather, form: PixelForm, parts: Parts) -> None:
        self.filters, self.parts = gather.filters, parts
        self.vector, self.scalar = form.vector, VectorType(form.vector.dtype, 1)
        self.lanes, self.item = form.vector.lanes, form.vector.item_bytes
        self.vectors = form.vectors
        self.step = form.columns * self.item
        self.column, self.down = (
            each * self.item for each in (self.filters.column, self.filters.reduced)
        )
        self.w = WholeNumberWriter()
        self.tap_bytes = self.w.mul("%depth", self.step)

    def write(self) -> WholeNumberWriter:
        """All of it but the return."""
        if self.filters.column == 1:
            self.taps("%from", "%to", self._rows)
        elif self.filters.reduced == 1:
            self._blocks(lambda at, to: self.taps(at, to, self._channel_squares))
        else:
            self._blocks(self._tap_squares)
        return self.w

    def taps(self, source: str, target: str, inside: Callable[[str, str], None]) -> None:
        """Tap by tap."""
        w = self.w

        def over(axis: int, at: str, to: str) -> str:
            if axis == 3:
                inside(at, to)
                return w.advance(to, self.tap_bytes)
            part, stride = self.parts[axis], self.filters.axes[axis] * self.item
            if not part.taps:
                return to
            start = w.advance(at, part.tap * stride)

            def body(_: str, here: list[str]) -> list[str]:
                after = over(axis + 1, here[0], here[1])
                return [w.advance(here[0], part.tap_step * stride), after]

            return w.loop(part.taps, [("ptr", start), ("ptr", to)], body)[1]

        over(0, source, target)

    def _rows(self, source: str, target: str) -> None:
        """Columns side by side: channel by channel."""
        w, width = self.w, self.lanes * self.item
        masks = [
            w.first_lanes(self.lanes, w.without("%count", part * self.lanes))
            for part in range(self.vectors)
        ]

        def body(_: str, here: list[str]) -> list[str]:
            for part, mask in enumerate(masks):
                value = w.load(self.vector, w.advance(here[0], part * width), mask)
                w.store(self.vector, value, w.advance(here[1], part * width))
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], body)

    def _blocks(self, squares: Callable[[str, str], None]) -> None:
        """As many columns as a vector has lanes at a time, or the last few."""
        w, lanes = self.w, self.lanes

        def block(number: str, here: list[str]) -> list[str]:
            have = w.without("%count", w.mul(number, lanes))

            def some() -> None:
                self.taps(here[0], here[1], lambda at, to: self._one_by_one(at, to, have))

            full = w.value(f"icmp uge i64 {have}, {lanes}")
            w.either(full, lambda: squares(here[0], here[1]), some)
            return [w.advance(here[0], lanes * self.column), w.advance(here[1], lanes * self.item)]

        w.loop(self.vectors, [("ptr", "%from"), ("ptr", "%to")], block)

    def _one_by_one(self, source: str, target: str, have: str) -> None:
        w = self.w

        def element(_: str, here: list[str]) -> list[str]:
            w.store(self.scalar, w.load(self.scalar, here[0]), here[1])
            return [w.advance(here[0], self.column), w.advance(here[1], self.item)]

        def channel(_: str, here: list[str]) -> list[str]:
            w.loop_or_skip(have, [("ptr", here[0]), ("ptr", here[1])], element)
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], channel)

    def _channel_squares(self, source: str, target: str) -> None:
        """Channels side by side. The last square writes beyond the tap, which the next mends."""
        w, width = self.w, self.lanes * self.item

        def square(number: str, here: list[str]) -> list[str]:
            left = w.sub("%depth", w.mul(number, self.lanes))
            mask = w.first_lanes(self.lanes, left)
            rows = [
                w.load(self.vector, w.advance(here[0], row * self.column), mask)
                for row in range(self.lanes)
            ]
            for at, value in enumerate(transpose(w, self.vector, rows)):
                w.store(self.vector, value, w.advance(here[1], at * self.step))
            return [w.advance(here[0], width), w.advance(here[1], self.lanes * self.step)]

        w.loop(w.rounds("%depth", self.lanes), [("ptr", source), ("ptr", target)], square)

    def _tap_squares(self, source: str, target: str) -> None:
        """Taps side by side: those of this phase are kept."""
        w, lanes = self.w, self.lanes
        places = self._tap_places()
        offsets = {tap: w.mul(self.tap_bytes, at) if at else "0" for tap, at in places.items()}

        def channel(_: str, here: list[str]) -> list[str]:
            for start in range(0, max(places, default=-1) + 1, lanes):
                wanted = [tap for tap in range(start, start + lanes) if tap in places]
                if not wanted:
                    continue
                # Not beyond the last tap that is wanted: nothing may follow it in memory.
                mask = constant_mask(lanes, wanted[-1] + 1 - start)
                rows = [
                    w.load(
                        self.vector,
                        w.advance(here[0], row * self.column + start * self.item),
                        mask,
                    )
                    for row in range(lanes)
                ]
                turned = transpose(w, self.vector, rows)
                for tap in wanted:
                    w.store(self.vector, turned[tap - start], w.advance(here[1], offsets[tap]))
            return [w.advance(here[0], self.down), w.advance(here[1], self.step)]

        w.loop("%depth", [("ptr", source), ("ptr", target)], channel)

    def _tap_places(self) -> dict[int, int]:
        """For each tap of the filter that the phase has, its number in the phase."""
        numbers = [
            [part.tap + at * part.tap_step for at in range(part.taps)] for part in self.parts
        ]
        strides = self.filters.axes
        taps = [
            sum(at * stride for at, stride in zip(tap, strides, strict=True))
            for tap in product(*numbers)
        ]
        return {tap: at for at, tap in enumerate(taps)}
