"""The facts of a convolution that its solvers for GPUs read, and how its pixels are divided into
boxes and parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from skipjack import operations
from skipjack.core import DTYPES, Problem
from skipjack.operations import Axis, Convolution, Geometry, Role
from skipjack.solvers.gpu.triton import TRITON_TYPES

# The facts of a convolution that all its solvers for GPUs read.

Direction = Literal["fwd", "bwd", "wrw"]
_DIRECTIONS: dict[Role, Direction] = {"result": "fwd", "image": "bwd", "filter": "wrw"}


@dataclass(frozen=True, slots=True)
class ConvLayer:
    """A two-dimensional convolution; the roles of a transposed one are already exchanged."""

    geometry: Geometry
    dtype: str

    @classmethod
    def of(cls, problem: Problem) -> ConvLayer:
        """The layer of a problem that was not refused."""
        operation = operations.get(problem.operation)
        assert isinstance(operation, Convolution), "refused before"
        return cls(operation.geometry(problem), problem.dtype)

    @property
    def direction(self) -> Direction:
        """What is computed: the result (fwd), the image (bwd) or the filter (wrw)."""
        return _DIRECTIONS[self.geometry.wanted]

    @property
    def computes_image(self) -> bool:
        """Whether the gradient of the image is computed."""
        return self.geometry.wanted == "image"

    @property
    def high(self) -> Axis:
        """The vertical axis: from row to row."""
        return self.geometry.axes[1]

    @property
    def wide(self) -> Axis:
        """The horizontal axis: from column to column."""
        return self.geometry.axes[2]

    @property
    def channels_last(self) -> bool:
        """Whether channels are the last dimension."""
        return self.geometry.channels_last

    @property
    def c(self) -> int:
        """Channels of the image per group."""
        return self.geometry.group_c

    @property
    def k(self) -> int:
        """Channels of the result per group."""
        return self.geometry.group_k

    @property
    def cols(self) -> int:
        """Channels per group that are computed."""
        return self.c if self.computes_image else self.k

    @property
    def depth(self) -> int:
        """Channels per group that are summed over."""
        return self.k if self.computes_image else self.c

    @property
    def given(self) -> Role:
        """The array that is convolved with the filter."""
        return "result" if self.computes_image else "image"

    def sizes(self, role: Role) -> tuple[int, int, int]:
        """Number of images, rows and columns of the image or the result."""
        high, wide = self.high, self.wide
        if role == "image":
            return self.geometry.n, high.image, wide.image
        return self.geometry.n, high.result, wide.result

    def channels(self, role: Role) -> int:
        """Channels of all groups."""
        return self.geometry.c if role == "image" else self.geometry.k

    def elements(self, role: Role) -> int:
        """Number of elements of an array."""
        return self.geometry.tensor(role).size

    @property
    def flat(self) -> bool:
        """Whether each pixel of the result depends only on the same pixel of the image."""
        return self.high.trivial and self.wide.trivial

    @property
    def places(self) -> int:
        """For image gradients, the number of positions within the strides; otherwise 1."""
        return self.high.stride * self.wide.stride if self.computes_image else 1

    @property
    def sparse(self) -> bool:
        """Whether, for image gradients, the taps that contribute to a pixel are irregular."""
        axes = (self.high, self.wide)
        return self.computes_image and any(
            a.stride > 1 and a.dilation > 1 and a.filter > 1 for a in axes
        )

    @property
    def type(self) -> str:
        """Triton's name of the element type."""
        return TRITON_TYPES[self.dtype]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of each array."""
        return DTYPES[self.dtype].bytes

    @property
    def precision(self) -> int:
        """How f32 is multiplied; see `skipjack.solvers.gpu.kernels.tiles.multiplied`."""
        return 2 if self.dtype == "f32" else 0

    @property
    def long(self) -> bool:
        """Whether the number of elements of an array exceeds 31 bits."""
        roles: tuple[Role, ...] = ("image", "filter", "result")
        return max(map(self.elements, roles)) >= 2**31

    @property
    def flops(self) -> int:
        """Number of multiplications and additions."""
        return 2 * self.geometry.multiplications


def not_two_dimensional(problem: Problem) -> str:
    """Why a two-dimensional solver cannot compute a problem; empty if it can."""
    operation = operations.get(problem.operation)
    if not isinstance(operation, Convolution):
        return f"it computes convolutions and cannot do {problem.operation}"
    depth = operation.geometry(problem).axes[0]
    if (depth.image, depth.filter, depth.result) != (1, 1, 1):
        return "it supports two dimensions, not three"
    return ""


# Boxes of pixels: the images, rows and columns that a tile covers.

Box = tuple[int, int, int]
"""Images, rows, columns; each a power of two, as TMA and Triton require."""
_LONGEST = 256
"""The longest side of a box that TMA loads at once."""


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


def box_count(sizes: tuple[int, int, int], box: Box) -> int:
    """The number of boxes that cover all pixels."""
    return prod(map(ceil_div, sizes, box))


def box_waste(sizes: tuple[int, int, int], box: Box) -> float:
    """The ratio of pixels in all boxes to existing pixels."""
    return box_count(sizes, box) * prod(box) / prod(sizes)


def best_boxes(
    sizes: tuple[int, int, int], pixels: int, most: int, wide: bool = False
) -> list[Box]:
    """The boxes of `pixels` pixels that waste least.

    `wide`: the result is written row by row, so that boxes of few columns cost more.
    """
    narrow = 0.5 if wide else 0.02

    def cost(box: Box) -> tuple[float, Box]:
        return box_waste(sizes, box) * (1 + narrow / box[2]), box

    return sorted(_boxes(pixels), key=cost)[:most]


def _boxes(pixels: int) -> Iterator[Box]:
    columns = 1
    while columns <= min(pixels, _LONGEST):
        rows = 1
        while rows * columns <= pixels and rows <= _LONGEST:
            if pixels // (rows * columns) <= _LONGEST:
                yield pixels // (rows * columns), rows, columns
            rows *= 2
        columns *= 2


def box_text(box: Box) -> str:
    """The text of a box in a config: ``2x8x8``."""
    return "x".join(map(str, box))


def parse_box(text_: str) -> Box:
    """The inverse of `box_text`."""
    images, rows, columns = map(int, text_.split("x"))
    return images, rows, columns


# Sums over many pixels, split into parts so that every unit of the GPU has work.


@dataclass(frozen=True, slots=True)
class SumParts:
    """The number of parts, and how many chunks of pixels each of them sums."""

    count: int
    share: int

    @classmethod
    def of(cls, chunks: int, tiles: int, units: int, waves: int) -> SumParts:
        """Enough parts to fill the units `waves` times, as far as there are chunks."""
        parts = max(1, min(chunks, round(waves * units / tiles)))
        share = ceil_div(chunks, parts)
        return cls(ceil_div(chunks, share), share)

    @property
    def several(self) -> bool:
        """Whether there are parts to add up."""
        return self.count > 1
