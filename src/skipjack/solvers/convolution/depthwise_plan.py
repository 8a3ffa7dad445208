"""What the code of a depthwise convolution is made from: the convolution, and choices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skipjack.native.ir import VectorType
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.depthwise_axis import Pattern, Run, balanced, gathering, runs
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

NOTHING, NEXT, CHUNK = "no", "next", "chunk"
"""What is fetched in advance: nothing, the next channels of a pixel that is loaded, or all that a
chunk reads, in the order of memory. Pixels of some channels lie apart, and the hardware fetches
only what is read in order: sums over pixels from memory ran at 10 to 13 GB/s without this, at 17 to
30 with it."""


@dataclass(frozen=True)
class Plan:
    """A convolution and the settings of its code."""

    geometry: Geometry
    vector: VectorType
    positions: int
    """Vectors of a row that are computed together: pixels with channels last, else vectors of
    pixels."""
    marching: bool = True
    """Whether every row is loaded once, and not for every row of the filter again."""
    hoisted: bool = True
    """Whether a march has all taps of the filter in registers."""
    group: int = 1
    """Rows of the filter whose sums over pixels are in registers together."""
    fetch: str = NOTHING
    stream: bool = False
    """Whether results are stored past the caches."""
    chunks: int = 1
    """How many parts of a plane are done one after the other, all channels of each."""
    block: int = 1
    """Channels (or vectors of them) whose sums over pixels are under way together."""
    threads: int = 1
    images_shared: bool = False
    """Whether threads share the pixels out for sums over them, and not the channels."""

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.vector.item_bytes

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.vector.lanes * self.vector.item_bytes

    @property
    def last(self) -> bool:
        """Whether vectors hold channels, which lie side by side, and not pixels."""
        return self.geometry.channels_last

    @cached_property
    def patterns(self) -> tuple[Pattern, Pattern, Pattern]:
        """Depth, height, width: who reads whom."""
        backward = self.geometry.wanted == "image"
        deep, high, wide = (gathering(axis, backward=backward) for axis in self.geometry.axes)
        return deep, high, wide

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The width in pieces."""
        wide = self.patterns[2]
        unit = 1 if self.last else self.vector.lanes
        return runs(wide, balanced(wide, self.positions // wide.step, unit))

    @property
    def pixel(self) -> int:
        """Bytes from a pixel to its neighbour; where channels lie between them, the image has as
        many as the result."""
        return self.geometry.c * self.item if self.last else self.item

    @property
    def units(self) -> int:
        """Vectors of channels, or channels of what is wanted: what planes are done for."""
        if self.last:
            return -(-self.geometry.c // self.vector.lanes)
        return self.geometry.c if self.geometry.wanted == "image" else self.geometry.k

    @property
    def tail(self) -> int:
        """Channels in the last vector of them, if it is not full."""
        return self.geometry.c % self.vector.lanes if self.last else 0

    @property
    def alignment(self) -> int:
        """Of all vectors of the output that are stored, if the array itself has it."""
        step = self.pixel if self.last else self.patterns[2].size * self.item
        return min(step & -step, self.vector_bytes)

    # The filter, as code that sums over taps finds it

    @property
    def tap_row(self) -> int:
        """Bytes of a row of taps."""
        return self.geometry.filter_sizes[2] * self._tap

    @property
    def tap_plane(self) -> int:
        """Bytes of a plane of taps."""
        return self.geometry.filter_sizes[1] * self.tap_row

    @property
    def _tap(self) -> int:
        return self.vector_bytes if self.last else self.item

    def load_tap(self, w: WholeNumberWriter, taps: str, row: int, column: int) -> str:
        """A tap for all lanes: a vector of channels' own ones, or one for all pixels."""
        place = w.advance(taps, row * self.tap_row + column * self._tap)
        return w.load(self.vector, place) if self.last else w.broadcast(self.vector, place)


@dataclass(frozen=True, slots=True)
class Strides:
    """Bytes from one part of an array to the next."""

    row: int
    plane: int
    """Of a depth."""
    channel: int
    """To the next vector of channels where they lie side by side; else to the next channel."""
    image: int

    @classmethod
    def of(cls, plan: Plan, role: Role) -> Strides:
        """Of the image or the result."""
        geometry = plan.geometry
        deep, high, wide = geometry.image_sizes if role == "image" else geometry.result_sizes
        row = wide * plan.pixel
        plane = high * row
        image = deep * plane
        if plan.last:
            return cls(row, plane, plan.vector_bytes, image)
        channels = geometry.c if role == "image" else geometry.k
        return cls(row, plane, image, image * channels)
