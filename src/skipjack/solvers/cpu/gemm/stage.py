"""The module of a packed matrix product as a stage of a kernel, and the parameters it can vary.

The loops are the classical ones: blocks of columns, blocks of K (B is packed), blocks of rows (A
is packed, or read in place), then tiles. K may have two levels, several slices of several steps
each, for sums over the pixels of several images; so may rows. Threads split the batch, the rows,
the columns, or a grid of rows and columns. Each packs into its own part of the workspace, so that
no thread waits for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core import Config, Device, Parameter
from skipjack.native import (
    ITEM_BYTES,
    VectorType,
    function,
    parallel_slot,
    registers_of,
    workspace_slot,
)
from skipjack.solvers.cpu.gemm.cache_blocks import (
    block_function,
    internal_function,
    multiply_function,
    whole_pages,
)
from skipjack.solvers.cpu.gemm.product import (
    GRID,
    SPLITS,
    GemmProduct,
    SlotWriter,
    parse_tile,
    split_slot,
)
from skipjack.solvers.cpu.gemm.tile import PackedRecipe, TileFunction, edge_function
from skipjack.solvers.cpu.ir import (
    KERNEL,
    IRStage,
    packing_function,
    run_or_call,
    share,
    task_signature,
)
from skipjack.solvers.solver import Slot

# The module of a packed, cache-blocked and threaded matrix product.


@dataclass(frozen=True, slots=True)
class GemmBlocks:
    """Sizes of the blocks that are packed."""

    m: int
    k: int
    n: int
    slices: int = 1
    """Slices that are packed together."""

    def workspace_bytes(self, recipe: PackedRecipe) -> int:
        """Workspace of one thread: a tile, and a block (or a panel) of B and of A."""
        item = recipe.vector.item_bytes
        depth = self.k * self.slices
        panels = -(-self.n // recipe.columns) if recipe.pack_b else 1
        b_block = depth * panels * recipe.columns * item
        a_rows = -(-self.m // recipe.rows) * recipe.rows if recipe.pack_a else recipe.rows
        a_block = depth * a_rows * item
        return sum(whole_pages(size) for size in (recipe.tile_bytes, b_block, a_block))


def generate(recipe: PackedRecipe) -> str:
    """The whole module; the slots of ``void @kernel(ptr slots)`` are `POINTERS` and `NUMBERS`."""
    parts = [
        TileFunction(recipe, direct=False).text(),
        packing_function("pack_a", recipe.rows, recipe.vector),
        packing_function("pack_b", recipe.columns, recipe.vector),
    ]
    if recipe.direct:
        parts.append(TileFunction(recipe, direct=True).text())
    parts += [
        edge_function(recipe),
        block_function(recipe),
        multiply_function(recipe),
        _task(recipe),
        _kernel(),
    ]
    declarations: set[str] = set().union(*(needed for _, needed in parts))
    return "\n".join([*sorted(declarations), *(text for text, _ in parts)])


def _task(recipe: PackedRecipe) -> tuple[str, set[str]]:
    """The task of a thread: a share of the batch, or of the rows and columns of every product."""
    w, item = SlotWriter(), recipe.vector.item_bytes
    split = w.number("split")
    in_grid = w.value(f"icmp ugt i64 {split}, {GRID}")
    down = w.value(f"select i1 {in_grid}, i64 {w.sub(split, GRID)}, i64 1")
    across = w.value(f"udiv i64 %count, {down}")
    places = {
        "m": (w.value(f"urem i64 %index, {down}"), down),
        "n": (w.value(f"udiv i64 %index, {down}"), across),
    }

    def place(name: str) -> tuple[str, str]:
        """This thread's number among those that share a size, and their number."""
        if name not in places:
            return "%index", "%count"
        pairs = zip(places[name], ("%index", "%count"), strict=True)
        index, count = (w.value(f"select i1 {in_grid}, i64 {a}, i64 {b}") for a, b in pairs)
        return index, count

    def part(name: str, kind: int, granule: int) -> tuple[str, str]:
        """The first and the number of this thread's part of a size."""
        total = w.number(name)
        mine = w.value(f"icmp eq i64 {split}, {kind}")
        if name in places:
            mine = w.value(f"or i1 {mine}, {in_grid}")
        pieces = w.rounds(total, granule)
        first, following = (w.mul(piece, granule) for piece in share(w, pieces, *place(name)))
        ended = w.least(following, total)
        start = w.value(f"select i1 {mine}, i64 {first}, i64 0")
        end = w.value(f"select i1 {mine}, i64 {ended}, i64 {total}")
        return start, w.sub(end, start)

    batch0, batches = part("batch", 0, 1)
    m0, m = part("m", 1, recipe.rows)
    n0, n = part("n", 2, recipe.columns)
    group0, groups = part("groups", 3, 1)
    workspace = w.advance(w.pointer("workspace"), w.mul("%index", w.number("thread_bytes")))
    work = w.is_more(w.mul(w.mul(batches, groups), w.mul(m, n)))
    strides = [w.mul(w.extra(number, 2), item) for number in range(recipe.extras)]

    def start(pointer: str, batch: str, row: str = "", column: str = "", group: str = "") -> str:
        strides = ((batch0, batch), (m0, row), (n0, column), (group0, group))
        for number, stride in strides:
            if stride:
                pointer = w.advance(pointer, w.mul(number, stride))
        return pointer

    def stride(name: str) -> str:
        return w.bytes(name, recipe)

    def run() -> None:
        a_batch, b_batch, c_batch = (w.bytes(f"{t}_batch", recipe) for t in ("a", "b", "out"))
        e_batches = [w.mul(w.extra(number, 1), item) for number in range(recipe.extras)]
        starts = [
            start(w.pointer("a"), a_batch, stride("a_row"), group=stride("a_group")),
            start(w.pointer("b"), b_batch, column=stride("b_col")),
            start(w.pointer("out"), c_batch, *map(stride, ("out_row", "out_col", "out_group"))),
        ]
        starts += [
            start(w.extra(number, 0), e_batches[number], strides[number], str(item))
            for number in range(recipe.extras)
        ]

        def body(_: str, at: list[str]) -> list[str]:
            a, b, c, *extras = at
            w.emit(
                f"call void @multiply(ptr {a}, ptr {b}, ptr {c}, ptr {workspace}, i64 {groups}, "
                f"i64 {m}, i64 {n}, ptr %slots{recipe.extra_arguments(extras, strides)})"
            )
            moves = [a_batch, b_batch, c_batch, *e_batches]
            return [w.advance(p, move) for p, move in zip(at, moves, strict=True)]

        w.loop(batches, [("ptr", pointer) for pointer in starts], body)

    w.when(work, run)
    return internal_function(w, task_signature())


