"""The geometry of a convolution: three arrays, one of which is wanted.

An *image* convolved with a *filter* gives a *result*. Forward computes the result, backward-data
the image's gradient, backward-weights the filter's; all three run over the same triples of
elements. A transposed convolution is the same with the roles of image and result exchanged, so
solvers know nothing of it: they ask which role is wanted and what the arrays are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from skipjack.core.nest import Tensor

Role = Literal["image", "filter", "result"]
OUT = "out"


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: sizes of the three arrays along it, and how the filter steps."""

    image: int
    filter: int = 1
    result: int = 1
    pad: int = 0
    stride: int = 1
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Elements of the image from the filter's first to its last tap, both included."""
        return (self.filter - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Elements of the padded image that are read: what a stride leaves over is not."""
        return (self.result - 1) * self.stride + self.reach

    @property
    def pad_after(self) -> int:
        """Zeros behind the image; negative where its end is never read."""
        return self.padded - self.pad - self.image

    @property
    def trivial(self) -> bool:
        """Whether every element of the result has its own element of the image, in order."""
        return (self.filter, self.pad, self.stride) == (1, 0, 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A plain convolution. Spatial axes are always three; a 2-D one has a depth of 1."""

    n: int
    c: int
    k: int
    groups: int
    axes: tuple[Axis, Axis, Axis]
    spatial: int
    """2 or 3."""
    channels_last: bool
    wanted: Role
    names: tuple[tuple[Role, str], ...]
    """What the arrays are called; the wanted one is `OUT`."""

    def name(self, role: Role) -> str:
        """The array's name in a call."""
        return dict(self.names)[role]

    @property
    def group_c(self) -> int:
        """Channels of the image in one group."""
        return self.c // self.groups

    @property
    def group_k(self) -> int:
        """Channels of the result in one group."""
        return self.k // self.groups

    @property
    def taps(self) -> int:
        """Spatial elements of the filter."""
        return prod(axis.filter for axis in self.axes)

    @property
    def image_sizes(self) -> tuple[int, int, int]:
        """Depth, height, width."""
        return self._sizes("image")

    @property
    def filter_sizes(self) -> tuple[int, int, int]:
        """Depth, height, width."""
        return self._sizes("filter")

    @property
    def result_sizes(self) -> tuple[int, int, int]:
        """Depth, height, width."""
        return self._sizes("result")

    def _sizes(self, role: Role) -> tuple[int, int, int]:
        d, h, w = self.axes
        return getattr(d, role), getattr(h, role), getattr(w, role)

    @property
    def result_pixels(self) -> int:
        """Of one image's result."""
        return prod(self.result_sizes)

    @property
    def depthwise(self) -> bool:
        """Each channel by itself, possibly giving several."""
        return self.groups > 1 and self.group_c == 1

    @property
    def pointwise(self) -> bool:
        """A 1x1 filter: no pixel meets another."""
        return self.taps == 1

    def shape(self, role: Role) -> tuple[int, ...]:
        """Of an array as it is stored: without the depth where there is none."""
        first, channels = {
            "image": (self.n, self.c),
            "filter": (self.k, self.group_c),
            "result": (self.n, self.k),
        }[role]
        sizes = self._sizes(role)[3 - self.spatial :]
        return (first, *sizes, channels) if self.channels_last else (first, channels, *sizes)

    def tensor(self, role: Role) -> Tensor:
        """The array as it is stored, by its name in a call."""
        return Tensor(self.name(role), self.shape(role))

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """The two that are given, in the order of a call."""
        first, second = (role for role, name in self.names if name != OUT)
        return self.tensor(first), self.tensor(second)

    @property
    def multiplications(self) -> int:
        """Of the whole filter at every pixel; what would fall on padding is counted."""
        return self.n * self.k * self.group_c * self.taps * self.result_pixels


def result_size(size: int, filter_size: int, pad: int, stride: int, dilation: int) -> int:
    """Of a convolution; less than 1 where the filter is larger than the padded image."""
    return (size + 2 * pad - ((filter_size - 1) * dilation + 1)) // stride + 1


def transposed_size(
    size: int, filter_size: int, pad: int, stride: int, dilation: int, more: int
) -> int:
    """Of a transposed convolution's output; `more` is its output padding."""
    return (size - 1) * stride - 2 * pad + (filter_size - 1) * dilation + 1 + more
