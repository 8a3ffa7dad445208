"""How long a depthwise convolution takes, by arithmetic alone: meant to order configs.

In cycles of a core that starts one multiply-add of whole vectors in each; times for moving data are
factors, by where the arrays are: on a core of their own second cache, in the last cache or beyond.
Factors are what was measured on a Zen 4 with layers of MobileNet.
"""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.solvers.convolution.depthwise_plan import CHUNK, NEXT, NOTHING, Plan

_LOAD = 0.35
"""A vector that is loaded besides: most of it goes on while products are computed."""
_PICKED = 0.6
"""A vector that is picked from several, or put together."""
_NARROW = 0.03
"""What every vector takes besides, however narrow."""
_STRIP = 3.0
"""Starting the next row of a strip."""
_ROWS_AGAIN = 0.1
"""What it costs more to go through rows for every row of the filter."""
_FAR = {CHUNK: 1.0, NEXT: 1.25, NOTHING: 1.45}
_FAR_AND_LONG = {NEXT: 1.0, CHUNK: 1.1, NOTHING: 1.3}
_LONG_PIXEL = 512
"""Bytes of a pixel, from which on to fetch the next channels was better than to fetch a chunk,
where one array is read, pixel by pixel."""
_MIDDLE = {NEXT: 1.0, NOTHING: 1.03, CHUNK: 1.08}
_MIDDLE_SUMS = {CHUNK: 1.0, NEXT: 1.06, NOTHING: 1.08}
_NEAR = {NOTHING: 1.0, NEXT: 1.02, CHUNK: 1.1}


def estimate(plan: Plan, device: Device, bytes_moved: int) -> float:
    """Relative time of a plan."""
    cost = _row(plan, device) * _moving(plan, device, bytes_moved) * _waiting(plan)
    if not plan.marching:
        cost *= 1.0 + _ROWS_AGAIN
    elif not plan.hoisted:
        cost *= 1.15
    # More of the filter's sums at once: fewer times through the arrays.
    if plan.geometry.wanted == "filter":
        cost *= 1.0 + 0.1 * (-(-plan.geometry.filter_sizes[1] // plan.group) - 1)
    return cost


def _row(plan: Plan, device: Device) -> float:
    """Of all channels in one row of the filter's products, with what is loaded for them."""
    wide = plan.patterns[2]
    taps = plan.geometry.filter_sizes[2]
    rows = plan.geometry.filter_sizes[1]
    # Vectors half as wide take half as long, narrower ones no less.
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


def _moving(plan: Plan, device: Device, bytes_moved: int) -> float:
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


def _chunking(plan: Plan, l2: int, *, far: bool) -> float:
    """What a chunk reads should stay in the second cache until all channels had it."""
    high, wide = plan.patterns[1:]
    rows = high.given // plan.chunks
    large = rows * wide.given * plan.pixel > l2 // 2
    if far:
        return 1.3 if large and plan.fetch == CHUNK else 1.05 if large else 1.0
    return 1.08 if plan.chunks > 1 else 1.0


def _waiting(plan: Plan) -> float:
    """How much longer the last thread takes than the others."""
    if plan.threads == 1:
        return 1.0
    parts = plan.chunks * plan.geometry.n
    if plan.geometry.wanted == "filter":
        items = parts if plan.images_shared else plan.units
    else:
        items = parts * plan.units * plan.patterns[0].size
    return -(-items // plan.threads) * plan.threads / items
