"""Convolutions with 3x3 filters by Winograd's minimal filtering: F(2x2, 3x3) and F(4x4, 3x3).

The products of F(m x m, 3 x 3) are fewer than the plain sums' by ``9 m^2 / (m + 2)^2``: 2.25 and 4.
What they round off is more, and lies about a tile as a whole: see `WinogradSolver.slack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.constraints import ConstraintLike
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.operations.conv_geometry import Axis, Geometry
from skipjack.solvers.convolution.rules import (
    ONE_GROUP,
    STRIDE_ONE,
    THREE_BY_THREE,
    UNDILATED,
    Rule,
    geometry_of,
    refusal,
)
from skipjack.solvers.convolution.winograd_estimate import estimate
from skipjack.solvers.convolution.winograd_lines import F2, F4, Winograd
from skipjack.solvers.convolution.winograd_parts import winograd_parts
from skipjack.solvers.convolution.winograd_plan import Plan
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.packed_product import parse_tile
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part

_TILES = ("8x2", "6x4", "12x2", "14x2", "8x3", "12x1", "6x2", "4x3", "8x1")
"""Rows and vectors of columns; those beyond the registers are left out."""
_OVER = ("tiles", "columns")
_BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""In panels of columns, or in so many tiles:"""
_TILES_OF_BLOCK = 8
_MOST_BYTES = 256 << 20
"""Of memory between stages; more where the smallest block takes more."""
_SLACK = {2: 0.0, 4: 480.0}
"""Tolerances that a result of a single product may be off."""
_DIRECT = 0.8
"""The share of a core's peak that the plain sums reach."""
_WORTH, _CLOSE = 0.9, 0.8
"""What it must gain over them, and of what the other Winograd solver gains, to be worth a trial."""
_FEWEST = 16
"""Products in a sum."""


def fewest_products(geometry: Geometry) -> int:
    """Of all sums of a convolution the number of products in the shortest."""
    sums = [min(_inside(geometry, axis)) for axis in geometry.axes]
    channels = {"result": geometry.group_c, "image": geometry.group_k, "filter": geometry.n}
    return channels[geometry.wanted] * sums[0] * sums[1] * sums[2]


def _inside(geometry: Geometry, axis: Axis) -> list[int]:
    """Along one axis, at both ends of what is wanted: pairs of elements that meet there.

    They are fewest at an end. Strides and dilations are 1.
    """
    wanted = geometry.wanted
    if wanted == "result":
        ends = [at - axis.pad for at in (0, axis.result - 1)]
        return [min(axis.image, at + axis.filter) - max(0, at) for at in ends]
    if wanted == "image":
        ends = [at + axis.pad for at in (0, axis.image - 1)]
        return [min(axis.result, at + 1) - max(0, at - axis.filter + 1) for at in ends]
    ends = [axis.pad - at for at in (0, axis.filter - 1)]
    return [min(axis.result, axis.image + at) - max(0, at) for at in ends]


FLAT = Rule("images without depth", lambda g: g.axes[0].image == 1)
SMALL_PADS = Rule("pads of at most 2", lambda g: all(axis.pad <= 2 for axis in g.axes))
LONG_SUMS = Rule(
    f"sums of {_FEWEST} products or more, as it rounds more than short ones can bear",
    lambda g: fewest_products(g) >= _FEWEST,
)
RULES = (THREE_BY_THREE, FLAT, STRIDE_ONE, UNDILATED, ONE_GROUP, SMALL_PADS, LONG_SUMS)


