"""A packed, cache-blocked and threaded matrix product as LLVM IR.

The walk is the classical one: blocks of columns, blocks of K (B is packed), blocks of rows (A is
packed, or read where it is), then tiles. K may have two levels, slices and steps of each, as where
sums run over the pixels of several images, and so may rows. Threads split the batch, the rows or
the columns, or rows and columns in a grid, and each packs for itself into its own part of the
workspace, so that they never wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import function
from skipjack.solvers.loops.entry import KERNEL, run_or_call, share, task_signature
from skipjack.solvers.loops.packed_block import block, internal
from skipjack.solvers.loops.packed_edge import edge
from skipjack.solvers.loops.packed_loops import multiply, pages
from skipjack.solvers.loops.packed_parts import Recipe, TileFunction
from skipjack.solvers.loops.packed_slots import GRID, SlotWriter
from skipjack.solvers.loops.packing import packing


@dataclass(frozen=True, slots=True)
class Blocks:
    """How large the pieces are that are packed."""

    m: int
    k: int
    n: int
    slices: int = 1
    """How many times `k` is packed together."""

    def workspace_bytes(self, recipe: Recipe) -> int:
        """For one thread: a tile, and a block (or a panel) of B and of A."""
        item = recipe.vector.item_bytes
        depth = self.k * self.slices
        panels = -(-self.n // recipe.columns) if recipe.pack_b else 1
        b_block = depth * panels * recipe.columns * item
        a_rows = -(-self.m // recipe.rows) * recipe.rows if recipe.pack_a else recipe.rows
        a_block = depth * a_rows * item
        return sum(pages(size) for size in (recipe.tile_bytes, b_block, a_block))


def generate(recipe: Recipe) -> str:
    """The whole module; ``void @kernel(ptr slots)`` takes what `packed_slots` lists."""
    parts = [
        TileFunction(recipe, direct=False).text(),
        packing("pack_a", recipe.rows, recipe.vector),
        packing("pack_b", recipe.columns, recipe.vector),
    ]
    if recipe.direct:
        parts.append(TileFunction(recipe, direct=True).text())
    parts += [edge(recipe), block(recipe), multiply(recipe), _task(recipe), _kernel()]
    declarations: set[str] = set().union(*(needed for _, needed in parts))
    return "\n".join([*sorted(declarations), *(text for text, _ in parts)])


def _task(recipe: Recipe) -> tuple[str, set[str]]:
    """A thread's share: some of the batch, or some rows or columns or both of every product."""
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
        """This thread's number among those that share a size, and how many they are."""
        if name not in places:
            return "%index", "%count"
        pairs = zip(places[name], ("%index", "%count"), strict=True)
        index, count = (w.value(f"select i1 {in_grid}, i64 {a}, i64 {b}") for a, b in pairs)
        return index, count

    def part(name: str, kind: int, granule: int) -> tuple[str, str]:
        """First and count of what this thread does of a size."""
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
    return internal(w, task_signature())


def _kernel() -> tuple[str, set[str]]:
    """The entry: through the pool where there are several threads."""
    w = SlotWriter()
    run_or_call(w, w.pointer("parallel"), w.number("threads"))
    w.emit("ret void")
    return function(w, KERNEL, 64), w.declarations
