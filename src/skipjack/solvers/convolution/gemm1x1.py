"""Pointwise convolutions as packed matrix products, without a copy of the image if possible."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.image_rounds import images_at_a_time, rounds_of_images
from skipjack.solvers.convolution.pointwise_arrays import (
    dense,
    in_place,
    spread,
    subsampled,
    zeros,
)
from skipjack.solvers.convolution.pointwise_products import Pointwise, Rows, rows_of
from skipjack.solvers.convolution.rules import ONE_BY_ONE, geometry_of, refusal
from skipjack.solvers.loops.copying import Copy, copy_stage
from skipjack.solvers.loops.packed_space import choice_space
from skipjack.solvers.loops.packed_stage import product_stage
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Stage
from skipjack.solvers.solver import Slot

_SCRATCH_BYTES = 1 << 22
"""As many images are copied at a time as fit into this, one at least."""
_NARROW = 16
"""Groups with fewer channels leave most of a tile empty."""
_FEW = 8
"""With fewer pixels the filter is read for little."""


class Gemm1x1Solver(StagedSolver):
    """Pixels by channels, times channels by channels."""

    name = "gemm1x1"
    algorithm = "GEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Pointwise convolutions alone."""
        return refusal(problem, device, (ONE_BY_ONE,))

    def promise(self, problem: Problem, device: Device) -> float:
        """Nothing is computed or moved in vain, unless groups are narrow or pixels are few."""
        geometry = geometry_of(problem)
        if min(geometry.group_c, geometry.group_k) < _NARROW:
            return 0.25
        return 2.0 if geometry.n * geometry.result_pixels >= _FEW else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """What varies about a product, and what its rows are."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        products = {rows: plan.pointwise(rows)[0].product(rows) for rows in rows_of(plan.geometry)}
        return choice_space("rows", products, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The product, between copies where pixels are left out and cannot be in place."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        return plan.parts(config, str(config.get("rows", rows_of(plan.geometry)[0])))


class _Plan:
    """The stages of one convolution."""

    def __init__(self, geometry: Geometry, dtype: str, device: Device) -> None:
        self.geometry, self.dtype, self.device = geometry, dtype, device
        self.item = ITEM_BYTES[dtype]
        self.strided = any(axis.stride > 1 and axis.image > 1 for axis in geometry.axes)

    def pointwise(self, rows: Rows) -> tuple[Pointwise, int]:
        """The convolution of the images of one round, and how many these are."""
        g, images = self.geometry, self.geometry.n
        arrays = in_place(g, g.n) if self.strided and rows == "pixels" else None
        if not arrays:
            images = self._images(rows)
            slot = self._scratch(images) if self.strided else g.name("image")
            arrays = dense(g, "image", slot, images), dense(g, "result", g.name("result"), images)
        found = Pointwise(g.wanted, g.groups, g.group_c, g.group_k, *arrays, g.name("filter"))
        return found, images

    def _images(self, rows: Rows) -> int:
        """How many to do at a time."""
        g = self.geometry
        if rows == "channels" and g.groups > 1:
            return 1
        if not self.strided:
            return g.n
        return images_at_a_time(g, self._image_bytes(), _SCRATCH_BYTES)

    def _image_bytes(self) -> int:
        """Of one image's pixels that matter."""
        return self.geometry.c * self.geometry.result_pixels * self.item

    def _scratch(self, images: int) -> Slot:
        return scratch_slot("pixels", images * self._image_bytes())

    def parts(self, config: Config, rows: Rows) -> list[Part]:
        """Stages, in rounds of images where they are not done all at once."""
        g = self.geometry
        pointwise, images = self.pointwise(rows)
        stages = [product_stage(pointwise.product(rows), self.dtype, self.device, config)]
        before: list[Part] = []
        if self.strided and g.wanted == "image":
            before = [self._copy(zeros(prod(g.shape("image"))), g.name("filter"), g.name("image"))]
        if pointwise.image.slot != g.name("image"):
            stages = self._with_copy(stages, images)
        return [*before, *rounds_of_images(g, stages, images, self.item)]

    def _with_copy(self, stages: list[Stage], images: int) -> list[Stage]:
        g, scratch = self.geometry, self._scratch(images)
        if g.wanted == "image":
            return [*stages, self._copy(spread(g, images), scratch, g.name("image"))]
        return [self._copy(subsampled(g, images), g.name("image"), scratch), *stages]

    def _copy(self, copy: Copy, source: Slot, out: Slot) -> Stage:
        return copy_stage(copy, source, out, self.dtype, self.device)