def _kernel() -> tuple[str, set[str]]:
    """The entry, which runs the task on the pool if there are several threads."""
    w = SlotWriter()
    run_or_call(w, w.pointer("parallel"), w.number("threads"))
    w.emit("ret void")
    return function(w, KERNEL, 64), w.declarations


# The stage and its parameters.

_GRIDS = 3
_TILES = (
    *("6x4", "5x4", "4x4", "8x3", "7x3", "8x2", "7x2", "12x2", "14x2", "4x6", "5x5", "6x2", "4x3"),
    "4x2",
)
"""Rows x vectors of columns; tiles that do not fit the registers are left out."""


def product_parameters(product: GemmProduct, device: Device) -> list[Parameter]:
    """The parameters: tiles that fit the registers, blocks that may fit the caches, thread
    splits."""
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


def product_recipe(
    product: GemmProduct, dtype: str, device: Device, config: Config
) -> PackedRecipe:
    """The part of a config and a product that decides the machine code."""
    rows, vectors = parse_tile(config["tile"])
    return PackedRecipe(
        rows,
        vectors,
        int(config.get("unroll", 1)),
        bool(config["pack_a"]),
        VectorType(dtype, device.vector_bytes // ITEM_BYTES[dtype]),
        product.epilogue,
        len(product.extras),
        bool(config.get("pack_b", True)),
        a_by_columns=product.a.column != 1,
        transposed=product.out.column != 1,
    )


def product_stage(
    product: GemmProduct, dtype: str, device: Device, config: Config, threads: int | None = None
) -> IRStage:
    """The stage; by default with as many threads as the device has units."""
    recipe = product_recipe(product, dtype, device, config)
    return IRStage(
        lambda: generate(recipe), product_slots(product, recipe, config, threads or device.units)
    )


def product_slots(
    product: GemmProduct, recipe: PackedRecipe, config: Config, threads: int
) -> tuple[Slot, ...]:
    """The slots, in the order of `POINTERS` and `NUMBERS`."""
    depth = int(config["k_block"])
    # Operands that are read in place cannot continue from one slice to the next.
    packed = recipe.pack_a and recipe.pack_b
    together = max(1, min(depth // product.k, product.slices.count)) if packed else 1
    blocks = GemmBlocks(
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
    """Blocks smaller than the extent, and the whole extent unless it is much larger."""
    if extent > 2 * choices[-1]:
        return choices
    return (*(size for size in choices if 5 * size <= 4 * extent), extent)


def _splits(product: GemmProduct, threads: int) -> tuple[str, ...]:
    if threads == 1:
        return ("rows",)
    sizes = (product.batch, product.m, product.n, product.groups.count)
    one = [
        name for name, size in zip(SPLITS, sizes, strict=True) if size >= threads or name == "rows"
    ]
    grids = [(rows, threads // rows) for rows in range(2, threads) if threads % rows == 0]
    fit = [grid for grid in grids if product.m >= grid[0] and product.n >= grid[1]]
    # Only the grids whose threads pack least: all of them would make the space too large to list.
    fit.sort(key=lambda grid: product.m / grid[0] + product.n / grid[1])
    return (*one, *(f"{rows}x{columns}" for rows, columns in fit[:_GRIDS]))
