"""Convolution as a blocked matrix product that reads images in place: no padding, no im2col.

Arrays whose channels come first are transposed before and after, a few images at a time, in
scratch memory that stays in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core import Config, Device, ParameterSpace, Problem, Tensor
from skipjack.native import parallel_slot, workspace_slot
from skipjack.operations import OUT, Role
from skipjack.solvers.cpu.conv.direct import ArrayContext, PlacedArray, write_pixels
from skipjack.solvers.cpu.conv.implicit_gemm import filter_gradients, pixels
from skipjack.solvers.cpu.conv.implicit_gemm.estimate import vector_of
from skipjack.solvers.cpu.conv.implicit_gemm.gather import gather_of
from skipjack.solvers.cpu.conv.implicit_gemm.pixel_blocks import NUMBERS, POINTERS
from skipjack.solvers.cpu.conv.implicit_gemm.space import (
    by_runs,
    filter_form,
    filter_run_settings,
    filter_space,
    pixel_form,
    pixel_run_settings,
    pixel_space,
)
from skipjack.solvers.cpu.conv.implicit_gemm.tile import slot_number
from skipjack.solvers.cpu.conv.requirements import NOT_DEPTHWISE, ONE_BY_ONE, geometry_of, refusal
from skipjack.solvers.cpu.copy import SOURCE_SLOT, Copy, CopyLoop
from skipjack.solvers.cpu.ir import IRStage, Part, Rounds, StagedSolver

# The arrays: in place if channels are last, otherwise transposed in scratch memory.

_PIXELS = ("n", "d", "h", "w", "c")


def read_pixels(context: ArrayContext, role: Role) -> PlacedArray:
    tensor, strides, move = context.stored(role)
    if context.geometry.channels_last:
        return PlacedArray(tensor, context.geometry.name(role), move)
    walks = tuple(
        CopyLoop(name, extent, out, strides[name])
        for name, extent, out in zip(_PIXELS, tensor.shape, tensor.strides, strict=True)
    )
    slot = context.scratch(role, tensor.shape)
    copy = context.copy(Copy(walks), context.geometry.name(role), slot, {SOURCE_SLOT: move})
    return PlacedArray(tensor, slot, 0, (copy,))


def write_filter(context: ArrayContext) -> PlacedArray:
    """The filter's gradient with the image's channels last; all rounds add to it."""
    geometry = context.geometry
    tensor = Tensor(OUT, (geometry.k, geometry.taps, geometry.group_c))
    if geometry.channels_last or geometry.pointwise:
        return PlacedArray(tensor, OUT)
    return _transposed_filter(context, tensor, "ktc")


def write_filter_runs(context: ArrayContext) -> PlacedArray:
    """The filter's gradient with the result's channels last; all rounds add to it."""
    geometry = context.geometry
    shape = (geometry.groups, geometry.taps, geometry.group_c, geometry.group_k)
    return _transposed_filter(context, Tensor(OUT, shape), "gtck")


def _transposed_filter(context: ArrayContext, tensor: Tensor, letters: str) -> PlacedArray:
    """Scratch memory from which the filter is copied into its own order."""
    geometry = context.geometry
    c, tap = (1, geometry.group_c) if geometry.channels_last else (geometry.taps, 1)
    k = geometry.taps * geometry.group_c
    places = {"g": geometry.group_k * k, "k": k, "t": tap, "c": c}
    walks = tuple(
        CopyLoop(letter, extent, places[letter], source)
        for letter, extent, source in zip(letters, tensor.shape, tensor.strides, strict=True)
    )
    slot = context.scratch(OUT, tensor.shape)
    return PlacedArray(tensor, slot, 0, (context.copy(Copy(walks), slot, OUT, {}),))


# The solver.


class ImplicitGemmSolver(StagedSolver):
    """A product of pixels x channels, or of channels x channels for the filter's gradient."""

    name = "implicit_gemm"
    algorithm = "ImplicitGEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts convolutions on CPUs whose groups have several channels."""
        return refusal(problem, device, (NOT_DEPTHWISE,))

    def promise(self, problem: Problem, device: Device) -> float:
        """High if channels fill vectors; 1x1 filters have a solver of their own.

        Even with few channels, one side fills them unless groups are small.
        """
        geometry = geometry_of(problem)
        if ONE_BY_ONE.holds(geometry):
            return 1.0
        lanes = vector_of(problem.dtype, device).lanes
        return 2.0 if 2 * max(geometry.group_c, geometry.group_k) >= lanes else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, cache blocks, and what threads share out."""
        geometry = geometry_of(problem)
        if geometry.wanted == "filter":
            return filter_space(geometry, problem.dtype, device)
        return pixel_space(geometry, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """One kernel; arrays with channels first are transposed before and after it."""
        geometry = geometry_of(problem)
        images = int(config["images"])
        rounds = geometry.n // images
        alone = rounds > 1 and geometry.wanted != "filter" and rounds % device.units == 0
        single = replace(device, units=1) if alone else device
        context = ArrayContext(geometry, images, problem.dtype, single, single.units)
        stages = _filter_stages if geometry.wanted == "filter" else _pixel_stages
        before, after = stages(context, config)
        if rounds == 1:
            return [*before, *after]
        threads = device.units if alone else 1
        if geometry.wanted == "filter":
            return [Rounds(rounds, tuple(before), threads), *after]
        return [Rounds(rounds, (*before, *after), threads)]


def _pixel_stages(context: ArrayContext, config: Config) -> tuple[list[IRStage], list[IRStage]]:
    """The stages that compute pixels, and those that store them."""
    geometry, threads = context.geometry, context.threads
    gather = replace(gather_of(geometry), n=context.images)
    form = pixel_form(gather, config, vector_of(context.dtype, context.device))
    settings = pixel_run_settings(gather, form, config)
    source = read_pixels(context, "image" if geometry.wanted == "result" else "result")
    out = write_pixels(context)
    room_bytes = pixels.thread_bytes(gather, form, settings.panels, settings.depth)
    stage = IRStage(
        lambda: pixels.generate(gather, form),
        (
            *(parallel_slot(threads), threads),
            *(source.slot, geometry.name("filter"), out.slot, workspace_slot(room_bytes * threads)),
            *(int(settings.by_panels), settings.lines, settings.panels, settings.depth, room_bytes),
        ),
        {
            slot_number("source", pixels.POINTERS): source.move,
            slot_number("out", pixels.POINTERS): out.move,
        },
    )
    return [*source.copies, _moving(stage)], list(out.copies)


def _filter_stages(context: ArrayContext, config: Config) -> tuple[list[IRStage], list[IRStage]]:
    """The stages that add a round's pixels to the filter's gradient, and those that store it."""
    geometry, threads = context.geometry, context.threads
    form = filter_form(config, vector_of(context.dtype, context.device))
    settings = filter_run_settings(config)
    image, result = read_pixels(context, "image"), read_pixels(context, "result")
    part = replace(geometry, n=context.images)
    if by_runs(geometry, form.vector.lanes):
        generate, out = filter_gradients.filter_by_runs, write_filter_runs(context)
    else:
        generate, out = filter_gradients.filter_by_taps, write_filter(context)
    depth, lines = geometry.result_sizes[:2]
    stage = IRStage(
        lambda: generate(part, form),
        (
            *(parallel_slot(threads), threads),
            *(image.slot, result.slot, out.slot),
            *(int(settings.rows_inside), max(1, settings.lines // (depth * lines))),
            *(max(1, min(depth, settings.lines // lines)), min(lines, settings.lines), 0),
        ),
        {
            slot_number("image", POINTERS, NUMBERS): image.move,
            slot_number("result", POINTERS, NUMBERS): result.move,
            slot_number("begun", POINTERS, NUMBERS): 1,
        },
    )
    return [*image.copies, *result.copies, _moving(stage)], list(out.copies)


def _moving(stage: IRStage) -> IRStage:
    """The stage without moves by 0."""
    return replace(stage, moves={at: move for at, move in stage.moves.items() if move})
