"""The geometry of a convolution, and convolutions computed with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from skipjack.core import Array, Tensor

# The geometry of a convolution: three arrays, one of which is computed.
#
# An *image* convolved with a *filter* gives a *result*. Forward computes the result, backward-data
# the gradient of the image, backward-weights that of the filter; all three use the same triples of
# elements. A transposed convolution is the same with the roles of image and result exchanged, so
# that solvers need not distinguish it: they only use the computed role and the names of the arrays.

Role = Literal["image", "filter", "result"]
OUT = "out"


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: sizes of the three arrays along it, and the steps of the filter."""

    image: int
    filter: int = 1
    result: int = 1
    pad: int = 0
    stride: int = 1
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Elements of the image from the first to the last tap of the filter, inclusive."""
        return (self.filter - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Elements of the padded image that are read; a stride may leave a rest unread."""
        return (self.result - 1) * self.stride + self.reach

    @property
    def pad_after(self) -> int:
        """Zeros after the image; negative if its end is never read."""
        return self.padded - self.pad - self.image

    @property
    def trivial(self) -> bool:
        """Whether each element of the result uses the image element at the same position."""
        return (self.filter, self.pad, self.stride) == (1, 0, 1)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A plain convolution. It always has three spatial axes; the depth of a 2-D one is 1."""

    n: int
    c: int
    k: int
    groups: int
    axes: tuple[Axis, Axis, Axis]
    spatial: int
    """Number of spatial axes of the arrays: 2 or 3."""
    channels_last: bool
    wanted: Role
    names: tuple[tuple[Role, str], ...]
    """Names of the arrays; the computed one is `OUT`."""

    def name(self, role: Role) -> str:
        """The name of an array in a call."""
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
        """Sizes along depth, height and width."""
        return self._sizes("image")

    @property
    def filter_sizes(self) -> tuple[int, int, int]:
        """Sizes along depth, height and width."""
        return self._sizes("filter")

    @property
    def result_sizes(self) -> tuple[int, int, int]:
        """Sizes along depth, height and width."""
        return self._sizes("result")

    def _sizes(self, role: Role) -> tuple[int, int, int]:
        d, h, w = self.axes
        return getattr(d, role), getattr(h, role), getattr(w, role)

    @property
    def result_pixels(self) -> int:
        """Spatial elements of the result of one image."""
        return prod(self.result_sizes)

    @property
    def depthwise(self) -> bool:
        """Whether each channel is convolved separately, possibly giving several."""
        return self.groups > 1 and self.group_c == 1

    @property
    def pointwise(self) -> bool:
        """Whether the filter has a single tap, so that pixels are independent."""
        return self.taps == 1

    def shape(self, role: Role) -> tuple[int, ...]:
        """The stored shape of an array, without the depth if it is two-dimensional."""
        first, channels = {
            "image": (self.n, self.c),
            "filter": (self.k, self.group_c),
            "result": (self.n, self.k),
        }[role]
        sizes = self._sizes(role)[3 - self.spatial :]
        return (first, *sizes, channels) if self.channels_last else (first, channels, *sizes)

    def tensor(self, role: Role) -> Tensor:
        """The array as it is stored, with its name in a call."""
        return Tensor(self.name(role), self.shape(role))

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """The two input arrays, in the order of a call."""
        first, second = (role for role, name in self.names if name != OUT)
        return self.tensor(first), self.tensor(second)

    @property
    def multiplications(self) -> int:
        """Multiplications of the complete filter at every pixel, including those with padding."""
        return self.n * self.k * self.group_c * self.taps * self.result_pixels


def result_size(size: int, filter_size: int, pad: int, stride: int, dilation: int) -> int:
    """Size of the result; less than 1 if the filter exceeds the padded image."""
    return (size + 2 * pad - ((filter_size - 1) * dilation + 1)) // stride + 1


def transposed_size(
    size: int, filter_size: int, pad: int, stride: int, dilation: int, more: int
) -> int:
    """Size of the output of a transposed convolution; `more` is its output padding."""
    return (size - 1) * stride - 2 * pad + (filter_size - 1) * dilation + 1 + more


# Convolutions with NumPy: a matrix product for each tap of the filter, in the given precision.
#
# Arguments and results are arrays as they are stored. Internally all arrays are channels last, with
# three spatial axes and a separate axis for groups, so that each direction is one expression.


def convolve(geometry: Geometry, first: Array, second: Array) -> Array:
    """The computed array from the two others, in the order of `Geometry.inputs`."""
    inputs = [role for role, _ in geometry.names if role != geometry.wanted]
    arrays = {
        role: _to_grouped(geometry, role, array)
        for role, array in zip(inputs, (first, second), strict=True)
    }
    computed = {"result": _result, "image": _image, "filter": _filter}[geometry.wanted](
        geometry, arrays
    )
    return _from_grouped(geometry, computed)


def _to_grouped(geometry: Geometry, role: Role, array: Array) -> Array:
    """``n d h w g c`` for image and result, ``g k d h w c`` for the filter."""
    last = array if geometry.channels_last else np.moveaxis(array, 1, -1)
    sizes, groups = geometry._sizes(role), geometry.groups
    if role == "filter":
        return last.reshape(groups, geometry.group_k, *sizes, geometry.group_c)
    return last.reshape(geometry.n, *sizes, groups, -1)


def _from_grouped(geometry: Geometry, array: Array) -> Array:
    sizes = geometry._sizes(geometry.wanted)[3 - geometry.spatial :]
    if geometry.wanted == "filter":
        last = array.reshape(geometry.k, *sizes, geometry.group_c)
    else:
        last = array.reshape(geometry.n, *sizes, -1)
    return last if geometry.channels_last else np.ascontiguousarray(np.moveaxis(last, -1, 1))


def _padded_image(geometry: Geometry, image: Array) -> Array:
    pads = [(axis.pad, max(0, axis.pad_after)) for axis in geometry.axes]
    return np.pad(image, [(0, 0), *pads, (0, 0), (0, 0)]) if any(map(any, pads)) else image


def _taps(geometry: Geometry) -> Iterator[tuple[tuple[Any, ...], tuple[slice, ...]]]:
    """The index of each tap in a grouped filter, and of its pixels in the padded image."""
    for tap in product(*(range(axis.filter) for axis in geometry.axes)):
        pixels = []
        for at, axis in zip(tap, geometry.axes, strict=True):
            start = at * axis.dilation
            pixels.append(slice(start, start + (axis.result - 1) * axis.stride + 1, axis.stride))
        yield (slice(None), slice(None), *tap), (slice(None), *pixels)


def _by_group(array: Array) -> Array:
    """``g (n pixels) channels``: a matrix for each group."""
    groups, channels = array.shape[-2:]
    return np.ascontiguousarray(np.moveaxis(array, -2, 0)).reshape(groups, -1, channels)


def _result(geometry: Geometry, arrays: dict[Role, Array]) -> Array:
    padded, filters = _padded_image(geometry, arrays["image"]), arrays["filter"]
    total: Array | float = 0.0
    for tap, pixels in _taps(geometry):
        at = filters[tap]
        total = total + np.matmul(_by_group(padded[pixels]), at.swapaxes(1, 2))
    pixels_first = np.moveaxis(np.asarray(total), 0, 1)
    return pixels_first.reshape(geometry.n, *geometry.result_sizes, geometry.k)


def _image(geometry: Geometry, arrays: dict[Role, Array]) -> Array:
    results, filters = _by_group(arrays["result"]), arrays["filter"]
    sizes = [max(axis.padded, axis.pad + axis.image) for axis in geometry.axes]
    padded = np.zeros(
        (geometry.n, *sizes, geometry.groups, geometry.group_c), arrays["result"].dtype
    )
    shape = (geometry.groups, geometry.n, *geometry.result_sizes, geometry.group_c)
    for tap, pixels in _taps(geometry):
        at = filters[tap]
        padded[pixels] += np.moveaxis(np.matmul(results, at).reshape(shape), 0, -2)
    inside = tuple(slice(axis.pad, axis.pad + axis.image) for axis in geometry.axes)
    return np.ascontiguousarray(padded[(slice(None), *inside)])


def _filter(geometry: Geometry, arrays: dict[Role, Array]) -> Array:
    padded = _padded_image(geometry, arrays["image"])
    results = _by_group(arrays["result"]).swapaxes(1, 2)
    shape = (geometry.groups, geometry.group_k, *geometry.filter_sizes, geometry.group_c)
    out: Array = np.empty(shape, padded.dtype)
    for tap, pixels in _taps(geometry):
        out[tap] = np.matmul(results, _by_group(padded[pixels]))
    return out
