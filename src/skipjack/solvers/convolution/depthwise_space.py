"""What may vary about a depthwise convolution: plans that fit the registers, best ones first."""

from __future__ import annotations

from dataclasses import replace

from skipjack.core.config import Config, Value
from skipjack.core.cpu_levels import lanes_for
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.operations import bytes_moved
from skipjack.solvers.convolution.depthwise_estimate import estimate
from skipjack.solvers.convolution.depthwise_lanes import STREAMED
from skipjack.solvers.convolution.depthwise_plan import CHUNK, NEXT, NOTHING, Plan
from skipjack.solvers.convolution.depthwise_registers import fitted, products
from skipjack.solvers.convolution.rules import geometry_of

MARCH, ROWS = "march", "rows"
_LONGEST = 1800
"""Products in the code of a march; more take too long to build."""
_SMALLEST = 16
"""Bytes of the narrowest vectors."""
_CHUNK_BYTES = 1 << 18
"""That a chunk of an image reads."""
_FEW = 4
"""Items for each thread, below which one of them may wait long for the others."""
_NARROW = (1, 2, 4)
_BLOCKS = (8, 32)


def depthwise_space(problem: Problem, device: Device) -> ParameterSpace:
    """Choices that make a difference for this problem."""
    moved = bytes_moved(problem)
    return ParameterSpace(
        [Parameter(name, values) for name, values in _choices(problem, device, moved).items()],
        order=lambda config: estimate(plan_of(problem, device, config), device, moved),
        default_by_order=True,
    )


def plan_of(problem: Problem, device: Device, config: Config) -> Plan:
    """The plan that a config stands for."""
    walk, _, tile = str(config["strip"]).partition(" ")
    lanes, positions = map(int, tile.split("x"))
    plan = Plan(
        geometry_of(problem),
        VectorType(problem.dtype, lanes),
        positions,
        marching=walk == MARCH,
        fetch=str(config["fetch"]),
        stream=bool(config["stream"]),
        chunks=int(config["chunks"]),
        threads=device.units,
        images_shared=config["split"] == "images",
    )
    plan = replace(plan, block=min(int(config["block"]), plan.units) or plan.units)
    most = fitted(plan, registers_of(device), 1)
    return replace(plan, hoisted=most.hoisted, group=most.group)


def _choices(problem: Problem, device: Device, moved: int) -> dict[str, tuple[Value, ...]]:
    some = Plan(geometry_of(problem), VectorType(problem.dtype, _lanes(problem, device)[0]), 1)
    sums = some.geometry.wanted == "filter"
    flat = some.geometry.axes[0].trivial and some.geometry.image_sizes[0] == 1
    several = some.geometry.n > 1 and some.units > 1
    chunks = _chunks(some, device.units)
    return {
        "strip": _strips(problem, device, max(chunks)),
        "fetch": (NOTHING, NEXT, CHUNK) if some.last and flat and some.units > 1 else (NOTHING,),
        "stream": (False, True) if not sums and _can_stream(some, device, moved) else (False,),
        "chunks": chunks,
        "block": _BLOCKS if sums and not some.last and several else (0,),
        "split": ("channels", "images") if sums and device.units > 1 else ("channels",),
    }


def _lanes(problem: Problem, device: Device) -> tuple[int, ...]:
    """Widths of vectors: as wide as possible, and half of that where it may waste less."""
    geometry = geometry_of(problem)
    item = ITEM_BYTES[problem.dtype]
    widest, least = device.vector_bytes // item, _SMALLEST // item
    some = Plan(geometry, VectorType(problem.dtype, widest), 1)
    size = (
        geometry.c if geometry.channels_last else -(-some.patterns[2].size // some.patterns[2].step)
    )
    lanes = max(least, lanes_for(size, widest))
    half = max(least, lanes // 2)
    if half == lanes or (geometry.channels_last and -(-geometry.c // lanes) >= device.units):
        return (lanes,)
    return (lanes, half)


def _strips(problem: Problem, device: Device, chunks: int) -> tuple[str, ...]:
    """Ways down a plane, each with lanes and positions; those that are the same are listed once."""
    found: dict[object, str] = {}
    geometry = geometry_of(problem)
    for lanes in _lanes(problem, device):
        plan = Plan(geometry, VectorType(problem.dtype, lanes), 1, chunks=chunks)
        for walk in (MARCH, ROWS) if geometry.wanted != "filter" else (MARCH,):
            for narrow in _NARROW:
                each = replace(plan, marching=walk == MARCH)
                each = fitted(each, registers_of(device), narrow)
                if walk == MARCH and products(each) > _LONGEST and narrow < _NARROW[-1]:
                    continue
                key = (lanes, walk, each.runs[0].size)
                found.setdefault(key, f"{walk} {lanes}x{each.positions}")
    small = [strip for strip in found.values() if strip.startswith(MARCH)]
    return tuple(found.values()) if geometry.taps > 9 or not small else tuple(small)


def _chunks(plan: Plan, threads: int) -> tuple[int, ...]:
    """One; as many as make what is read of an image fit a cache; enough for all threads."""
    high, wide = plan.patterns[1:]
    found = {1}
    if plan.last:
        read = high.given * wide.given * plan.pixel
        found.add(max(1, min(high.blocks, -(-read // _CHUNK_BYTES))))
    items = plan.geometry.n * plan.units
    if items < _FEW * threads:
        found.add(max(1, min(high.blocks, -(-_FEW * threads // items))))
    return tuple(sorted(found))


def _can_stream(plan: Plan, device: Device, moved: int) -> bool:
    """Worth a try where the arrays fill more than a quarter of the last cache."""
    last = max((size for _, size in device.caches), default=0)
    once = plan.geometry.filter_sizes[0] == 1 and (
        plan.geometry.wanted == "result" or plan.geometry.group_k == 1
    )
    aligned = plan.alignment >= (plan.vector_bytes if plan.last else STREAMED)
    return once and aligned and moved > last // 4
