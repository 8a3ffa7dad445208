"""The settings that the code of a depthwise convolution is generated from, and an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from skipjack.core import Device
from skipjack.native import VectorType
from skipjack.operations import Geometry, Role
from skipjack.solvers.cpu.conv.depthwise.window import (
    PositionRun,
    ReadPattern,
    balanced_size,
    position_runs,
    read_pattern,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter

# The plan.

NOTHING, NEXT, CHUNK = "no", "next", "chunk"
"""What is fetched in advance: nothing, the next channels of each loaded pixel, or all that a chunk
reads, in the order of memory. The pixels of some channels lie apart, and the hardware only
prefetches data that is read in order: sums over pixels from memory ran at 10 to 13 GB/s without
this, and at 17 to 30 GB/s with it."""


@dataclass(frozen=True)
class DepthwisePlan:
    geometry: Geometry
    vector: VectorType
    positions: int
    """Vectors of a row that are computed together: pixels if channels are last, else vectors of
    pixels."""
    sliding: bool = True
    """Whether every row is loaded once by a sliding window, not once for every row of the
    filter."""
    hoisted: bool = True
    """Whether a sliding window keeps all taps of the filter in registers."""
    group: int = 1
    fetch: str = NOTHING
    stream: bool = False
    """Whether results are stored past the caches."""
    chunks: int = 1
    """The number of parts of a plane; all channels of each part are computed before the next
    part."""
    block: int = 1
    """Channels (or vectors of them) whose sums over pixels are computed together."""
    threads: int = 1
    images_shared: bool = False
    """Whether threads share out the pixels instead of the channels, for sums over pixels."""

    @property
    def item(self) -> int:
        return self.vector.item_bytes

    @property
    def vector_bytes(self) -> int:
        return self.vector.lanes * self.vector.item_bytes

    @property
    def last(self) -> bool:
        """Whether channels are last: then vectors hold channels, otherwise pixels."""
        return self.geometry.channels_last

    @cached_property
    def patterns(self) -> tuple[ReadPattern, ReadPattern, ReadPattern]:
        """What positions along depth, height and width read."""
        backward = self.geometry.wanted == "image"
        deep, high, wide = (read_pattern(axis, backward=backward) for axis in self.geometry.axes)
        return deep, high, wide

    @cached_property
    def runs(self) -> tuple[PositionRun, ...]:
        """The width in runs."""
        wide = self.patterns[2]
        unit = 1 if self.last else self.vector.lanes
        return position_runs(wide, balanced_size(wide, self.positions // wide.step, unit))

    @property
    def pixel(self) -> int:
        """Bytes from a pixel to its neighbour; with channels last, image and result have equally
        many."""
        return self.geometry.c * self.item if self.last else self.item

    @property
    def units(self) -> int:
        """The number of vectors of channels, or of channels of the output, each with its own
        planes."""
        if self.last:
            return -(-self.geometry.c // self.vector.lanes)
        return self.geometry.c if self.geometry.wanted == "image" else self.geometry.k

    @property
    def tail(self) -> int:
        """Channels in the last vector if it is not full, else 0."""
        return self.geometry.c % self.vector.lanes if self.last else 0

    @property
    def alignment(self) -> int:
        """Alignment of all vectors of the output that are stored, if the array itself is
        aligned."""
        step = self.pixel if self.last else self.patterns[2].size * self.item
        return min(step & -step, self.vector_bytes)

    # The filter in the layout of code that sums over taps

    @property
    def tap_row(self) -> int:
        return self.geometry.filter_sizes[2] * self._tap

    @property
    def tap_plane(self) -> int:
        return self.geometry.filter_sizes[1] * self.tap_row

    @property
    def _tap(self) -> int:
        return self.vector_bytes if self.last else self.item

    def load_tap(self, w: WholeNumberWriter, taps: str, row: int, column: int) -> str:
        """Load a tap for all lanes: one for each channel, or one for all pixels."""
        place = w.advance(taps, row * self.tap_row + column * self._tap)
        return w.load(self.vector, place) if self.last else w.broadcast(self.vector, place)


@dataclass(frozen=True, slots=True)
class ArrayStrides:
    """The strides of an array, in bytes."""

    row: int
    plane: int
    channel: int
    """To the next vector of channels if channels are last, else to the next channel."""
    image: int

    @classmethod
    def of(cls, plan: DepthwisePlan, role: Role) -> ArrayStrides:
        """The strides of the image or the result."""
        geometry = plan.geometry
        deep, high, wide = geometry.image_sizes if role == "image" else geometry.result_sizes
        row = wide * plan.pixel
        plane = high * row
        image = deep * plane
        if plan.last:
            return cls(row, plane, plan.vector_bytes, image)
        channels = geometry.c if role == "image" else geometry.k
        return cls(row, plane, image, image * channels)


# The cost estimate, by arithmetic alone: meant to order configs.
#
# In cycles of a core that starts one multiply-add of whole vectors per cycle; the times of moving
# data are factors, depending on where the arrays are: in L2 of each core, in the last cache or in
# memory. Factors were measured on a Zen 4 with layers of MobileNet.

_LOAD = 0.35
"""Loading a vector: most of it overlaps with products."""
_PICKED = 0.6
"""Picking a vector from several, or interleaving vectors."""
_NARROW = 0.03
"""The fixed cost of a vector of any width."""
_STRIP = 3.0
"""Starting the next row of a strip."""
_ROWS_AGAIN = 0.1
"""The surcharge of reading rows again for every row of the filter."""
_FAR = {CHUNK: 1.0, NEXT: 1.25, NOTHING: 1.45}
_FAR_AND_LONG = {NEXT: 1.0, CHUNK: 1.1, NOTHING: 1.3}
_LONG_PIXEL = 512
"""Bytes of a pixel above which prefetching the next channels is better than fetching a chunk, if
one array is read pixel by pixel."""
_MIDDLE = {NEXT: 1.0, NOTHING: 1.03, CHUNK: 1.08}
_MIDDLE_SUMS = {CHUNK: 1.0, NEXT: 1.06, NOTHING: 1.08}
_NEAR = {NOTHING: 1.0, NEXT: 1.02, CHUNK: 1.1}


def estimate(plan: DepthwisePlan, device: Device, bytes_moved: int) -> float:
    cost = _row(plan, device) * _moving(plan, device, bytes_moved) * _waiting(plan)
    if not plan.sliding:
        cost *= 1.0 + _ROWS_AGAIN
    elif not plan.hoisted:
        cost *= 1.15
    # With more of the filter's sums at once, the arrays are read fewer times.
    if plan.geometry.wanted == "filter":
        cost *= 1.0 + 0.1 * (-(-plan.geometry.filter_sizes[1] // plan.group) - 1)
    return cost


def _row(plan: DepthwisePlan, device: Device) -> float:
    """Cycles of the products of one row of the filter for all channels, with their loads."""
    wide = plan.patterns[2]
    taps = plan.geometry.filter_sizes[2]
    rows = plan.geometry.filter_sizes[1]
    # Vectors half as wide take half as long, but narrower ones do not take less.
    width = max(plan.vector_bytes / device.vector_bytes, 0.5)
    total = 0.0
    for run in plan.runs:
        if plan.last:
            useful = sum(len(reads) for reads in run.reads)
            loaded = len({place for reads in run.reads for _, place in reads})
            picked = 0
        else:
            vectors = -(-run.size // (plan.vector.lanes * wide.step))
            useful = vectors * sum(len(reads) for reads in wide.phases)
            loaded = vectors * taps * wide.stride
            picked = vectors * (taps if wide.stride > 1 else 0)
            picked += vectors * (wide.step if wide.step > 1 else 0)
        moved = (_LOAD * loaded * width + _PICKED * picked) / min(rows, 3)
        total += run.repeats * (useful * (width + _NARROW) + moved + _STRIP / rows)
    return total * plan.units


def _moving(plan: DepthwisePlan, device: Device, bytes_moved: int) -> float:
    l2, l3 = device.cache_bytes("L2") or 1 << 20, device.cache_bytes("L3") or 1 << 24
    far, middle = bytes_moved > 3 * l3 // 4, plan.geometry.n > 1 and bytes_moved > 2 * l2
    factor = 1.0
    if plan.last:
        sums = plan.geometry.wanted == "filter"
        long = plan.pixel >= _LONG_PIXEL and plan.patterns[2].stride == 1 and not sums
        beyond = _FAR_AND_LONG if long else _FAR
        between = _MIDDLE_SUMS if sums else _MIDDLE
        factor *= (beyond if far else between if middle else _NEAR)[plan.fetch]
        factor *= _chunking(plan, l2, far=far)
    if bytes_moved > l3 // 2:
        factor *= 1.0 if plan.stream or plan.geometry.wanted == "filter" else 1.3
    elif plan.stream:
        factor *= 1.15
    if plan.images_shared and plan.last:
        factor *= 0.9 if far else 1.03
    if plan.geometry.wanted == "filter" and not plan.last and plan.block == 1:
        factor *= 1.05
    return factor


def _chunking(plan: DepthwisePlan, l2: int, *, far: bool) -> float:
    """The data of a chunk should stay in L2 until all channels have read it."""
    high, wide = plan.patterns[1:]
    rows = high.given // plan.chunks
    large = rows * wide.given * plan.pixel > l2 // 2
    if far:
        return 1.3 if large and plan.fetch == CHUNK else 1.05 if large else 1.0
    return 1.08 if plan.chunks > 1 else 1.0


def _waiting(plan: DepthwisePlan) -> float:
    """The factor by which the busiest thread takes longer than the average."""
    if plan.threads == 1:
        return 1.0
    parts = plan.chunks * plan.geometry.n
    if plan.geometry.wanted == "filter":
        items = parts if plan.images_shared else plan.units
    else:
        items = parts * plan.units * plan.patterns[0].size
    return -(-items // plan.threads) * plan.threads / items
