"""Convolutions with 3x3 filters by Winograd's minimal filtering: F(2x2, 3x3) and F(4x4, 3x3).

F(m x m, 3 x 3) needs fewer multiplications than the plain sums, by a factor of ``9 m^2 / (m +
2)^2``: 2.25 and 4. Its rounding errors are larger: see `WinogradSolver.tolerance_factor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from skipjack.core import Config, ConstraintLike, Device, Parameter, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, VectorType, registers_of
from skipjack.operations import Axis, Geometry
from skipjack.solvers.cpu.conv.requirements import (
    ONE_GROUP,
    STRIDE_ONE,
    THREE_BY_THREE,
    UNDILATED,
    Requirement,
    geometry_of,
    refusal,
)
from skipjack.solvers.cpu.conv.winograd.filters import (
    FILTERS,
    FilterTransform,
    Order,
    filters_of_planes,
    planes_of_filters,
)
from skipjack.solvers.cpu.conv.winograd.images import (
    ImageLayout,
    ImageStages,
    StageMaker,
    image_layout,
)
from skipjack.solvers.cpu.conv.winograd.plan import WinogradPlan, estimate
from skipjack.solvers.cpu.conv.winograd.stage_code import PRODUCT, Products, products
from skipjack.solvers.cpu.conv.winograd.transforms import F2, F4, Winograd
from skipjack.solvers.cpu.gemm import PackedRecipe, parse_tile
from skipjack.solvers.cpu.ir import IRStage, Part, StagedSolver
from skipjack.solvers.solver import Slot

# The stages in their order.
#
# Forward and backward-data, where filters are flipped and channels change roles: filters to
# planes, tiles of the image to planes, products, planes to tiles of the result. Backward-weights
# multiplies planes of the image with planes of the result's gradient, and transforms the sums to
# filters.

_REACH = 2
"""Pixels that a filter covers beyond the first."""


def winograd_parts(plan: WinogradPlan) -> list[Part]:
    """All stages and rounds of a plan."""
    return _gradient(plan) if plan.summed_over_tiles else _convolution(plan)


def _convolution(plan: WinogradPlan) -> list[Part]:
    maker, over_tiles = StageMaker(plan), plan.over == "tiles"
    target = image_layout(plan.geometry, plan.geometry.wanted, plan.winograd.result)
    image = ImageStages(maker, _source(plan), over_tiles).planes("rows")
    result = ImageStages(maker, target, True).pixels()
    filters, product = _filters(maker), _product(maker)
    if over_tiles:
        return [filters, maker.rounds([*image, product, *result])]
    return [*image, maker.rounds([filters, product, *result])]


def _source(plan: WinogradPlan) -> ImageLayout:
    geometry, line = plan.geometry, plan.winograd.image
    _, y, x = geometry.axes
    if geometry.wanted == "image":
        return image_layout(geometry, "result", line, (_REACH - y.pad, _REACH - x.pad), _REACH)
    return image_layout(geometry, "image", line, (y.pad, x.pad), _REACH)


def _gradient(plan: WinogradPlan) -> list[Part]:
    maker, over_tiles = StageMaker(plan), plan.over == "tiles"
    image = _source(plan)
    result = image_layout(plan.geometry, "result", plan.winograd.spread)
    first, second = (image, result) if plan.columns_are_results else (result, image)
    rows = ImageStages(maker, first, over_tiles).planes("rows")
    columns = ImageStages(maker, second, True).planes("columns")
    product, filters = _product(maker), _gradients(maker)
    if over_tiles:
        return [maker.rounds([*rows, *columns, product]), filters]
    return [*rows, maker.rounds([*columns, product, filters])]


def _filter_memory(plan: WinogradPlan) -> tuple[Order, dict[str, Slot]]:
    """The memory layout of the filters, in rows and columns of the products."""
    g = plan.geometry
    of_result, of_image, tap = (9 * g.c, 1, g.c) if g.channels_last else (9 * g.c, 9, 1)
    column, row = (of_result, of_image) if plan.columns_are_results else (of_image, of_result)
    orders: dict[tuple[bool, bool], Order] = {
        (True, True): "rows",
        (True, False): "columns",
        (False, True): "row_taps",
        (False, False): "column_taps",
    }
    return orders[g.channels_last, plan.columns_are_results], {
        "length": plan.length,
        "column_bytes": column * plan.item,
        "row_bytes": row * plan.item,
        "tap_bytes": tap * plan.item,
    }


def _filters(maker: StageMaker) -> IRStage:
    """The stage that transforms filters to planes."""
    plan = maker.plan
    order, memory = _filter_memory(plan)
    values: dict[str, Slot] = {
        **memory,
        "source": plan.geometry.name("filter"),
        "target": plan.scratch("columns"),
        "plane_bytes": plan.plane_bytes("columns"),
        "line_bytes": plan.recipe.columns * plan.item,
        "group": plan.recipe.vectors,
        "group_bytes": plan.panel_bytes,
    }
    flipped = plan.geometry.wanted == "image"
    kind = FilterTransform(plan.winograd.filter, plan.recipe.vector, order, flipped)
    write = partial(planes_of_filters, kind)
    return maker.stage(write, FILTERS, values, plan.columns, inside=plan.over == "columns")


def _gradients(maker: StageMaker) -> IRStage:
    """The stage that transforms planes of sums to filters."""
    plan = maker.plan
    order, memory = _filter_memory(plan)
    values: dict[str, Slot] = {
        **memory,
        **maker.one_group,
        "source": plan.scratch("products"),
        "target": plan.geometry.name("filter"),
        "plane_bytes": plan.plane_bytes("products"),
        "line_bytes": plan.row_bytes(plan.column_block),
    }
    kind = FilterTransform(plan.winograd.gather, plan.recipe.vector, order)
    write = partial(filters_of_planes, kind)
    return maker.stage(write, FILTERS, values, plan.columns, inside=plan.over == "columns")


def _product(maker: StageMaker) -> IRStage:
    plan = maker.plan
    values: dict[str, Slot] = {
        "source": plan.scratch("rows"),
        "other": plan.scratch("columns"),
        "target": plan.scratch("products"),
        "length": plan.length,
        "source_plane": plan.plane_bytes("rows"),
        "source_row": plan.row_bytes(plan.length),
        "other_plane": plan.plane_bytes("columns"),
        "other_panel": plan.panel_bytes,
        "target_plane": plan.plane_bytes("products"),
        "target_row": plan.row_bytes(plan.column_block),
    }
    write = partial(products, Products(plan.recipe, plan.points))
    return maker.stage(write, PRODUCT, values, plan.columns, inside=True)


# The solver and its search space.

_TILES = ("8x2", "6x4", "12x2", "14x2", "8x3", "12x1", "6x2", "4x3", "8x1")
"""Rows x vectors of columns; tiles that do not fit the registers are left out."""
_OVER = ("tiles", "columns")
_BLOCKS = (1, 2, 4, 8, 16, 32, 64)
"""In panels of columns, or in units of this many tiles:"""
_TILES_OF_BLOCK = 8
_MOST_BYTES = 256 << 20
"""Most scratch memory between stages, unless the smallest block takes more."""
_EXTRA_TOLERANCE = {2: 0.0, 4: 480.0}
"""Further tolerances that the error may have if the shortest sum has one product."""
_DIRECT = 0.8
_WORTH, _CLOSE = 0.9, 0.8
"""The least speedup over plain sums, and relative to the other Winograd solver, for a trial."""
_FEWEST = 16
"""The shortest sums that are accepted, in products."""


def fewest_products(geometry: Geometry) -> int:
    """The number of products in the shortest sum of a convolution."""
    sums = [min(_inside(geometry, axis)) for axis in geometry.axes]
    channels = {"result": geometry.group_c, "image": geometry.group_k, "filter": geometry.n}
    return channels[geometry.wanted] * sums[0] * sums[1] * sums[2]


def _inside(geometry: Geometry, axis: Axis) -> list[int]:
    """Along one axis, the number of products at both ends of the output.

    The fewest are at an end. Strides and dilations are 1.
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


