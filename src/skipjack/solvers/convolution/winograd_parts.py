"""The parts of a Winograd convolution in their order.

Forward and backward-data, where filters are flipped and channels change roles:

    filters to planes, tiles of the image to planes, products, planes to tiles of the result

Backward-weights multiplies planes of the image with planes of the result's gradient, and makes
filters of the sums.
"""

from __future__ import annotations

from functools import partial

from skipjack.solvers.convolution.winograd_filters import (
    FILTERS,
    Filters,
    Order,
    filters_of_planes,
    planes_of_filters,
)
from skipjack.solvers.convolution.winograd_images import ImageStages, Picture, picture
from skipjack.solvers.convolution.winograd_plan import Plan
from skipjack.solvers.convolution.winograd_product import PRODUCT, Products, products
from skipjack.solvers.convolution.winograd_rounds import StageMaker
from skipjack.solvers.loops.stages import Part, Stage
from skipjack.solvers.solver import Slot

_REACH = 2
"""Pixels that a filter covers beyond the first."""


def winograd_parts(plan: Plan) -> list[Part]:
    """All of them."""
    return _gradient(plan) if plan.summed_over_tiles else _convolution(plan)


def _convolution(plan: Plan) -> list[Part]:
    maker, over_tiles = StageMaker(plan), plan.over == "tiles"
    target = picture(plan.geometry, plan.geometry.wanted, plan.winograd.result)
    image = ImageStages(maker, _source(plan), over_tiles).planes("rows")
    result = ImageStages(maker, target, True).pixels()
    filters, product = _filters(maker), _product(maker)
    if over_tiles:
        return [filters, maker.rounds([*image, product, *result])]
    return [*image, maker.rounds([filters, product, *result])]


def _source(plan: Plan) -> Picture:
    geometry, line = plan.geometry, plan.winograd.image
    _, y, x = geometry.axes
    if geometry.wanted == "image":
        return picture(geometry, "result", line, (_REACH - y.pad, _REACH - x.pad), _REACH)
    return picture(geometry, "image", line, (y.pad, x.pad), _REACH)


def _gradient(plan: Plan) -> list[Part]:
    maker, over_tiles = StageMaker(plan), plan.over == "tiles"
    image = _source(plan)
    result = picture(plan.geometry, "result", plan.winograd.spread)
    first, second = (image, result) if plan.columns_are_results else (result, image)
    rows = ImageStages(maker, first, over_tiles).planes("rows")
    columns = ImageStages(maker, second, True).planes("columns")
    product, filters = _product(maker), _gradients(maker)
    if over_tiles:
        return [maker.rounds([*rows, *columns, product]), filters]
    return [*rows, maker.rounds([*columns, product, filters])]


def _filter_memory(plan: Plan) -> tuple[Order, dict[str, Slot]]:
    """How the filters lie in memory, seen from the products."""
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


def _filters(maker: StageMaker) -> Stage:
    """Filters to planes."""
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
    kind = Filters(plan.winograd.filter, plan.recipe.vector, order, flipped)
    write = partial(planes_of_filters, kind)
    return maker.stage(write, FILTERS, values, plan.columns, inside=plan.over == "columns")


def _gradients(maker: StageMaker) -> Stage:
    """Planes of sums to filters."""
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
    kind = Filters(plan.winograd.gather, plan.recipe.vector, order)
    write = partial(filters_of_planes, kind)
    return maker.stage(write, FILTERS, values, plan.columns, inside=plan.over == "columns")


def _product(maker: StageMaker) -> Stage:
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
