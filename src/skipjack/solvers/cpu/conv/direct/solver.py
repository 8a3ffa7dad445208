"""The solver of direct convolutions: loop nests over images and filters, fast for most sizes.

Copies pad the images and put the filters into panels first; pixels and channels of the output form
the register tile, and all taps and channels are summed in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core import Config, Device, Nest, Parameter, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, registers_of
from skipjack.operations import Geometry
from skipjack.solvers.cpu.conv.direct.arrays import (
    ArrayContext,
    PlacedArray,
    read_filter,
    read_image,
    read_result,
    write_filter,
    write_pixels,
    writes_filter_in_place,
    zeros,
)
from skipjack.solvers.cpu.conv.direct.nests import (
    filter_nest,
    image_nests,
    merges_taps,
    result_nest,
)
from skipjack.solvers.cpu.conv.direct.schedules import (
    BLOCKS,
    PANEL,
    DirectTile,
    estimate,
    panels_of,
    schedule_of,
    tiles_of,
)
from skipjack.solvers.cpu.conv.requirements import geometry_of, refusal
from skipjack.solvers.cpu.ir import IRStage, Part, Rounds, StagedSolver
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace
from skipjack.solvers.cpu.nest_code import nest_stage

_ROUNDS = (1, 4)
"""Images that are copied and computed at a time, in addition to all of them."""
_MOST_KERNELS = 64


class DirectSolver(StagedSolver):
    """One nest, or several for the gradient of an image if the convolution has a stride."""

    name = "direct"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts any convolution on CPUs."""
        return refusal(problem, device, ())

    def promise(self, problem: Problem, device: Device) -> float:
        """The same for all problems."""
        return 1.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, the order of loops around them, and the number of images per round."""
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
        """Copies, nests and copies, in rounds of some images or of panels of the filter."""
        geometry = geometry_of(problem)
        tile, block = DirectTile.parse(str(config["tile"])), str(config["block"])
        images = int(config["images"])
        if block == PANEL:
            rounds, alone = _panel_rounds(geometry, tile, problem.dtype, device), True
        else:
            rounds = geometry.n // images
            alone = _by_thread(geometry, rounds, device)
        shared = ArrayContext(geometry, images, problem.dtype, device, device.units)
        single = replace(device, units=1)
        own = ArrayContext(geometry, images, problem.dtype, single, 1) if alone else shared
        before, inside, after = _stages(shared, own, tile, block)
        if rounds == 1:
            _, inside, _ = _stages(shared, shared, tile, block)
            return [*before, *inside, *after]
        return [*before, Rounds(rounds, tuple(inside), device.units if alone else 1), *after]


def _panel_rounds(geometry: Geometry, tile: DirectTile, dtype: str, device: Device) -> int:
    """The number of panels of the filter that are read or written one after the other."""
    if geometry.wanted == "filter":
        return geometry.k // _kernels(geometry)
    return panels_of(geometry, tile, dtype, device).count


def _kernels(geometry: Geometry) -> int:
    """Channels of the result whose filters are computed and transposed at a time."""
    return max(size for size in range(1, _MOST_KERNELS + 1) if geometry.k % size == 0)


def _blocks(geometry: Geometry) -> tuple[str, ...]:
    by_panel = geometry.groups == 1
    if geometry.wanted == "filter":
        by_panel &= not (writes_filter_in_place(geometry) or merges_taps(geometry))
    return tuple(block for block in BLOCKS if block != PANEL or by_panel)


def _copies(geometry: Geometry) -> bool:
    padded = any(axis.pad or axis.pad_after > 0 for axis in geometry.axes)
    return padded or not geometry.channels_last or geometry.wanted == "image"


def _by_thread(geometry: Geometry, rounds: int, device: Device) -> bool:
    """Whether threads run whole rounds: if there are enough, and they write different memory."""
    threads = device.units
    if threads == 1 or geometry.wanted == "filter":
        return False
    return rounds % threads == 0 or rounds >= 8 * threads


Stages = tuple[list[IRStage], list[IRStage], list[IRStage]]
"""Stages before all rounds, in each round, and after all rounds."""


def _stages(shared: ArrayContext, own: ArrayContext, tile: DirectTile, block: str) -> Stages:
    """Threads share the stages outside the rounds; in a round, one thread may run all stages."""
    if shared.geometry.wanted == "filter":
        return _filter_stages(shared, own, tile, block)
    return _pixel_stages(shared, own, tile, block)


def _pixel_stages(shared: ArrayContext, own: ArrayContext, tile: DirectTile, block: str) -> Stages:
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
        # Each round computes one panel of all images, not all panels of one image.
        source = replace(source, move=0)
        width = panels.width * ITEM_BYTES[own.dtype]
        moved = {"in": source, "filter": filters, "out": replace(out, move=width)}
        inside = [_nest(own, nest, tile, block, moved) for nest in nests]
        return [*source.copies, *cleared], [*filters.copies, *inside], [*out.copies]
    places = {"in": source, "filter": filters, "out": out}
    inside = [_nest(own, nest, tile, block, places) for nest in nests]
    return [*filters.copies], [*source.copies, *cleared, *inside, *out.copies], []


def _filter_stages(shared: ArrayContext, own: ArrayContext, tile: DirectTile, block: str) -> Stages:
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
    context: ArrayContext,
    nest: Nest,
    tile: DirectTile,
    block: str,
    places: dict[str, PlacedArray],
    *,
    accumulate: bool = False,
) -> IRStage:
    schedule = schedule_of(nest, tile, block, context.dtype, context.device, sums=not accumulate)
    by_name = {place.tensor.name: place for place in places.values()}
    slots = {name: place.slot for name, place in by_name.items()}
    stage = nest_stage(nest, schedule, context.dtype, context.device, slots, accumulate=accumulate)
    accesses = (*nest.inputs, nest.output)
    moves = {at: by_name[each.tensor.name].move for at, each in enumerate(accesses)}
    return replace(stage, moves={at: move for at, move in moves.items() if move})


class DirectNestSolver(StagedSolver):
    """One nest under any schedule, between the copies of the most promising tile.

    It is only used if it is named: learned searches explore its space of schedules.
    """

    name = "direct_nest"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts convolutions on CPUs, except gradients of images."""
        reason = refusal(problem, device, ())
        if not reason and geometry_of(problem).wanted == "image":
            return "the gradient of an image takes several loop nests"
        return reason

    def space(self, problem: Problem, device: Device) -> ScheduleSpace:
        nest, _, _ = _nest_and_places(problem, device)
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        return ScheduleSpace(nest, lanes, registers_of(device), threads=device.units)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        nest, read, out = _nest_and_places(problem, device)
        schedule = Schedule.parse(str(config["schedule"]))
        slots = {place.tensor.name: place.slot for place in (*read, out)}
        stage = nest_stage(nest, schedule, problem.dtype, device, slots)
        return [*(copy for place in read for copy in place.copies), stage, *out.copies]


def _nest_and_places(
    problem: Problem, device: Device
) -> tuple[Nest, tuple[PlacedArray, PlacedArray], PlacedArray]:
    """The nest, the two arrays that it reads, and the one that it writes."""
    geometry = geometry_of(problem)
    tile = DirectTile.parse(str(DirectSolver().space(problem, device).default()["tile"]))
    panels = panels_of(geometry, tile, problem.dtype, device)
    context = ArrayContext(geometry, geometry.n, problem.dtype, device, device.units)
    image, seen = read_image(context)
    if geometry.wanted == "filter":
        result, out = read_result(context), write_filter(context, None)
        nest = filter_nest(seen, panels, image.tensor, result.tensor, out.tensor)
        return nest, (image, result), out
    filters, out = read_filter(context, panels, by_panel=False), write_pixels(context)
    nest = result_nest(seen, panels, image.tensor, filters.tensor, out.tensor)
    return nest, (filters, image), out