FLAT = Requirement("images without depth", lambda g: g.axes[0].image == 1)
SMALL_PADS = Requirement("pads of at most 2", lambda g: all(axis.pad <= 2 for axis in g.axes))
LONG_SUMS = Requirement(
    f"sums of at least {_FEWEST} products, as its rounding errors are too large for shorter ones",
    lambda g: fewest_products(g) >= _FEWEST,
)
REQUIREMENTS = (THREE_BY_THREE, FLAT, STRIDE_ONE, UNDILATED, ONE_GROUP, SMALL_PADS, LONG_SUMS)


class WinogradSolver(StagedSolver):
    """One of the two Winograd solvers; blocks and all sizes are set at run time."""

    version = 1
    algorithm = "Winograd"

    def __init__(self, winograd: Winograd) -> None:
        self.winograd = winograd
        self.name = f"winograd{winograd.size}"

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts 3x3 filters without strides and groups, on CPUs."""
        return refusal(problem, device, REQUIREMENTS)

    def tolerance_factor(self, problem: Problem) -> float:
        """The error that its results may have, in tolerances of a plain sum.

        A tolerance is proportional to the magnitudes that an element sums up, but all elements of a
        tile share the rounding errors of F4, some of them multiplied by factors of up to 100 that
        cancel out; so elements with short sums, for example at edges, have larger errors. The
        largest errors of 56 random cases in both precisions were 5 times the tolerance if the
        shortest sums have 16 products, 1.2 times with 64 and 0.4 with 256; about six times as much
        is allowed. The error of F2 was never more than 0.2.
        """
        return 1.0 + _EXTRA_TOLERANCE[self.winograd.size] / fewest_products(geometry_of(problem))

    def promise(self, problem: Problem, device: Device) -> float:
        """The estimated speedup over plain sums; 0 if it is too small."""
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
        """The estimated cycles of the default config."""
        config = self.space(problem, device).default()
        return estimate(self.plan(problem, device, config), device)

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Register tiles, what rounds are over, their size, and what threads share out."""
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
            """Whether half the block gives different rounds."""
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

    def plan(self, problem: Problem, device: Device, config: Config) -> WinogradPlan:
        """The plan of a config."""
        return _Sizes(geometry_of(problem), self.winograd, problem.dtype, device).of(config)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        return winograd_parts(self.plan(problem, device, config))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Makes plans from configs."""

    geometry: Geometry
    winograd: Winograd
    dtype: str
    device: Device

    def of(self, config: Config) -> WinogradPlan:
        return self.plan(
            str(config["tile"]), str(config["over"]), int(config["block"]), str(config["share"])
        )

    def plan(self, tile: str, over: str, block: int, share: str) -> WinogradPlan:
        rows, vectors = parse_tile(tile)
        vector = VectorType(self.dtype, self.device.vector_bytes // ITEM_BYTES[self.dtype])
        a_by_columns = self.geometry.wanted == "filter"
        recipe = PackedRecipe(rows, vectors, 1, False, vector, a_by_columns=a_by_columns)
        size = block * (_TILES_OF_BLOCK if over == "tiles" else recipe.columns)
        return WinogradPlan(
            self.geometry, self.winograd, recipe, over, size, self.device.units, share
        )


def _fits(tile: str, registers: int) -> bool:
    rows, vectors = parse_tile(tile)
    return rows * vectors + vectors + 1 <= registers


WINOGRAD_SOLVERS = F2_SOLVER, F4_SOLVER = WinogradSolver(F2), WinogradSolver(F4)
