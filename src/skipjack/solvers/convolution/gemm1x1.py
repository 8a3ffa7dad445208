"""Pointwise convolutions as packed matrix products, without a copy of the image if possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.pointwise_arrays import (
    dense,
    in_place,
    spread,
    subsampled,
    zeros,
)
from skipjack.solvers.convolution.pointwise_products import Pointwise, Rows
from skipjack.solvers.convolution.rules import ONE_BY_ONE, geometry_of, refusal
from skipjack.solvers.loops.copying import Copy, copy_stage
from skipjack.solvers.loops.packed_product import Product
from skipjack.solvers.loops.packed_slots import ACCUMULATE
from skipjack.solvers.loops.packed_space import choice_space
from skipjack.solvers.loops.packed_stage import product_stage
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Rounds, Stage
from skipjack.solvers.solver import Slot

_SCRATCH_BYTES = 1 << 22
"""As many images are copied at a time as fit into this, one at least."""


class Gemm1x1Solver(StagedSolver):
    """Pixels by channels, times channels by channels."""

    name = "gemm1x1"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Pointwise convolutions alone."""
        return refusal(problem, device, (ONE_BY_ONE,))

    def promise(self, problem: Problem, device: Device) -> float:
        """Nothing is computed or moved in vain, unless groups are narrow."""
        geometry = geometry_of(problem)
        return 2.0 if min(geometry.group_c, geometry.group_k) >= 16 else 0.25

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """What varies about a product, and what its rows are."""
        plan = Plan(geometry_of(problem), problem.dtype, device)
        products: dict[str, Product] = {
            rows: plan.pointwise(rows)[0].product(rows) for rows in plan.rows
        }
        return choice_space("rows", products, problem.dtype, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The product, between copies where pixels are left out."""
        geometry = geometry_of(problem)
        rows: Rows = "pixels" if config.get("rows", "pixels") == "pixels" else "channels"
        return Plan(geometry, problem.dtype, device).parts(config, rows)


class Plan:
    """The stages of one convolution."""

    def __init__(self, geometry: Geometry, dtype: str, device: Device) -> None:
        self.geometry, self.dtype, self.device = geometry, dtype, device
        self.item = ITEM_BYTES[dtype]
        self.strided = any(axis.stride > 1 and axis.image > 1 for axis in geometry.axes)

    @property
    def rows(self) -> tuple[Rows, ...]:
        """What may be rows: pixels are, where the channels of each lie side by side."""
        fixed = self.geometry.channels_last or self.geometry.wanted == "filter"
        return ("pixels",) if fixed else ("channels", "pixels")

    def pointwise(self, rows: Rows) -> tuple[Pointwise, int]:
        """The convolution of the images of one round, and how many these are."""
        g = self.geometry
        image, result = g.name("image"), g.name("result")
        arrays = in_place(g, g.n) if self.strided else None
        if arrays and (rows == "pixels" or arrays[0].pixels.times == 1):
            images = g.n
        else:
            images = self._images(rows)
            slot = self._scratch(images) if self.strided else image
            arrays = dense(g, "image", slot, images), dense(g, "result", result, images)
        found = Pointwise(g.wanted, g.groups, g.group_c, g.group_k, *arrays, g.name("filter"))
        return found, images

    def _images(self, rows: Rows) -> int:
        """How many to do at a time."""
        g = self.geometry
        if rows == "channels" and g.groups > 1 and not g.channels_last and g.wanted != "filter":
            return 1
        if not self.strided:
            return g.n
        fitting = max(1, _SCRATCH_BYTES // self._image_bytes())
        return max(n for n in range(1, g.n + 1) if g.n % n == 0 and n <= fitting)

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
        before: list[Stage] = []
        if self.strided and g.wanted == "image":
            before = [self._copy(zeros(prod(g.shape("image"))), g.name("filter"), "out")]
        if pointwise.image.slot != g.name("image"):
            stages = self._with_copy(stages, images)
        if images == g.n:
            return [*before, *stages]
        roles: tuple[Role, ...] = ("image", "result")
        moves: dict[Slot, int] = {
            g.name(role): images * prod(g.shape(role)[1:]) * self.item for role in roles
        }
        rounds = tuple(_moving(stage, moves, g.wanted == "filter") for stage in stages)
        return [*before, Rounds(g.n // images, rounds)]

    def _with_copy(self, stages: list[Stage], images: int) -> list[Stage]:
        g, scratch = self.geometry, self._scratch(images)
        if g.wanted == "image":
            return [*stages, self._copy(spread(g, images), scratch, g.name("image"))]
        return [self._copy(subsampled(g, images), g.name("image"), scratch), *stages]

    def _copy(self, copy: Copy, source: Slot, out: Slot) -> Stage:
        return copy_stage(copy, source, out, self.dtype, self.device)


def _moving(stage: Stage, moves: Mapping[Slot, int], adds: bool) -> Stage:
    """A stage whose arrays go on from round to round; sums of all rounds are added up."""
    found = {at: moves[slot] for at, slot in enumerate(stage.slots) if slot in moves}
    if adds and len(stage.slots) > ACCUMULATE:
        found[ACCUMULATE] = 1
    return replace(stage, moves=found)
