"""The direct convolution: loop nests over images and filters, near the core's peak for most sizes.

Images are padded and filters are put into panels by copies before; pixels and channels of the
output are the register tile, and all taps and channels are summed in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.nest import Nest
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.direct_arrays import (
    Place,
    Room,
    read_filter,
    read_image,
    read_result,
    write_filter,
    write_pixels,
    writes_filter_in_place,
    zeros,
)
from skipjack.solvers.convolution.direct_nests import (
    filter_nest,
    image_nests,
    merges_taps,
    result_nest,
)
from skipjack.solvers.convolution.direct_schedules import (
    BLOCKS,
    PANEL,
    Tile,
    estimate,
    panels_of,
    schedule_of,
    tiles_of,
)
from skipjack.solvers.convolution.rules import geometry_of, refusal
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace
from skipjack.solvers.loops.nest_stage import nest_stage
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Rounds, Stage

_ROUNDS = (1, 4)
"""Images that are copied and computed at a time, besides all of them."""
_MOST_KERNELS = 64


class DirectSolver(StagedSolver):
    """One nest, or several for the gradient of an image under a stride."""

    name = "direct"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Any convolution on CPUs."""
        return refusal(problem, device, ())

    def promise(self, problem: Problem, device: Device) -> float:
        """Good everywhere."""
        return 1.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, the order of loops around them, and how many images go together."""
        geometry = geometry_of(problem)
        tiles = tiles_of(geometry, problem.dtype, device)
        images = sorted({n for n in _ROUNDS if geometry.n % n == 0} | {geometry.n})
        if not _copies(geometry):
            images = [geometry.n]
        return ParameterSpace(
            [
                Parameter("tile", tuple(tile.text for tile in tiles)),
                Parameter("block", _blocks(geometry)),
                Parameter("images", tuple(images)),
            ],
            [f"block != '{PANEL}' or images == {geometry.n}"],
            order=lambda config: estimate(geometry, problem.dtype, device, config),
            default_by_order=True,
        )

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """Copies, nests, copies; in rounds of some images, or of panels of the filter."""
        geometry = geometry_of(problem)
        tile, block = Tile.parse(str(config["tile"])), str(config["block"])
        images = int(config["images"])
        if block == PANEL:
            rounds, alone = _panel_rounds(geometry, tile, problem.dtype, device), True
        else:
            rounds = geometry.n // images
            alone = _by_thread(geometry, rounds, device)
        shared = Room(geometry, images, problem.dtype, device, device.units)
        single = replace(device, units=1)
        own = Room(geometry, images, problem.dtype, single, 1) if alone else shared
        before, inside, after = _stages(shared, own, tile, block)
        if rounds == 1:
            _, inside, _ = _stages(shared, shared, tile, block)
            return [*before, *inside, *after]
        return [*before, Rounds(rounds, tuple(inside), device.units if alone else 1), *after]


def _panel_rounds(geometry: Geometry, tile: Tile, dtype: str, device: Device) -> int:
    """How many panels of the filter are read or written one after the other."""
    if geometry.wanted == "filter":
        return geometry.k // _kernels(geometry)
    return panels_of(geometry, tile, dtype, device).count


def _kernels(geometry: Geometry) -> int:
    """Channels of the result whose filters are made and turned round at a time."""
    return max(size for size in range(1, _MOST_KERNELS + 1) if geometry.k % size == 0)


def _blocks(geometry: Geometry) -> tuple[str, ...]:
    by_panel = geometry.groups == 1
    if geometry.wanted == "filter":
        by_panel &= not (writes_filter_in_place(geometry) or merges_taps(geometry))
    return tuple(block for block in BLOCKS if block != PANEL or by_panel)


def _copies(geometry: Geometry) -> bool:
    """Whether images or results are copied at all."""
    padded = any(axis.pad or axis.pad_after > 0 for axis in geometry.axes)
    return padded or not geometry.channels_last or geometry.wanted == "image"


def _by_thread(geometry: Geometry, rounds: int, device: Device) -> bool:
    """Whether threads do whole rounds: where these are many enough, and write apart."""
    threads = device.units
    if threads == 1 or geometry.wanted == "filter":
        return False
    return rounds % threads == 0 or rounds >= 8 * threads


Stages = tuple[list[Stage], list[Stage], list[Stage]]
"""What precedes all rounds, what is in each of them, and what follows all."""


def _stages(shared: Room, own: Room, tile: Tile, block: str) -> Stages:
    """Of what lies outside of rounds threads have a share each, inside perhaps all of a round."""
    if shared.geometry.wanted == "filter":
        return _filter_stages(shared, own, tile, block)
    return _pixel_stages(shared, own, tile, block)


def _pixel_stages(shared: Room, own: Room, tile: Tile, block: str) -> Stages:
    geometry, by_panel = shared.geometry, block == PANEL
    panels = panels_of(geometry, tile, shared.dtype, shared.device)
    around = shared if by_panel else own
    out = write_pixels(around)
    filters = read_filter(own if by_panel else shared, panels, by_panel=by_panel)
    if by_panel:
        panels = replace(panels, count=1)
    if geometry.wanted == "result":
        source, seen = read_image(around)
        nests = [result_nest(seen, panels, source.tensor, filters.tensor, out.tensor)]
    else:
        source = read_result(around)
        nests = list(image_nests(geometry, panels, source.tensor, filters.tensor, out.tensor))
    cleared = zeros(around, out) if geometry.wanted == "image" else []
    if by_panel:
        # Rounds go from panel to panel of all images, not from image to image.
        source = replace(source, move=0)
        width = panels.width * ITEM_BYTES[own.dtype]
        moved = {"in": source, "filter": filters, "out": replace(out, move=width)}
        inside = [_nest(own, nest, tile, block, moved) for nest in nests]
        return [*source.copies, *cleared], [*filters.copies, *inside], [*out.copies]
    places = {"in": source, "filter": filters, "out": out}
    inside = [_nest(own, nest, tile, block, places) for nest in nests]
    return [*filters.copies], [*source.copies, *cleared, *inside, *out.copies], []


def _filter_stages(shared: Room, own: Room, tile: Tile, block: str) -> Stages:
    geometry, by_panel = shared.geometry, block == PANEL
    kernels = _kernels(geometry) if by_panel else None
    image, seen = read_image(shared)
    result, out = read_result(shared), write_filter(own, kernels)
    panels = panels_of(geometry, tile, shared.dtype, shared.device)
    nest = filter_nest(seen, panels, image.tensor, result.tensor, out.tensor)
    copies = [*image.copies, *result.copies]
    if by_panel:
        move = kernels * ITEM_BYTES[own.dtype] if kernels else 0
        places = {
            "in": replace(image, move=0),
            "filter": replace(result, move=move),
            "out": out,
        }
        return copies, [_nest(own, nest, tile, block, places), *out.copies], []
    again = shared.images < geometry.n
    places = {"in": image, "filter": result, "out": out}
    main = _nest(own, nest, tile, block, places, accumulate=again)
    if again:
        return zeros(shared, out), [*copies, main], [*out.copies]
    return [], [*copies, main, *out.copies], []


def _nest(
    room: Room,
    nest: Nest,
    tile: Tile,
    block: str,
    places: dict[str, Place],
    *,
    accumulate: bool = False,
) -> Stage:
    schedule = schedule_of(nest, tile, block, room.dtype, room.device, sums=not accumulate)
    by_name = {place.tensor.name: place for place in places.values()}
    slots = {name: place.slot for name, place in by_name.items()}
    stage = nest_stage(nest, schedule, room.dtype, room.device, slots, accumulate=accumulate)
    accesses = (*nest.inputs, nest.output)
    moves = {at: by_name[each.tensor.name].move for at, each in enumerate(accesses)}
    return replace(stage, moves={at: move for at, move in moves.items() if move})


class DirectNestSolver(StagedSolver):
    """One nest under any schedule, between the copies of the most promising tile.

    It is used where it is named: learners of schedules play in its space.
    """

    name = "direct_nest"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Convolutions on CPUs, but for gradients of images."""
        reason = refusal(problem, device, ())
        if not reason and geometry_of(problem).wanted == "image":
            return "the gradient of an image is several loop nests"
        return reason

    def space(self, problem: Problem, device: Device) -> ScheduleSpace:
        """All schedules of the nest between the copies."""
        nest, _, _ = _nest_and_places(problem, device)
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        return ScheduleSpace(nest, lanes, registers_of(device), threads=device.units)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """Copies, the nest, copies."""
        nest, read, out = _nest_and_places(problem, device)
        schedule = Schedule.parse(str(config["schedule"]))
        slots = {place.tensor.name: place.slot for place in (*read, out)}
        stage = nest_stage(nest, schedule, problem.dtype, device, slots)
        return [*(copy for place in read for copy in place.copies), stage, *out.copies]


def _nest_and_places(problem: Problem, device: Device) -> tuple[Nest, tuple[Place, Place], Place]:
    """The nest, the arrays that it reads, and the one that it writes."""
    geometry = geometry_of(problem)
    tile = Tile.parse(str(DirectSolver().space(problem, device).default()["tile"]))
    panels = panels_of(geometry, tile, problem.dtype, device)
    room = Room(geometry, geometry.n, problem.dtype, device, device.units)
    image, seen = read_image(room)
    if geometry.wanted == "filter":
        result, out = read_result(room), write_filter(room, None)
        nest = filter_nest(seen, panels, image.tensor, result.tensor, out.tensor)
        return nest, (image, result), out
    filters, out = read_filter(room, panels, by_panel=False), write_pixels(room)
    nest = result_nest(seen, panels, image.tensor, filters.tensor, out.tensor)
    return nest, (filters, image), out
