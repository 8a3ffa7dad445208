"""A packed, cache-blocked and threaded matrix product as LLVM IR.

The walk is the classical one: blocks of columns, blocks of K (B is packed), blocks of rows (A is
packed, or read where it is), then tiles. Threads split the batch, the rows or the columns, and each
packs for itself into its own part of the workspace, so that they never wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import function
from skipjack.solvers.loops.entry import KERNEL, run_task, share, task_signature
from skipjack.solvers.loops.packed_parts import Recipe, TileFunction, edge
from skipjack.solvers.loops.packed_slots import SlotWriter
from skipjack.solvers.loops.packing import packing

SPLITS = ("batch", "rows", "columns")
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Blocks:
    """How large the pieces are that are packed."""

    m: int
    k: int
    n: int

    def workspace_bytes(self, recipe: Recipe) -> int:
        """For one thread: a tile, a block of B, a block (or a panel) of A."""
        item = recipe.vector.item_bytes
        b_block = self.k * -(-self.n // recipe.columns) * recipe.columns * item
        a_rows = -(-self.m // recipe.rows) * recipe.rows if recipe.pack_a else recipe.rows
        a_block = self.k * a_rows * item
        return sum(_pages(size) for size in (recipe.tile_bytes, b_block, a_block))


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def generate(recipe: Recipe) -> str:
    """The whole module; ``void @kernel(ptr slots)`` takes what `packed_slots` lists."""
    parts = [
        TileFunction(recipe, direct=False).text(),
        packing("pack_a", recipe.rows, recipe.vector),
        packing("pack_b", recipe.columns, recipe.vector),
    ]
    if not recipe.pack_a:
        parts.append(TileFunction(recipe, direct=True).text())
    parts += [edge(recipe), _block(recipe), _multiply(recipe), _task(recipe), _kernel()]
    declarations: set[str] = set().union(*(needed for _, needed in parts))
    return "\n".join([*sorted(declarations), *(text for text, _ in parts)])


def _internal(w: SlotWriter, signature: str) -> tuple[str, set[str]]:
    w.emit("ret void")
    return function(w, signature, 64, linkage="internal", attributes="noinline"), w.declarations


def _block(recipe: Recipe) -> tuple[str, set[str]]:
    """A block of rows against a packed block of B: all tiles."""
    w, item = SlotWriter(), recipe.vector.item_bytes
    height, width = recipe.rows, recipe.columns
    lda, ldc = w.bytes("a_row", recipe), w.bytes("out_row", recipe)
    a_col = w.bytes("a_col", recipe)
    strides = [f"%s{number}" for number in range(recipe.extras)]
    a_panel = w.mul("%depth", height * item)
    b_panel = w.mul("%depth", width * item)

    def tile(kind: str, a: str, b: str, c: str, ldc_: str, flags: str, extras: str) -> None:
        w.emit(
            f"call void @tile_{kind}(ptr {a}, ptr {b}, ptr {c}, i64 {lda}, i64 {ldc_}, "
            f"i64 %depth, {flags}{extras})"
        )

    def columns(jr: str, at: list[str]) -> list[str]:
        b, c, *extras = at
        have_n = w.least(w.sub("%n", w.mul(jr, width)), width)
        wide = w.value(f"icmp eq i64 {have_n}, {width}")

        def rows(ir: str, here: list[str]) -> list[str]:
            a, packed, c_here, *e_here = here
            have_m = w.least(w.sub("%m", w.mul(ir, height)), height)
            high = w.value(f"icmp eq i64 {have_m}, {height}")
            full = w.value(f"and i1 {wide}, {high}")
            given = recipe.extra_arguments(e_here, strides)

            def inside() -> None:
                kind, source = ("packed", packed) if recipe.pack_a else ("direct", a)
                tile(kind, source, b, c_here, ldc, "i1 %add, i1 %last", given)

            def outside() -> None:
                flags = "i1 false, i1 false"
                nowhere = recipe.extra_arguments(["null"] * recipe.extras, ["0"] * recipe.extras)

                def through(kind: str, source: str) -> None:
                    tile(kind, source, b, "%tile", str(width * item), flags, nowhere)

                def missing_rows() -> None:
                    # A tile reads all its rows, so those that are there are packed for it.
                    w.emit(
                        f"call void @pack_a(ptr {a}, ptr %packed, i64 {have_m}, i64 %depth, "
                        f"i64 {lda}, i64 {a_col})"
                    )
                    through("packed", "%packed")

                if recipe.pack_a:
                    through("packed", packed)
                else:
                    w.either(high, lambda: through("direct", a), missing_rows)
                w.emit(
                    f"call void @edge(ptr %tile, ptr {c_here}, i64 {ldc}, i64 {have_m}, "
                    f"i64 {have_n}, i1 %add, i1 %last{given})"
                )

            w.either(full, inside, outside)
            moved = [
                w.advance(a, w.mul(lda, height)),
                w.advance(packed, a_panel),
                w.advance(c_here, w.mul(ldc, height)),
            ]
            pairs = zip(e_here, strides, strict=True)
            return [*moved, *(w.advance(e, w.mul(stride, height)) for e, stride in pairs)]

        starts = ["%a", "%packed", c, *extras]
        w.loop(w.rounds("%m", height), [("ptr", start) for start in starts], rows)
        return [w.advance(b, b_panel), *(w.advance(p, width * item) for p in (c, *extras))]

    extras = [f"%e{number}" for number in range(recipe.extras)]
    starts = ["%b", "%c", *extras]
    w.loop(w.rounds("%n", width), [("ptr", start) for start in starts], columns)
    parameters = (
        "ptr %a, ptr %packed, ptr %b, ptr %c, ptr %tile, i64 %m, i64 %n, i64 %depth, "
        "i1 %add, i1 %last, ptr %slots" + recipe.extra_parameters()
    )
    return _internal(w, f"void @block({parameters})")


def _multiply(recipe: Recipe) -> tuple[str, set[str]]:
    """One matrix product (or a thread's part of one): the loops over blocks."""
    w, item = SlotWriter(), recipe.vector.item_bytes
    m_block, k_block, n_block = (w.number(f"{letter}_block") for letter in "mkn")
    k = w.number("k")
    a_row, a_col = w.bytes("a_row", recipe), w.bytes("a_col", recipe)
    b_row, b_col = w.bytes("b_row", recipe), w.bytes("b_col", recipe)
    ldc = w.bytes("out_row", recipe)
    strides = [f"%s{number}" for number in range(recipe.extras)]
    packed_b = w.advance("%workspace", _pages(recipe.tile_bytes))
    b_columns = w.mul(w.rounds(n_block, recipe.columns), recipe.columns)
    b_bytes = w.mul(w.rounds(w.mul(w.mul(k_block, b_columns), item), _PAGE), _PAGE)
    packed_a = w.advance(packed_b, b_bytes)

    def n_blocks(jc: str, at: list[str]) -> list[str]:
        b, c, *extras = at
        n = w.least(w.sub("%n", w.mul(jc, n_block)), n_block)

        def k_blocks(pc: str, here: list[str]) -> list[str]:
            a, b_here = here
            left = w.sub(k, w.mul(pc, k_block))
            depth = w.least(left, k_block)
            add = w.is_more(pc)
            last = w.value(f"icmp ule i64 {left}, {k_block}")
            w.emit(
                f"call void @pack_b(ptr {b_here}, ptr {packed_b}, i64 {n}, i64 {depth}, "
                f"i64 {b_col}, i64 {b_row})"
            )

            def m_blocks(ic: str, state: list[str]) -> list[str]:
                a_here, c_here, *e_here = state
                m = w.least(w.sub("%m", w.mul(ic, m_block)), m_block)
                if recipe.pack_a:
                    w.emit(
                        f"call void @pack_a(ptr {a_here}, ptr {packed_a}, i64 {m}, i64 {depth}, "
                        f"i64 {a_row}, i64 {a_col})"
                    )
                w.emit(
                    f"call void @block(ptr {a_here}, ptr {packed_a}, ptr {packed_b}, "
                    f"ptr {c_here}, ptr %workspace, i64 {m}, i64 {n}, i64 {depth}, "
                    f"i1 {add}, i1 {last}, ptr %slots{recipe.extra_arguments(e_here, strides)})"
                )
                pairs = zip(e_here, strides, strict=True)
                return [
                    w.advance(a_here, w.mul(a_row, m_block)),
                    w.advance(c_here, w.mul(ldc, m_block)),
                    *(w.advance(e, w.mul(stride, m_block)) for e, stride in pairs),
                ]

            w.loop(w.rounds("%m", m_block), [("ptr", p) for p in (a, c, *extras)], m_blocks)
            return [
                w.advance(a, w.mul(a_col, k_block)),
                w.advance(b_here, w.mul(b_row, k_block)),
            ]

        w.loop(w.rounds(k, k_block), [("ptr", "%a"), ("ptr", b)], k_blocks)
        moved = w.mul(n_block, item)
        b_moved = w.mul(n_block, b_col)
        return [w.advance(b, b_moved), *(w.advance(p, moved) for p in (c, *extras))]

    extras = [f"%e{number}" for number in range(recipe.extras)]
    starts = ["%b", "%c", *extras]
    w.loop(w.rounds("%n", n_block), [("ptr", start) for start in starts], n_blocks)
    parameters = (
        "ptr %a, ptr %b, ptr %c, ptr %workspace, i64 %m, i64 %n, ptr %slots"
        + recipe.extra_parameters()
    )
    return _internal(w, f"void @multiply({parameters})")


def _task(recipe: Recipe) -> tuple[str, set[str]]:
    """A thread's share: some of the batch, or some rows or columns of every product."""
    w, item = SlotWriter(), recipe.vector.item_bytes
    split = w.number("split")

    def part(name: str, kind: int, granule: int) -> tuple[str, str]:
        """First and count of what this thread does of a size."""
        total = w.number(name)
        mine = w.value(f"icmp eq i64 {split}, {kind}")
        pieces = w.rounds(total, granule)
        first, following = (w.mul(piece, granule) for piece in share(w, pieces))
        ended = w.least(following, total)
        start = w.value(f"select i1 {mine}, i64 {first}, i64 0")
        end = w.value(f"select i1 {mine}, i64 {ended}, i64 {total}")
        return start, w.sub(end, start)

    batch0, batches = part("batch", 0, 1)
    m0, m = part("m", 1, recipe.rows)
    n0, n = part("n", 2, recipe.columns)
    workspace = w.advance(w.pointer("workspace"), w.mul("%index", w.number("thread_bytes")))
    work = w.is_more(w.mul(w.mul(batches, m), n))
    strides = [w.mul(w.extra(number, 2), item) for number in range(recipe.extras)]

    def start(pointer: str, batch: str, row: str | None, column: str | None) -> str:
        moved = w.advance(pointer, w.mul(batch0, batch))
        if row is not None:
            moved = w.advance(moved, w.mul(m0, row))
        return moved if column is None else w.advance(moved, w.mul(n0, column))

    def run() -> None:
        a_batch, b_batch, c_batch = (w.bytes(f"{t}_batch", recipe) for t in ("a", "b", "out"))
        e_batches = [w.mul(w.extra(number, 1), item) for number in range(recipe.extras)]
        starts = [
            start(w.pointer("a"), a_batch, w.bytes("a_row", recipe), None),
            start(w.pointer("b"), b_batch, None, w.bytes("b_col", recipe)),
            start(w.pointer("out"), c_batch, w.bytes("out_row", recipe), str(item)),
        ]
        starts += [
            start(w.extra(number, 0), e_batches[number], strides[number], str(item))
            for number in range(recipe.extras)
        ]

        def body(_: str, at: list[str]) -> list[str]:
            a, b, c, *extras = at
            w.emit(
                f"call void @multiply(ptr {a}, ptr {b}, ptr {c}, ptr {workspace}, i64 {m}, "
                f"i64 {n}, ptr %slots{recipe.extra_arguments(extras, strides)})"
            )
            moves = [a_batch, b_batch, c_batch, *e_batches]
            return [w.advance(p, move) for p, move in zip(at, moves, strict=True)]

        w.loop(batches, [("ptr", pointer) for pointer in starts], body)

    w.when(work, run)
    return _internal(w, task_signature())


def _kernel() -> tuple[str, set[str]]:
    """The entry: through the pool where there are several threads."""
    w = SlotWriter()
    threads = w.number("threads")
    several = w.value(f"icmp ugt i64 {threads}, 1")
    w.either(
        several,
        lambda: run_task(w, w.pointer("parallel"), threads),
        lambda: w.emit("call void @task(ptr %slots, i64 0, i64 1)"),
    )
    w.emit("ret void")
    return function(w, KERNEL, 64), w.declarations
