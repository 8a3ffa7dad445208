"""Turning images whose channels come first so that channels lie side by side, and back, as LLVM IR.

A round turns the rows of pixels that its tiles need into a buffer of its own. Squares of as many
channels as pixels are turned in registers; pixels that are left over go one by one. The buffer has
room for whole vectors of channels.
"""

from __future__ import annotations

from skipjack.native.ir import VectorType
from skipjack.solvers.convolution.winograd_slots import BLOCK, StageWriter
from skipjack.solvers.convolution.winograd_squares import copy_elements, line_starts, turn_square
from skipjack.solvers.loops.entry import share

TURN = (
    *BLOCK,
    *("source", "target"),
    *("step", "reach", "pad_y", "height", "width"),
    *("image_bytes", "channel_bytes", "buffer_image_bytes", "pixel_bytes"),
)
"""Tiles are `step` pixels apart and cover `reach` more. `pixel_bytes` are of the buffer."""


def turned_in(vector: VectorType) -> str:
    """From the image (`source`) to the buffer (`target`)."""
    return _TurnWriter(vector, inwards=True).module()


def turned_out(vector: VectorType) -> str:
    """From the buffer (`source`) to the image (`target`)."""
    return _TurnWriter(vector, inwards=False).module()


class _TurnWriter:
    def __init__(self, vector: VectorType, *, inwards: bool) -> None:
        self.vector, self.inwards = vector, inwards
        self.lanes, self.item = vector.lanes, vector.item_bytes
        self.width = self.lanes * self.item
        self.w = StageWriter(TURN)

    def module(self) -> str:
        w = self.w
        block = w.block_of_tiles()
        top, pixels = self._pixels(block.first_row, block.rows)
        first, columns = w.block_of_columns()
        groups = w.rounds(columns, self.lanes)
        begin, end = share(w, w.mul(block.images, groups))
        image_at, buffer_at = ("source", "target") if self.inwards else ("target", "source")
        start = w.advance(w[image_at], w.mul(block.first_image, w["image_bytes"]))
        start = w.advance(start, w.mul(first, w["channel_bytes"]))
        start = w.advance(start, w.mul(top, self.item))

        def group(counter: str, _: list[str]) -> list[str]:
            image, number = w.divided(w.add(begin, counter), groups)
            channel = w.mul(number, self.lanes)
            have = w.least(w.sub(columns, channel), self.lanes)
            here = w.advance(start, w.mul(image, w["image_bytes"]))
            here = w.advance(here, w.mul(channel, w["channel_bytes"]))
            buffer = w.advance(w[buffer_at], w.mul(image, w["buffer_image_bytes"]))
            self._group(here, w.advance(buffer, w.mul(number, self.width)), have, pixels)
            return []

        w.loop_or_skip(w.sub(end, begin), [], group)
        return w.module(self.vector)

    def _pixels(self, row: str, rows: str) -> tuple[str, str]:
        """The first pixel of a block, and how many follow each other."""
        w = self.w
        top = w.not_negative(w.sub(w.mul(row, w["step"]), w["pad_y"]))
        bottom = w.sub(w.add(w.mul(w.add(row, rows), w["step"]), w["reach"]), w["pad_y"])
        count = w.sub(w.least(bottom, w["height"]), top)
        return w.mul(top, w["width"]), w.mul(count, w["width"])

    def _group(self, image: str, buffer: str, have: str, pixels: str) -> None:
        """A vector of channels: `have` of them at all pixels."""
        w = self.w
        channels = line_starts(w, image, w["channel_bytes"], have, self.lanes)
        full, rest = w.divided(pixels, self.lanes)

        def square(_: str, at: list[str]) -> list[str]:
            *here, there = at
            self._square(here, there)
            moved = [w.advance(channel, self.width) for channel in here]
            return [*moved, w.advance(there, w.mul(w["pixel_bytes"], self.lanes))]

        ends = w.loop_or_skip(full, [("ptr", each) for each in [*channels, buffer]], square)
        sides = [
            (ends[0], [str(self.item), w["channel_bytes"]]),
            (ends[-1], [w["pixel_bytes"], str(self.item)]),
        ]
        source, target = sides if self.inwards else reversed(sides)
        copy_elements(w, self.vector, [rest, have], source, target)

    def _square(self, channels: list[str], buffer: str) -> None:
        w, vector = self.w, self.vector
        pixels = [buffer]
        for _ in range(self.lanes - 1):
            pixels.append(w.advance(pixels[-1], w["pixel_bytes"]))
        source, target = (channels, pixels) if self.inwards else (pixels, channels)
        turn_square(w, vector, source, target)
