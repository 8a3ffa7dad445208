"""Pointwise convolutions as packed matrix products, without a copy of the image if possible."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skipjack.core import Config, Device, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, scratch_slot
from skipjack.operations import Geometry
from skipjack.solvers.cpu.conv.explicit_gemm.products import (
    Pointwise,
    Rows,
    arrays_in_place,
    dense_array,
    images_at_a_time,
    rounds_of_images,
    rows_of,
    spread,
    subsampled,
    zeros,
)
from skipjack.solvers.cpu.conv.requirements import ONE_BY_ONE, geometry_of, refusal
from skipjack.solvers.cpu.copy import Copy, copy_stage
from skipjack.solvers.cpu.gemm import choice_space, product_stage
from skipjack.solvers.cpu.ir import IRStage, Part, StagedSolver
from skipjack.solvers.solver import Slot

_SCRATCH_BYTES = 1 << 22
"""As many images are copied at a time as fit into this size, at least one."""
_NARROW = 16
"""Groups with fewer channels leave most of a tile empty."""
_FEW = 8
"""With fewer pixels, reading the filter dominates."""


class Gemm1x1Solver(StagedSolver):
    """A product of pixels x channels with channels x channels."""

    name = "gemm1x1"
    algorithm = "GEMM"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts pointwise convolutions."""
        return refusal(problem, device, (ONE_BY_ONE,))

    def promise(self, problem: Problem, device: Device) -> float:
        """High, as no work is wasted, unless groups are narrow or there are few pixels."""
        geometry = geometry_of(problem)
        if min(geometry.group_c, geometry.group_k) < _NARROW:
            return 0.25
        return 2.0 if geometry.n * geometry.result_pixels >= _FEW else 0.5

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The parameters of a product, and the choice of its rows."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        products = {rows: plan.pointwise(rows)[0].product(rows) for rows in rows_of(plan.geometry)}
        return choice_space("rows", products, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The product, with copies if pixels are skipped and cannot be read in place."""
        plan = _Plan(geometry_of(problem), problem.dtype, device)
        return plan.parts(config, str(config.get("rows", rows_of(plan.geometry)[0])))


class _Plan:
    def __init__(self, geometry: Geometry, dtype: str, device: Device) -> None:
        self.geometry, self.dtype, self.device = geometry, dtype, device
        self.item = ITEM_BYTES[dtype]
        self.strided = any(axis.stride > 1 and axis.image > 1 for axis in geometry.axes)

    def pointwise(self, rows: Rows) -> tuple[Pointwise, int]:
        """The convolution of the images of one round, and their number."""
        g, images = self.geometry, self.geometry.n
        arrays = arrays_in_place(g, g.n) if self.strided and rows == "pixels" else None
        if not arrays:
            images = self._images(rows)
            slot = self._scratch(images) if self.strided else g.name("image")
            arrays = (
                dense_array(g, "image", slot, images),
                dense_array(g, "result", g.name("result"), images),
            )
        found = Pointwise(g.wanted, g.groups, g.group_c, g.group_k, *arrays, g.name("filter"))
        return found, images

    def _images(self, rows: Rows) -> int:
        """The number of images per round."""
        g = self.geometry
        if rows == "channels" and g.groups > 1:
            return 1
        if not self.strided:
            return g.n
        return images_at_a_time(g, self._image_bytes(), _SCRATCH_BYTES)

    def _image_bytes(self) -> int:
        """Bytes of the pixels of one image that are used."""
        return self.geometry.c * self.geometry.result_pixels * self.item

    def _scratch(self, images: int) -> Slot:
        return scratch_slot("pixels", images * self._image_bytes())

    def parts(self, config: Config, rows: Rows) -> list[Part]:
        """The stages, in rounds of images unless all images are done at once."""
        g = self.geometry
        pointwise, images = self.pointwise(rows)
        stages = [product_stage(pointwise.product(rows), self.dtype, self.device, config)]
        before: list[Part] = []
        if self.strided and g.wanted == "image":
            before = [self._copy(zeros(prod(g.shape("image"))), g.name("filter"), g.name("image"))]
        if pointwise.image.slot != g.name("image"):
            stages = self._with_copy(stages, images)
        return [*before, *rounds_of_images(g, stages, images, self.item)]

    def _with_copy(self, stages: list[IRStage], images: int) -> list[IRStage]:
        g, scratch = self.geometry, self._scratch(images)
        if g.wanted == "image":
            return [*stages, self._copy(spread(g, images), scratch, g.name("image"))]
        return [self._copy(subsampled(g, images), g.name("image"), scratch), *stages]

    def _copy(self, copy: Copy, source: Slot, out: Slot) -> IRStage:
        return copy_stage(copy, source, out, self.dtype, self.device)
