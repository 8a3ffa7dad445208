"""Matrix products of any size: packed operands, cache blocks, threads; sizes are arguments."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.operations import bytes_moved
from skipjack.solvers.loops.compiling import LlvmSolver
from skipjack.solvers.loops.packed import generate
from skipjack.solvers.loops.packed_product import product_of, refusal_of
from skipjack.solvers.loops.packed_space import PackedSpace, product_space
from skipjack.solvers.loops.packed_stage import product_recipe, product_stage
from skipjack.solvers.solver import Slot, Source

_LARGE = 2.0
"""Times the second cache: from there on a nest may be a little faster, or a good deal slower where
pages are huge and rows of its operands map to the same sets of that cache."""
_WORTH_PACKING = 33
"""With fewer rows or columns packing takes as long as the product."""


class PackedSolver(LlvmSolver):
    """The tile and the epilogue are built; blocks and the threads' shares are set at run time."""

    name = "packed"
    version = 2

    def refuses(self, problem: Problem, device: Device) -> str:
        """Matrix products on CPUs."""
        return refusal_of(problem, device)

    def promise(self, problem: Problem, device: Device) -> float:
        """Likely better than a plain nest where that misses caches or cannot read in vectors."""
        product = product_of(problem)
        m, n = product.m, product.n
        if min(m, n) == 1:
            return 0.0
        large = bytes_moved(problem) / (device.cache_bytes("L2") or 1 << 20)
        is_turned = product.a.column != 1 or product.b.column != 1
        if is_turned or (large > _LARGE and min(m, n) >= _WORTH_PACKING):
            return 2.0
        return 0.5 if large > 0.25 else 0.0

    def space(self, problem: Problem, device: Device) -> PackedSpace:
        """Tiles that fit the registers, blocks that fit the caches, best by arithmetic first."""
        return product_space(product_of(problem), problem.dtype, device)

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text; the shape does not enter."""
        recipe = product_recipe(product_of(problem), problem.dtype, device, config)
        return self.source(generate(recipe), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, sizes, strides, blocks."""
        return product_stage(product_of(problem), problem.dtype, device, config).slots
