"""Features of problems, devices and candidates: one definition for training and for programs.

A model stores `FEATURES_VERSION` and the names of its features, and is refused where these differ.
Sizes are logarithms to base 2. Words such as ``nested`` become a number that is the same in every
space. `problem_features` is pure Python and takes a few microseconds, as programs use it for each
problem that they look up; `CandidateFeatures` adds the settings of configs and what follows from
both, such as the part of a tile that lies outside of the problem.
"""

from __future__ import annotations

import functools
import re
import zlib
from dataclasses import dataclass
from math import log2, prod
from typing import Any

from skipjack.core import DTYPES, Device, Problem
from skipjack.operations import Convolution, Matmul, get, outputs, tensor_dtype

FEATURES_VERSION = 1
"""Raised when a feature changes its meaning; models of other versions are trained again."""
MISSING = -99.0
"""The value of a feature that a candidate does not have."""

_SMALL_CACHES = (32 << 10, 1 << 20, 32 << 20)
"""Sizes of caches that are not known."""
_PAGE = 4096

DEVICE_FEATURES = ("vector_bytes", "units", "l1_bytes", "l2_bytes", "l3_bytes")
COMMON_FEATURES = (
    *("dtype", "element_bytes", "flops", "bytes", "flops_per_byte"),
    *("bytes_over_l1", "bytes_over_l2", "bytes_over_l3", "flops_per_unit"),
    *DEVICE_FEATURES,
)
PRODUCT_FEATURES = (
    *("m", "n", "k", "batch", "m_over_n", "k_over_n", "least_side"),
    *("transposed_a", "transposed_b", "adds_c", "bias", "activation"),
    *("n_in_vectors", "m_divisor", "n_divisor", "k_divisor", "rows_page_apart"),
    *("a_over_l2", "b_over_l1", "b_over_l2", "c_over_l2"),
)
CONVOLUTION_FEATURES = (
    *("images", "c", "k", "image_d", "image_h", "image_w", "result_d", "result_h", "result_w"),
    *("filter_d", "filter_h", "filter_w", "stride", "stride_w", "dilation", "pad_h", "pad_w"),
    *("groups", "group_c", "group_k", "taps", "depthwise", "pointwise"),
    *("backward_data", "backward_weights", "transposed", "channels_last"),
    *("gemm_m", "gemm_n", "gemm_k", "image_over_l2", "filter_over_l2", "result_over_l2"),
)
OTHER_FEATURES = (
    *("operation", "attributes", "layout_and_direction", "arrays", "axes", "output", "input"),
    *("output_over_input", "first_axis", "last_axis", "inner_axes", "last_axis_divisor"),
)


def operation_group(operation: str) -> str:
    """The group of operations that share a model: ``products``, ``convolutions``, ``reduce`` ..."""
    return _group(operation)[0]


@functools.lru_cache(maxsize=256)
def _group(operation: str) -> tuple[str, Any]:
    """The name of a group, and the operation."""
    found = get(operation)
    if isinstance(found, Matmul):
        return "products", found
    if isinstance(found, Convolution):
        return "convolutions", found
    return re.sub(r"\W", "_", type(found).__name__.lower()), found


def problem_feature_names(operation: str) -> tuple[str, ...]:
    """The names of `problem_features` for problems of an operation."""
    return _NAMES.get(_group(operation)[0], COMMON_FEATURES + OTHER_FEATURES)


_NAMES = {
    "products": COMMON_FEATURES + PRODUCT_FEATURES,
    "convolutions": COMMON_FEATURES + CONVOLUTION_FEATURES,
}


def problem_features(problem: Problem, device: Device) -> tuple[float, ...]:
    """Numbers that describe a problem on a device, as many as `problem_feature_names`."""
    group, operation = _group(problem.operation)
    facts = device_facts(device)
    if group == "products":
        return _product(problem, facts)
    if group == "convolutions":
        return _convolution(problem, operation, facts)
    return _other(problem, operation, facts)


