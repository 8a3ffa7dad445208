"""Convolution as a blocked matrix product that reads images themselves: no pads, no im2col."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.solvers.convolution import implicit_filter, implicit_filter_runs, implicit_pixels
from skipjack.solvers.convolution.direct_arrays import Room, write_pixels
from skipjack.solvers.convolution.implicit_arrays import (
    read_pixels,
    write_filter,
    write_filter_runs,
)
from skipjack.solvers.convolution.implicit_estimate import vector_of
from skipjack.solvers.convolution.implicit_gather import gather_of
from skipjack.solvers.convolution.implicit_module import slot_number
from skipjack.solvers.convolution.implicit_reduction import NUMBERS, POINTERS
from skipjack.solvers.convolution.implicit_space import (
    by_runs,
    filter_form,
    filter_space,
    filter_walk,
    pixel_form,
    pixel_space,
    pixel_walk,
)
from skipjack.solvers.convolution.rules import NOT_DEPTHWISE, ONE_BY_ONE, geometry_of, refusal
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Rounds, Stage


class ImplicitGemmSolver(StagedSolver):
    """Pixels by channels, or channels by channels for the filter's gradient."""

    name = "implicit_gemm"
    algorithm = "ImplicitGEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Convolutions on CPUs whose groups have several channels."""
        return refusal(problem, device, (NOT_DEPTHWISE,))

    def promise(self, problem: Problem, device: Device) -> float:
        """Near the peak wherever channels fill vectors; plain products have a solver of their own.

        Few channels fill them on one side at least, unless groups are small.
        """
        geometry = geometry_of(problem)
        if ONE_BY_ONE.holds(geometry):
            return 1.0
        lanes = vector_of(problem.dtype, device).lanes
        return 2.0 if 2 * max(geometry.group_c, geometry.group_k) >= lanes else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, blocks for the caches, what threads share out."""
        geometry = geometry_of(problem)
        if geometry.wanted == "filter":
            return filter_space(geometry, problem.dtype, device)
        return pixel_space(geometry, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """One kernel; arrays that are not channels last are turned round before and after it."""
        geometry = geometry_of(problem)
        images = int(config["images"])
        rounds = geometry.n // images
        alone = rounds > 1 and geometry.wanted != "filter" and rounds % device.units == 0
        single = replace(device, units=1) if alone else device
        room = Room(geometry, images, problem.dtype, single, single.units)
        stages = _filter_stages if geometry.wanted == "filter" else _pixel_stages
        before, after = stages(room, config)
        if rounds == 1:
            return [*before, *after]
        threads = device.units if alone else 1
        if geometry.wanted == "filter":
            return [Rounds(rounds, tuple(before), threads), *after]
        return [Rounds(rounds, (*before, *after), threads)]


def _pixel_stages(room: Room, config: Config) -> tuple[list[Stage], list[Stage]]:
    """What computes pixels, and what brings them to their places."""
    geometry, threads = room.geometry, room.threads
    gather = replace(gather_of(geometry), n=room.images)
    form = pixel_form(gather, config, vector_of(room.dtype, room.device))
    walk = pixel_walk(gather, form, config)
    source = read_pixels(room, "image" if geometry.wanted == "result" else "result")
    out = write_pixels(room)
    room_bytes = implicit_pixels.thread_bytes(gather, form, walk.panels, walk.depth)
    stage = Stage(
        lambda: implicit_pixels.generate(gather, form),
        (
            *(parallel_slot(threads), threads),
            *(source.slot, geometry.name("filter"), out.slot, workspace_slot(room_bytes * threads)),
            *(int(walk.by_panels), walk.lines, walk.panels, walk.depth, room_bytes),
        ),
        {
            slot_number("source", implicit_pixels.POINTERS): source.move,
            slot_number("out", implicit_pixels.POINTERS): out.move,
        },
    )
    return [*source.copies, _moving(stage)], list(out.copies)


def _filter_stages(room: Room, config: Config) -> tuple[list[Stage], list[Stage]]:
    """What adds a round's pixels to the filter's gradient, and what puts that into place."""
    geometry, threads = room.geometry, room.threads
    form = filter_form(config, vector_of(room.dtype, room.device))
    walk = filter_walk(config)
    image, result = read_pixels(room, "image"), read_pixels(room, "result")
    part = replace(geometry, n=room.images)
    if by_runs(geometry, form.vector.lanes):
        generate, out = implicit_filter_runs.generate, write_filter_runs(room)
    else:
        generate, out = implicit_filter.generate, write_filter(room)
    depth, lines = geometry.result_sizes[:2]
    stage = Stage(
        lambda: generate(part, form),
        (
            *(parallel_slot(threads), threads),
            *(image.slot, result.slot, out.slot),
            *(int(walk.rows_inside), max(1, walk.lines // (depth * lines))),
            *(max(1, min(depth, walk.lines // lines)), min(lines, walk.lines), 0),
        ),
        {
            slot_number("image", POINTERS, NUMBERS): image.move,
            slot_number("result", POINTERS, NUMBERS): result.move,
            slot_number("begun", POINTERS, NUMBERS): 1,
        },
    )
    return [*image.copies, *result.copies, _moving(stage)], list(out.copies)


def _moving(stage: Stage) -> Stage:
    """Without moves by nothing."""
    return replace(stage, moves={at: move for at, move in stage.moves.items() if move})
