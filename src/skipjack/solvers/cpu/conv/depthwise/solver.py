"""The depthwise convolution solver and its search space: plans that fit the registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem, Value, lanes_for
from skipjack.native import ITEM_BYTES, VectorType, parallel_slot, registers_of, workspace_slot
from skipjack.operations import Geometry, Role, bytes_moved
from skipjack.solvers.cpu.conv.depthwise import filter_gradient, planes
from skipjack.solvers.cpu.conv.depthwise.filter_gradient import filter_groups
from skipjack.solvers.cpu.conv.depthwise.plan import CHUNK, NEXT, NOTHING, DepthwisePlan, estimate
from skipjack.solvers.cpu.conv.depthwise.row_vectors import STREAMED
from skipjack.solvers.cpu.conv.depthwise.window import (
    SlidingWindow,
    plane_chunks,
    read_pattern,
    sliding_window,
)
from skipjack.solvers.cpu.conv.requirements import DEPTHWISE, Requirement, geometry_of, refusal
from skipjack.solvers.cpu.ir import IRStage, Part, StagedSolver
from skipjack.solvers.solver import Slot

# How much of a convolution fits into registers, and how long its code becomes.

_SPARE = 2
"""Registers for loaded values; with taps in registers one is enough."""
_MIN_POSITIONS = 4
"""The fewest positions of a strip for which more rows of the filter pay."""


def fitted(plan: DepthwisePlan, registers: int, narrow: int) -> DepthwisePlan:
    """The plan with as many positions as fit the registers, divided by `narrow`."""
    if plan.geometry.wanted == "filter":
        return _fitted_sums(plan, registers, narrow)
    step = plan.patterns[2].step
    if not plan.sliding:
        room = registers - plan.geometry.filter_sizes[2] - _SPARE
        return _with_positions(plan, room // narrow, step)
    live = max(1, sliding_window(plan.patterns[1]).live)
    _, rows, columns = plan.geometry.filter_sizes
    room = (registers - rows * columns - 1) // live
    hoisted = room >= max(2, step)
    if not hoisted:
        room = (registers - _SPARE) // live
    return _with_positions(replace(plan, hoisted=hoisted), room // narrow, step)


def _with_positions(plan: DepthwisePlan, positions: int, step: int) -> DepthwisePlan:
    return replace(plan, positions=max(1, positions // step) * step)


def _fitted_sums(plan: DepthwisePlan, registers: int, narrow: int) -> DepthwisePlan:
    """The plan with as many rows of the filter as leave room for some positions."""
    _, rows, columns = plan.geometry.filter_sizes
    _, high, _ = plan.patterns
    best = plan
    for group in range(1, rows + 1):
        taken = replace(high, phases=(high.phases[0][:group],))
        live = max(1, sliding_window(taken).live)
        positions = (registers - group * columns - _SPARE) // live
        if group > 1 and positions < _MIN_POSITIONS:
            break
        best = replace(plan, group=group, positions=max(1, positions // narrow))
    return best


def products(plan: DepthwisePlan) -> int:
    """The number of multiply-adds in the code, which decides how long it takes to build."""
    columns = sum(_row_products(plan, run_number) for run_number in range(len(plan.runs)))
    _, high, _ = plan.patterns
    if plan.geometry.wanted == "filter":
        groups = filter_groups(high.phases[0], plan.group)
        patterns = [replace(high, phases=(reads,)) for reads in groups]
    else:
        patterns = [high]
    marches = [
        each.sliding_window for pattern in patterns for each in plane_chunks(pattern, plan.chunks)
    ]
    return columns * sum(_row_pairs(each) for each in marches) * (2 if plan.tail else 1)


def _row_products(plan: DepthwisePlan, run_number: int) -> int:
    """The number of products of a row of a run with a row of the filter."""
    run = plan.runs[run_number]
    if plan.last:
        return sum(len(reads) for reads in run.reads)
    wide = plan.patterns[2]
    vectors = -(-run.size // (plan.vector.lanes * wide.step))
    return vectors * sum(len(reads) for reads in wide.phases)


def _row_pairs(each: SlidingWindow) -> int:
    return sum(len(uses) for part in each.rounds for _, uses in part.rows)


# The search space: plans that fit the registers, best ones first.

SLIDING, ROWS = "march", "rows"
_LONGEST = 1800
"""Most products in the code of a sliding window; more take too long to build."""
_SMALLEST = 16
_CHUNK_BYTES = 1 << 18
"""Bytes that a chunk of an image reads."""
_ITEMS_PER_THREAD = 4
"""Items per thread below which threads may wait long for the slowest."""
_NARROW = (1, 2, 4)
_BLOCKS = (8, 32)


def depthwise_space(problem: Problem, device: Device) -> ParameterSpace:
    """The parameters that make a difference for this problem."""
    moved = bytes_moved(problem)
    return ParameterSpace(
        [Parameter(name, values) for name, values in _choices(problem, device, moved).items()],
        order=lambda config: estimate(plan_of(problem, device, config), device, moved),
        default_by_order=True,
    )


def plan_of(problem: Problem, device: Device, config: Config) -> DepthwisePlan:
    """The plan of a config."""
    walk, _, tile = str(config["strip"]).partition(" ")
    lanes, positions = map(int, tile.split("x"))
    plan = DepthwisePlan(
        geometry_of(problem),
        VectorType(problem.dtype, lanes),
        positions,
        sliding=walk == SLIDING,
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
    some = DepthwisePlan(
        geometry_of(problem), VectorType(problem.dtype, _lanes(problem, device)[0]), 1
    )
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
    """The widths of vectors: as wide as possible, and half of that if it may waste less."""
    geometry = geometry_of(problem)
    item = ITEM_BYTES[problem.dtype]
    widest, least = device.vector_bytes // item, _SMALLEST // item
    some = DepthwisePlan(geometry, VectorType(problem.dtype, widest), 1)
    size = (
        geometry.c if geometry.channels_last else -(-some.patterns[2].size // some.patterns[2].step)
    )
    lanes = max(least, lanes_for(size, widest))
    half = max(least, lanes // 2)
    if half == lanes or (geometry.channels_last and -(-geometry.c // lanes) >= device.units):
        return (lanes,)
    return (lanes, half)


def _strips(problem: Problem, device: Device, chunks: int) -> tuple[str, ...]:
    """The kinds of loops over a plane, each with lanes and positions; equal ones are listed
    once."""
    found: dict[object, str] = {}
    geometry = geometry_of(problem)
    for lanes in _lanes(problem, device):
        plan = DepthwisePlan(geometry, VectorType(problem.dtype, lanes), 1, chunks=chunks)
        for walk in (SLIDING, ROWS) if geometry.wanted != "filter" else (SLIDING,):
            for narrow in _NARROW:
                each = replace(plan, sliding=walk == SLIDING)
                each = fitted(each, registers_of(device), narrow)
                if walk == SLIDING and products(each) > _LONGEST and narrow < _NARROW[-1]:
                    continue
                key = (lanes, walk, each.runs[0].size)
                found.setdefault(key, f"{walk} {lanes}x{each.positions}")
    small = [strip for strip in found.values() if strip.startswith(SLIDING)]
    return tuple(found.values()) if geometry.taps > 9 or not small else tuple(small)


def _chunks(plan: DepthwisePlan, threads: int) -> tuple[int, ...]:
    """The numbers of chunks: one, enough for a chunk to fit a cache, enough for all threads."""
    high, wide = plan.patterns[1:]
    found = {1}
    if plan.last:
        read = high.given * wide.given * plan.pixel
        found.add(max(1, min(high.blocks, -(-read // _CHUNK_BYTES))))
    items = plan.geometry.n * plan.units
    if items < _ITEMS_PER_THREAD * threads:
        found.add(max(1, min(high.blocks, -(-_ITEMS_PER_THREAD * threads // items))))
    return tuple(sorted(found))


def _can_stream(plan: DepthwisePlan, device: Device, moved: int) -> bool:
    """Whether streaming is possible and the arrays fill more than a quarter of the last cache."""
    last = max((size for _, size in device.caches), default=0)
    once = plan.geometry.filter_sizes[0] == 1 and (
        plan.geometry.wanted == "result" or plan.geometry.group_k == 1
    )
    aligned = plan.alignment >= (plan.vector_bytes if plan.last else STREAMED)
    return once and aligned and moved > last // 4


# The solver.

_LARGEST = 7
_STRIDES = 4


def _every_plane_is_read(geometry: Geometry) -> bool:
    """Whether every plane of the output reads at least one plane."""
    if geometry.wanted == "filter":
        return True
    axis = geometry.axes[0]
    deep = read_pattern(axis, backward=geometry.wanted == "image")
    places = (
        [place + deep.stride * (at // deep.step) for _, place in deep.phases[at % deep.step]]
        for at in range(deep.size)
    )
    return all(any(0 <= place < deep.given for place in each) for each in places)


REQUIREMENTS = (
    DEPTHWISE,
    Requirement(
        "as many channels in the result as in the image if channels are last",
        lambda g: not g.channels_last or g.group_k == 1,
    ),
    Requirement("filters of up to 7x7x7", lambda g: max(g.filter_sizes) <= _LARGEST),
    Requirement("strides of up to 4", lambda g: max(axis.stride for axis in g.axes) <= _STRIDES),
    Requirement(
        "a filter that reaches the input for every plane of the output", _every_plane_is_read
    ),
)


class DepthwiseSolver(StagedSolver):
    """Depthwise convolutions; sizes are constants in the code.

    See `SlidingWindow` for the loops.
    """

    name = "depthwise"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts depthwise convolutions with filters of usual sizes."""
        return refusal(problem, device, REQUIREMENTS)

    def promise(self, problem: Problem, device: Device) -> float:
        """The highest: it is made for these problems."""
        return 3.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Width of strips, prefetching, streaming, chunks, and the split among threads."""
        return depthwise_space(problem, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """A single stage."""
        plan = plan_of(problem, device, config)
        sums = plan.geometry.wanted == "filter"
        generate = filter_gradient.generate if sums else planes.generate
        return [IRStage(lambda: generate(plan), _slots(plan))]


def _slots(plan: DepthwisePlan) -> tuple[Slot, ...]:
    """The slots, in the order of `SOURCE`, `OTHER`, `OUT`, `WORKSPACE`, `POOL`, `THREADS`."""
    sums = plan.geometry.wanted == "filter"
    roles: dict[Role, tuple[Role, Role]] = {
        "result": ("image", "filter"),
        "image": ("result", "filter"),
        "filter": ("image", "result"),
    }
    kind = filter_gradient if sums else planes
    given = [plan.geometry.name(role) for role in roles[plan.geometry.wanted]]
    return (
        *given,
        plan.geometry.name(plan.geometry.wanted),
        workspace_slot(kind.workspace_bytes(plan) * plan.threads),
        parallel_slot(plan.threads),
        plan.threads,
    )
