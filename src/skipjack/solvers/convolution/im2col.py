"""Any convolution as a matrix product of patches, which are copied for some images at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.image_rounds import images_at_a_time, rounds_of_images
from skipjack.solvers.convolution.patches import (
    gradient_filter,
    patches,
    pixels_of,
    pointwise_of,
    source_of,
    spread_out,
    spread_result,
    spread_sizes,
)
from skipjack.solvers.convolution.pointwise_arrays import dense, zeros
from skipjack.solvers.convolution.pointwise_products import Pointwise, Rows, rows_of
from skipjack.solvers.convolution.rules import NOT_DEPTHWISE, Rule, geometry_of, refusal
from skipjack.solvers.loops.copying import Copy, copy_stage
from skipjack.solvers.loops.packed_space import choice_space
from skipjack.solvers.loops.packed_stage import product_stage
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Stage
from skipjack.solvers.solver import Slot

_PATCHES_BYTES = 1 << 21
"""As many images are done at a time as have patches that fit into this, one at least."""
_MOST_PATCHES = 1 << 26
_MODERATE = Rule(
    "patches of an image with less than 64 Mi elements",
    lambda g: (g.k if g.wanted == "image" else g.c) * g.taps * pixels_of(g) < _MOST_PATCHES,
)
_NARROW = 8
"""Groups with fewer channels leave most of a tile empty."""


class Im2colSolver(StagedSolver):
    """Patches by taps and channels, times taps and channels by channels."""

    name = "im2col"
    algorithm = "GEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Convolutions on CPUs whose patches of an image are not too large."""
        return refusal(problem, device, (NOT_DEPTHWISE, _MODERATE))

    def promise(self, problem: Problem, device: Device) -> float:
        """Patches are copied in vain if they are pixels, or mostly zeros between them."""
        geometry = geometry_of(problem)
        narrow = min(geometry.group_k, geometry.group_c * geometry.taps) < _NARROW
        return 0.0 if geometry.pointwise or narrow or spread_out(geometry) else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """What varies about a product, and what its rows are."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        products = {rows: plan.pointwise(rows).product(rows) for rows in rows_of(plan.geometry)}
        return choice_space("rows", products, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """Patches and their product, in rounds of some images."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        return plan.parts(config, str(config.get("rows", rows_of(plan.geometry)[0])))


class _Plan:
    """The stages of one convolution."""

    def __init__(self, geometry: Geometry, dtype: str, device: Device) -> None:
        self.geometry, self.dtype, self.device = geometry, dtype, device
        self.item = ITEM_BYTES[dtype]
        self.like = pointwise_of(geometry)
        self.source = source_of(geometry)

    def images(self, rows: Rows) -> int:
        """How many to do at a time."""
        if rows == "channels" and self.geometry.groups > 1:
            return 1
        return images_at_a_time(self.geometry, self._patches_bytes(1), _PATCHES_BYTES)

    def alone(self, rows: Rows) -> bool:
        """Whether each thread does rounds of its own."""
        threads = self.device.units
        enough = self.geometry.n // self.images(rows) >= threads
        return threads > 1 and enough and self.geometry.wanted != "filter"

    def pointwise(self, rows: Rows) -> Pointwise:
        """The product of the patches of one round."""
        g, like, images = self.geometry, self.like, self.images(rows)
        slots: dict[str, Slot] = dict(g.names)
        slots[self.source] = scratch_slot("patches", self._patches_bytes(images))
        if g.wanted == "image":
            slots["filter"] = scratch_slot("filter", self._filter_bytes())
        return Pointwise(
            g.wanted,
            *(g.groups, like.group_c, like.group_k),
            dense(like, "image", slots["image"], images),
            dense(like, "result", slots["result"], images),
            slots["filter"],
        )

    def parts(self, config: Config, rows: Rows) -> list[Part]:
        """What is done once, then rounds."""
        g, images = self.geometry, self.images(rows)
        threads = self.device.units if self.alone(rows) else 1
        device = replace(self.device, units=1) if threads > 1 else self.device
        pointwise = self.pointwise(rows)
        product = product_stage(pointwise.product(rows), self.dtype, device, config)
        source: Slot = g.name(self.source)
        found = scratch_slot("patches", self._patches_bytes(images))
        inside: list[Stage] = []
        if spread_out(g):
            wide = scratch_slot("spread", self._spread_bytes(images))
            inside.append(self._copy(spread_result(g, images), source, wide, device))
            source = wide
        inside += [self._copy(patches(g, images), source, found, device), product]
        rounds = rounds_of_images(g, inside, images, self.item, threads)
        return [*self._before(images, threads), *rounds]

    def _before(self, images: int, threads: int) -> list[Part]:
        """Once for all rounds; with threads that do rounds by themselves, for each of them."""
        g, parts = self.geometry, list[Part]()
        if g.wanted == "image":
            room = scratch_slot("filter", threads * self._filter_bytes())
            copy = gradient_filter(g, threads)
            parts.append(self._copy(copy, g.name("filter"), room, self.device))
        if spread_out(g):
            room = scratch_slot("spread", threads * self._spread_bytes(images))
            count = threads * self._spread_bytes(images) // self.item
            parts.append(self._copy(zeros(count), g.name("filter"), room, self.device))
        return parts

    def _patches_bytes(self, images: int) -> int:
        like = self.like
        channels = like.k if self.source == "result" else like.c
        return images * channels * like.result_pixels * self.item

    def _spread_bytes(self, images: int) -> int:
        return images * self.geometry.k * prod(spread_sizes(self.geometry)) * self.item

    def _filter_bytes(self) -> int:
        return prod(self.geometry.shape("filter")) * self.item

    def _copy(self, copy: Copy, source: Slot, out: Slot, device: Device) -> Stage:
        return copy_stage(copy, source, out, self.dtype, device)