def word_code(text: str) -> float:
    """A number from 0 to 1 for a word, the same everywhere; 0 for an empty one."""
    return (zlib.crc32(text.encode()) % 9973 + 1) / 9974 if text else 0.0


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What is the same for all problems on a device."""

    vector_bytes: int
    units: float
    """Log2 of the number."""
    caches: tuple[float, float, float]
    """Log2 of their bytes."""
    features: tuple[float, ...]


@functools.lru_cache(maxsize=32)
def device_facts(device: Device) -> DeviceFacts:
    """What features need of a device; that of recent ones is cached."""
    sizes = dict(device.caches)
    l1, l2, l3 = (
        log2(sizes.get(level) or usual)
        for level, usual in zip(("L1", "L2", "L3"), _SMALL_CACHES, strict=True)
    )
    units, wide = log2(max(1, device.units)), max(1, device.vector_bytes)
    return DeviceFacts(wide, units, (l1, l2, l3), (log2(wide), units, l1, l2, l3))


@functools.lru_cache(maxsize=64)
def dtype_facts(dtype: str) -> tuple[int, float, float]:
    """Bytes, their log2, and the code of the name."""
    size = DTYPES[dtype].bytes
    return size, log2(size), word_code(dtype)


def _common(
    dtype: tuple[int, float, float], flops: float, moved: float, facts: DeviceFacts
) -> tuple[float, ...]:
    work, traffic = log2(max(flops, 1.0)), log2(max(moved, 1.0))
    l1, l2, l3 = facts.caches
    return (
        *(dtype[2], dtype[1], work, traffic, work - traffic),
        *(traffic - l1, traffic - l2, traffic - l3, work - facts.units),
        *facts.features,
    )


def _divisor(size: int) -> float:
    """Log2 of the largest power of two that divides a size, at most 64."""
    return log2(min(size & -size, 64))


def _product(problem: Problem, facts: DeviceFacts) -> tuple[float, ...]:
    shape = problem.shape
    batch, m, n, k = shape if len(shape) == 4 else (1, *shape)
    kind = dtype_facts(problem.dtype)
    item = kind[0]
    given = dict(problem.attributes) if problem.attributes else {}
    ta, tb = given.get("ta") == "1", given.get("tb") == "1"
    adds, bias = "beta" in given, given.get("bias") == "1"
    a, b, c = m * k, k * n, m * n
    moved = batch * (a + b + c * (2 if adds else 1)) * item
    lm, ln, lk, shift = log2(m), log2(n), log2(k), kind[1]
    l1, l2, _ = facts.caches
    lanes = max(1, facts.vector_bytes // item)
    row = (k if tb else n) * item
    return (
        *_common(kind, 2.0 * batch * a * n, moved, facts),
        *(lm, ln, lk, log2(batch), lm - ln, lk - ln, min(lm, ln)),
        *(float(ta), float(tb), float(adds), float(bias), word_code(given.get("act", ""))),
        *(log2(-(-n // lanes) * lanes / n), _divisor(m), _divisor(n), _divisor(k)),
        float(row % _PAGE == 0),
        *(lm + lk + shift - l2, lk + ln + shift - l1, lk + ln + shift - l2, lm + ln + shift - l2),
    )


@functools.lru_cache(maxsize=16)
def _letters(operation: Convolution) -> tuple[str, ...]:
    return tuple(operation.letters)


def _convolution(problem: Problem, operation: Convolution, facts: DeviceFacts) -> tuple[float, ...]:
    have = dict(zip(_letters(operation), problem.shape, strict=True))
    get_ = have.get
    n, c, k, g = have["n"], have["c"], have["k"], have["g"]
    direction = problem.direction
    axes = []
    for size, taps, pad, stride, dilation, more in ("dzotie", "hypula", "wxqvjb"):
        extent = get_(size, 1)
        if extent == 1 and size not in have:
            axes.append((1, 1, 1))
            continue
        filters, pads, step, apart = have[taps], get_(pad, 0), get_(stride, 1), get_(dilation, 1)
        reach = (filters - 1) * apart + 1
        if operation.transposed:
            axes.append(((extent - 1) * step - 2 * pads + reach + get_(more, 0), filters, extent))
        else:
            axes.append((extent, filters, (extent + 2 * pads - reach) // step + 1))
    if operation.transposed:
        c, k = k, c
    (d, z, out_d), (h, y, out_h), (w, x, out_w) = axes
    gc, gk, taps_ = c // g, k // g, z * y * x
    pixels, results = d * h * w, out_d * out_h * out_w
    kind = dtype_facts(problem.dtype)
    item, shift = kind[0], kind[1]
    image, filter_, result = n * c * pixels, k * gc * taps_, n * k * results
    m, columns, depth = gemm_sizes(
        direction, operation.transposed, (n, gc, gk, taps_, pixels, results)
    )
    l2 = facts.caches[1]
    return (
        *_common(kind, 2.0 * result * gc * taps_, (image + filter_ + result) * item, facts),
        *(log2(n), log2(c), log2(k), log2(d), log2(h), log2(w)),
        *(log2(out_d), log2(out_h), log2(out_w), log2(z), log2(y), log2(x)),
        *(float(get_("u", 1)), float(get_("v", 1)), float(max(get_("l", 1), get_("j", 1)))),
        *(float(get_("p", 0)), float(get_("q", 0))),
        *(log2(g), log2(gc), log2(gk), log2(taps_), float(g > 1 and gc == 1), float(taps_ == 1)),
        *(float(direction == "bwd"), float(direction == "wrw"), float(operation.transposed)),
        float(problem.layout.endswith("C")),
        *(log2(m), log2(columns), log2(depth)),
        *(log2(image) + shift - l2, log2(filter_) + shift - l2, log2(result) + shift - l2),
    )


def gemm_sizes(
    direction: str, transposed: bool, sizes: tuple[int, int, int, int, int, int]
) -> tuple[int, int, int]:
    """Rows, columns and depth of the matrix product that equals a convolution, of one group.

    `sizes` are the images, the channels and kernels of a group, the taps, and the pixels of image
    and result. Rows are pixels, or channels of the result for the gradient of the filter.
    """
    n, gc, gk, taps, pixels, results = sizes
    if direction == "wrw":
        return gk, gc * taps, n * results
    if (direction == "bwd") != transposed:
        return n * pixels, gc, gk * taps
    return n * results, gk, gc * taps


def _other(problem: Problem, operation: Any, facts: DeviceFacts) -> tuple[float, ...]:
    inputs, made = operation.inputs(problem), outputs(problem)
    sizes = [tensor.size for tensor in inputs]
    out = max(tensor.size for tensor in made)
    moved = sum(
        tensor.size * dtype_facts(tensor_dtype(problem, tensor))[0] for tensor in (*inputs, *made)
    )
    largest, shape = max(sizes, default=1), problem.shape
    return (
        *_common(dtype_facts(problem.dtype), float(operation.flops(problem)), moved, facts),
        word_code(problem.operation),
        word_code("/".join(f"{name}={value}" for name, value in problem.attributes)),
        word_code(problem.layout + problem.direction),
        *(float(len(sizes) + len(made)), float(len(shape)), log2(out), log2(largest)),
        *(log2(out / largest), log2(shape[0]), log2(shape[-1]), log2(prod(shape[1:]))),
        _divisor(shape[-1]),
    )