class WinogradSolver(StagedSolver):
    """One of the two; blocks are set at run time, and so are all sizes."""

    version = 1
    algorithm = "Winograd"

    def __init__(self, winograd: Winograd) -> None:
        self.winograd = winograd
        self.name = f"winograd{winograd.size}"

    def refuses(self, problem: Problem, device: Device) -> str:
        """3x3 filters without strides and groups, on CPUs."""
        return refusal(problem, device, RULES)

    def slack(self, problem: Problem) -> float:
        """How many times the tolerance of a plain sum its results may be off.

        A tolerance is in proportion to the magnitudes that an element sums up, but all elements of
        a tile share what F4 rounds off, some of it after factors of up to 100 that cancel out; so
        elements with short sums, at edges for one, are off by more. The worst errors of 56 random
        cases in both precisions were 5 times the tolerance where the shortest sums have 16
        products, 1.2 times with 64 and 0.4 with 256: what is granted is about six times as much.
        F2 was never off by more than 0.2.
        """
        return 1.0 + _SLACK[self.winograd.size] / fewest_products(geometry_of(problem))

    def promise(self, problem: Problem, device: Device) -> float:
        """How much faster than the plain sums, by arithmetic; nothing if it is slower."""
        geometry = geometry_of(problem)
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        plain = geometry.multiplications / lanes / device.units / _DIRECT
        gains = {
            each.winograd.size: plain / each.quickest(problem, device) for each in WINOGRAD_SOLVERS
        }
        gain = gains[self.winograd.size]
        if gain < max(_WORTH, _CLOSE * max(gains.values())):
            return 0.0
        return gain

    def quickest(self, problem: Problem, device: Device) -> float:
        """Cycles of the first config."""
        config = self.space(problem, device).default()
        return estimate(self.plan(problem, device, config), device)

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, what rounds are over, how large they are, what threads share out."""
        registers, several = registers_of(device), device.units > 1
        tiles = tuple(tile for tile in _TILES if _fits(tile, registers))
        parameters = [
            Parameter("tile", tiles),
            Parameter("over", _OVER),
            Parameter("block", _BLOCKS),
            Parameter("share", ("rounds", "stages") if several else ("rounds",)),
        ]
        sizes = _Sizes(geometry_of(problem), self.winograd, problem.dtype, device)

        def other_rounds(tile: str, over: str, block: int) -> bool:
            """Whether half the block gives other rounds."""
            plan, half = (sizes.plan(tile, over, size, "rounds") for size in (block, block // 2))
            return block == 1 or plan.block_sizes != half.block_sizes

        least = min(sizes.plan(tiles[0], over, 1, "rounds").all_bytes for over in _OVER)
        most = max(_MOST_BYTES, least)

        def within_memory(tile: str, over: str, block: int) -> bool:
            return sizes.plan(tile, over, block, "rounds").all_bytes <= most

        constraints: list[ConstraintLike] = [other_rounds, within_memory]
        if several and sizes.geometry.wanted == "filter":
            # Rounds over tiles add to the same sums.
            constraints.append("over == 'columns' or share == 'stages'")
        return ParameterSpace(
            parameters,
            constraints,
            order=lambda config: estimate(sizes.of(config), device),
            default_by_order=True,
        )

    def plan(self, problem: Problem, device: Device, config: Config) -> Plan:
        """Sizes of a config."""
        return _Sizes(geometry_of(problem), self.winograd, problem.dtype, device).of(config)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """Stages and rounds."""
        return winograd_parts(self.plan(problem, device, config))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """From configs to plans."""

    geometry: Geometry
    winograd: Winograd
    dtype: str
    device: Device

    def of(self, config: Config) -> Plan:
        return self.plan(
            str(config["tile"]), str(config["over"]), int(config["block"]), str(config["share"])
        )

    def plan(self, tile: str, over: str, block: int, share: str) -> Plan:
        rows, vectors = parse_tile(tile)
        vector = VectorType(self.dtype, self.device.vector_bytes // ITEM_BYTES[self.dtype])
        upright = self.geometry.wanted == "filter"
        recipe = Recipe(rows, vectors, 1, False, vector, upright=upright)
        size = block * (_TILES_OF_BLOCK if over == "tiles" else recipe.columns)
        return Plan(self.geometry, self.winograd, recipe, over, size, self.device.units, share)


def _fits(tile: str, registers: int) -> bool:
    rows, vectors = parse_tile(tile)
    return rows * vectors + vectors + 1 <= registers


WINOGRAD_SOLVERS = F2_SOLVER, F4_SOLVER = WinogradSolver(F2), WinogradSolver(F4)
