"""A packed matrix product of any strides as one stage of a kernel, and what may vary about it."""

from __future__ import annotations

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.solvers.loops.packed import Blocks, generate
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.packed_product import (
    Groups,
    Operand,
    Product,
    Slices,
    parse_tile,
)
from skipjack.solvers.loops.packed_slots import SPLITS, split_slot
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot

__all__ = [
    "Groups",
    "Operand",
    "Product",
    "Slices",
    "product_parameters",
    "product_recipe",
    "product_slots",
    "product_stage",
]

_GRIDS = 3
_TILES = (
    *("6x4", "5x4", "4x4", "8x3", "7x3", "8x2", "7x2", "12x2", "14x2", "4x6", "5x5", "6x2", "4x3"),
    "4x2",
)
"""Rows and vectors of columns; those beyond the registers are left out."""


def product_parameters(product: Product, device: Device) -> list[Parameter]:
    """Tiles that fit the registers, blocks that may fit the caches, what threads share out."""
    registers = registers_of(device)
    return [
        Parameter("tile", tuple(tile for tile in _TILES if _fits(tile, registers))),
        Parameter("unroll", (1, 2)),
        Parameter("pack_a", product.packs),
        Parameter("m_block", _sizes(product.m, (48, 96, 192)), stage="run"),
        Parameter("k_block", _sizes(product.depth, (64, 128, 256, 512, 1024)), stage="run"),
        Parameter("n_block", _sizes(product.n, (256, 512, 2048)), stage="run"),
        Parameter("split", _splits(product, device.units), stage="run"),
    ]


def product_recipe(product: Product, dtype: str, device: Device, config: Config) -> Recipe:
    """What of a config and a product decides the machine code."""
    rows, vectors = parse_tile(config["tile"])
    return Recipe(
        rows,
        vectors,
        int(config.get("unroll", 1)),
        bool(config["pack_a"]),
        VectorType(dtype, device.vector_bytes // ITEM_BYTES[dtype]),
        product.epilogue,
        len(product.extras),
        bool(config.get("pack_b", True)),
        upright=product.a.column != 1,
        turned=product.out.column != 1,
    )


def product_stage(
    product: Product, dtype: str, device: Device, config: Config, threads: int | None = None
) -> Stage:
    """The stage; with as many threads as the device has units unless told otherwise."""
    recipe = product_recipe(product, dtype, device, config)
    return Stage(
        lambda: generate(recipe), product_slots(product, recipe, config, threads or device.units)
    )


def product_slots(
    product: Product, recipe: Recipe, config: Config, threads: int
) -> tuple[Slot, ...]:
    """As `packed_slots` lists them."""
    depth = int(config["k_block"])
    # What is read in place cannot go on from one slice to the next.
    packed = recipe.pack_a and recipe.pack_b
    together = max(1, min(depth // product.k, product.slices.count)) if packed else 1
    blocks = Blocks(
        -(-int(config["m_block"]) // recipe.rows) * recipe.rows,
        min(depth, product.k),
        -(-int(config["n_block"]) // recipe.columns) * recipe.columns,
        together,
    )
    room = blocks.workspace_bytes(recipe)
    a, b, out = product.a, product.b, product.out
    extras: list[Slot] = []
    for operand in product.extras:
        extras += [operand.slot, operand.batch, operand.row]
    return (
        *(a.slot, b.slot, out.slot),
        workspace_slot(room * threads),
        parallel_slot(threads),
        threads,
        split_slot(str(config["split"]), threads),
        *(product.batch, product.m, product.n, product.k),
        *(a.batch, a.row, a.column),
        *(b.batch, b.row, b.column),
        *(out.batch, out.row),
        *(blocks.m, blocks.k, blocks.n, room),
        *(product.slices.count, product.slices.a, product.slices.b, together),
        int(product.accumulate),
        out.column,
        *(product.groups.count, product.groups.a, product.groups.out),
        *extras,
    )


def _fits(tile: str, registers: int) -> bool:
    rows, vectors = parse_tile(tile)
    return rows * vectors + vectors + 1 <= registers


def _sizes(extent: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks smaller than the extent, and the whole of it where that is not much larger."""
    if extent > 2 * choices[-1]:
        return choices
    return (*(size for size in choices if 5 * size <= 4 * extent), extent)


def _splits(product: Product, threads: int) -> tuple[str, ...]:
    if threads == 1:
        return ("rows",)
    sizes = (product.batch, product.m, product.n, product.groups.count)
    one = [
        name for name, size in zip(SPLITS, sizes, strict=True) if size >= threads or name == "rows"
    ]
    grids = [(rows, threads // rows) for rows in range(2, threads) if threads % rows == 0]
    fit = [grid for grid in grids if product.m >= grid[0] and product.n >= grid[1]]
    # Those whose threads pack least: one of many grids would make a space too large to be listed.
    fit.sort(key=lambda grid: product.m / grid[0] + product.n / grid[1])
    return (*one, *(f"{rows}x{columns}" for rows, columns in fit[:_GRIDS]))
