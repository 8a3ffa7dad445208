"""A packed matrix product of any strides as one stage of a kernel, and what may vary about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.nest import Accumulator, Scalar
from skipjack.core.parameters import Parameter
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.solvers.loops.packed import SPLITS, Blocks, generate
from skipjack.solvers.loops.packed_estimate import parse_tile
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot

_TILES = ("6x4", "5x4", "4x4", "8x3", "8x2", "12x2", "14x2", "4x6", "5x5", "6x2", "4x3", "4x2")
"""Rows and vectors of columns; those beyond the registers are left out."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix for each product of a batch; strides in elements."""

    slot: Slot
    batch: int
    row: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Slices:
    """Sums over two levels: all of `Product.k`, so often, with these strides of A and B."""

    count: int = 1
    a: int = 0
    b: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of two levels: all of `Product.m`, so often, with these strides of A and of `out`."""

    count: int = 1
    a: int = 0
    out: int = 0


@dataclass(frozen=True, slots=True)
class Product:
    """``out = epilogue(a b)`` for each of a batch.

    Columns of `out` lie side by side; or its rows do, and then nothing else is done to them.
    """

    batch: int
    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    out: Operand
    extras: tuple[Operand, ...] = ()
    """What the epilogue loads besides, as `Load(2)` and so on."""
    epilogue: Scalar = field(default_factory=Accumulator)
    slices: Slices = Slices()
    accumulate: bool = False
    """Whether the product is added to what `out` holds."""
    groups: Groups = Groups()

    def __post_init__(self) -> None:
        assert self.out.column == 1 or self.out.row == 1, "rows or columns lie side by side"
        plain = self.groups.count == 1 and self.out.column == 1
        assert plain or not self.extras, "groups of rows and turned products load nothing besides"

    @property
    def depth(self) -> int:
        """The whole length of a sum."""
        return self.k * self.slices.count

    @property
    def packs(self) -> tuple[bool, ...]:
        """Whether A may be packed, the default first: one of two strides must be."""
        if self.a.column == 1:
            return (False, True)
        return (True, False) if self.a.row == 1 else (True,)

    @property
    def packs_b(self) -> tuple[bool, ...]:
        """Whether B may be packed, the default first: it must be unless columns lie together."""
        return (True, False) if self.b.column == 1 else (True,)


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
        int(config["unroll"]),
        bool(config["pack_a"]),
        VectorType(dtype, device.vector_bytes // ITEM_BYTES[dtype]),
        product.epilogue,
        len(product.extras),
        bool(config.get("pack_b", True)),
        ahead=int(config.get("ahead", 0)),
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
        SPLITS.index(str(config["split"])),
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
    smaller = tuple(size for size in choices if size < extent)
    return (*smaller, extent) if extent <= 2 * choices[-1] else smaller


def _splits(product: Product, threads: int) -> tuple[str, ...]:
    if threads == 1:
        return ("rows",)
    sizes = (product.batch, product.m, product.n, product.groups.count)
    return tuple(
        name
        for name, size in zip(SPLITS, sizes, strict=True)
        if size >= threads or name == "rows"
    )
