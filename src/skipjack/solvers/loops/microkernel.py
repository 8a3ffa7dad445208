"""A matmul micro-kernel as LLVM IR, with sizes and strides as arguments.

One object serves every shape: a register tile, its three edge tiles, and a small driver that walks
over C in either order and over K in blocks. A kernel is called as ``void @kernel(ptr slots)`` with
the slots named in `SLOTS`.
"""

from __future__ import annotations

from collections.abc import Callable

from skipjack.native.ir import IRWriter, function
from skipjack.solvers.loops.entry import KERNEL, slot
from skipjack.solvers.loops.microkernel_tile import (
    PARAMETERS,
    SLOTS,
    Tile,
    call,
    number,
    stride_bytes,
    tile_function,
    tile_name,
)

__all__ = ["SLOTS", "Tile", "generate"]

Piece = Callable[[bool, list[str], str], None]
"""Of a walk: whether it is an edge, where its pointers stand, how much of the length it covers."""


def generate(tile: Tile) -> str:
    """The whole module."""
    declarations = {"declare i64 @llvm.umin.i64(i64, i64)"}
    # A strip of one row has no lower edge, but strips of columns end anywhere.
    heights = (False, True) if tile.rows > 1 else (False,)
    parts = []
    for low in heights:
        for right in (False, True):
            parts.append(tile_function(tile, declarations, low=low, right=right))
        parts.append(_row_panel(tile, low))
    parts += [_column_panel(tile, right) for right in (False, True)]
    parts += [_block_function(tile), _entry_function(tile)]
    return "\n".join([*sorted(declarations), *parts])


def _panel_name(along: str, edge: bool) -> str:
    return f"@{along}_{'edge' if edge else 'whole'}"


def _inner(writer: IRWriter, signature: str) -> str:
    writer.emit("ret void")
    return function(writer, signature, 64, linkage="internal", attributes="noinline")


def _walk(
    w: IRWriter,
    length: str,
    sizes: tuple[int, int],
    starts: list[str],
    strides: list[str],
    body: Piece,
) -> None:
    """Cover a length by whole pieces and then by edge pieces, the last of which may be short.

    Pointers move by their stride for each unit of the length.
    """
    size, edge = sizes
    rounds = w.value(f"udiv i64 {length}, {size}")
    left = w.value(f"urem i64 {length}, {size}")

    def whole() -> None:
        moves = [w.value(f"mul i64 {stride}, {size}") for stride in strides]

        def round_(_: str, at: list[str]) -> list[str]:
            body(False, at, str(size))
            return [w.advance(p, move) for p, move in zip(at, moves, strict=True)]

        w.loop(rounds, [("ptr", pointer) for pointer in starts], round_)

    def edges() -> None:
        done = w.value(f"sub i64 {length}, {left}")
        moves = [w.value(f"mul i64 {stride}, {edge}") for stride in strides]
        behind = [
            w.advance(start, w.value(f"mul i64 {stride}, {done}"))
            for start, stride in zip(starts, strides, strict=True)
        ]
        count = w.value(f"udiv i64 {w.value(f'add i64 {left}, {edge - 1}')}, {edge}")

        def round_(_: str, state: list[str]) -> list[str]:
            remaining, *at = state
            covered = w.value(f"call i64 @llvm.umin.i64(i64 {remaining}, i64 {edge})")
            body(True, at, covered)
            after = w.value(f"sub i64 {remaining}, {covered}")
            return [after, *(w.advance(p, move) for p, move in zip(at, moves, strict=True))]

        w.loop(count, [("i64", left), *(("ptr", pointer) for pointer in behind)], round_)

    w.when(w.value(f"icmp ne i64 {rounds}, 0"), whole)
    if size > 1:
        w.when(w.value(f"icmp ne i64 {left}, 0"), edges)


def _along_columns(tile: Tile, w: IRWriter, body: Piece) -> None:
    """Pointers into B and C move along the rows."""
    sizes = (tile.columns, tile.edge_vectors * tile.vector.lanes)
    item = str(tile.vector.item_bytes)
    _walk(w, number(w, "n"), sizes, ["%b", "%c"], [item, item], body)


def _along_rows(tile: Tile, w: IRWriter, body: Piece) -> None:
    """Pointers into A and C move down the columns."""
    strides = [stride_bytes(w, name, tile.vector) for name in ("lda", "ldc")]
    _walk(w, number(w, "m"), (tile.rows, tile.edge_rows), ["%a", "%c"], strides, body)


def _row_panel(tile: Tile, low: bool) -> str:
    """A strip of rows against all columns."""
    w = IRWriter()

    def piece(right: bool, at: list[str], width: str) -> None:
        call(w, tile_name(low, right), ["%a", *at], "%height", width)

    _along_columns(tile, w, piece)
    return _inner(w, f"void {_panel_name('rows', low)}({PARAMETERS})")


def _column_panel(tile: Tile, right: bool) -> str:
    """A strip of columns against all rows."""
    w = IRWriter()

    def piece(low: bool, at: list[str], height: str) -> None:
        call(w, tile_name(low, right), [at[0], "%b", at[1]], height, "%width")

    _along_rows(tile, w, piece)
    return _inner(w, f"void {_panel_name('columns', right)}({PARAMETERS})")


def _block_function(tile: Tile) -> str:
    """All of C for one block of K, in strips of the order that was asked for."""
    w = IRWriter()
    columns_first = w.value(f"icmp ne i64 {number(w, 'columns_first')}, 0")

    def column_strip(right: bool, at: list[str], width: str) -> None:
        call(w, _panel_name("columns", right), ["%a", *at], "0", width)

    def row_strip(low: bool, at: list[str], height: str) -> None:
        call(w, _panel_name("rows", low), [at[0], "%b", at[1]], height, "0")

    w.when(columns_first, lambda: _along_columns(tile, w, column_strip))
    rows_first = w.value(f"xor i1 {columns_first}, true")
    w.when(rows_first, lambda: _along_rows(tile, w, row_strip))
    return _inner(w, f"void @block({PARAMETERS})")


def _entry_function(tile: Tile) -> str:
    """Blocks of K, outermost; the first one overwrites C and the others add to it."""
    w, item = IRWriter(), tile.vector.item_bytes
    a, b, c = (slot(w, at) for at in range(3))
    k, wanted = number(w, "k"), number(w, "k_block")
    whole = w.value(f"icmp eq i64 {wanted}, 0")
    size = w.value(f"select i1 {whole}, i64 {k}, i64 {wanted}")
    up = w.value(f"add i64 {k}, {size}")
    blocks = w.value(f"udiv i64 {w.value(f'sub i64 {up}, 1')}, {size}")
    b_move = w.value(f"mul i64 {stride_bytes(w, 'ldb', tile.vector)}, {size}")
    a_move = w.value(f"mul i64 {size}, {item}")

    def body(counter: str, at: list[str]) -> list[str]:
        left = w.value(f"sub i64 {k}, {w.value(f'mul i64 {counter}, {size}')}")
        depth = w.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {size})")
        add = w.value(f"icmp ne i64 {counter}, 0")
        w.emit(
            f"call void @block(ptr {at[0]}, ptr {at[1]}, ptr {c}, i64 {depth}, i1 {add}, "
            "i64 0, i64 0, ptr %slots)"
        )
        return [w.advance(at[0], a_move), w.advance(at[1], b_move)]

    w.loop(blocks, [("ptr", a), ("ptr", b)], body)
    w.emit("ret void")
    return function(w, KERNEL, 64)
