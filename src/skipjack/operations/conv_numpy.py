"""Convolutions by NumPy: a matrix product for each tap of the filter, in the given precision.

Arrays come and go as they are stored. Inside, all are channels last with three spatial axes and
the groups apart, so that each direction is one expression.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from skipjack.core.operation import Array
from skipjack.operations.conv_geometry import Geometry, Role


def compute(geometry: Geometry, first: Array, second: Array) -> Array:
    """The wanted array from the two others, in the order of `Geometry.inputs`."""
    given = [role for role, _ in geometry.names if role != geometry.wanted]
    arrays = {
        role: _opened(geometry, role, array)
        for role, array in zip(given, (first, second), strict=True)
    }
    computed = {"result": _result, "image": _image, "filter": _filter}[geometry.wanted](
        geometry, arrays
    )
    return _closed(geometry, computed)


def _opened(geometry: Geometry, role: Role, array: Array) -> Array:
    """``n d h w g c`` for image and result, ``g k d h w c`` for the filter."""
    last = array if geometry.channels_last else np.moveaxis(array, 1, -1)
    sizes, groups = geometry._sizes(role), geometry.groups
    if role == "filter":
        return last.reshape(groups, geometry.group_k, *sizes, geometry.group_c)
    return last.reshape(geometry.n, *sizes, groups, -1)


def _closed(geometry: Geometry, array: Array) -> Array:
    sizes = geometry._sizes(geometry.wanted)[3 - geometry.spatial :]
    if geometry.wanted == "filter":
        last = array.reshape(geometry.k, *sizes, geometry.group_c)
    else:
        last = array.reshape(geometry.n, *sizes, -1)
    return last if geometry.channels_last else np.ascontiguousarray(np.moveaxis(last, -1, 1))


def _padded(geometry: Geometry, image: Array) -> Array:
    pads = [(axis.pad, max(0, axis.pad_after)) for axis in geometry.axes]
    return np.pad(image, [(0, 0), *pads, (0, 0), (0, 0)]) if any(map(any, pads)) else image


def _taps(geometry: Geometry) -> Iterator[tuple[tuple[Any, ...], tuple[slice, ...]]]:
    """Where each tap lies in a filter of groups, and the pixels of the padded image it meets."""
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
    padded, filters = _padded(geometry, arrays["image"]), arrays["filter"]
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
    padded = _padded(geometry, arrays["image"])
    results = _by_group(arrays["result"]).swapaxes(1, 2)
    shape = (geometry.groups, geometry.group_k, *geometry.filter_sizes, geometry.group_c)
    out: Array = np.empty(shape, padded.dtype)
    for tap, pixels in _taps(geometry):
        out[tap] = np.matmul(results, _by_group(padded[pixels]))
    return out
