"""Matrix products by a micro-kernel that takes sizes and strides as arguments.

One object serves every shape: a register tile, its three edge tiles, and a small driver that runs
over C in either order and over K in blocks. The kernel is called as ``void @kernel(ptr slots)``
with the slots named in `SLOTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, IRWriter, VectorType, function, registers_of
from skipjack.solvers.cpu.gemm.microkernel_tile import (
    PARAMETERS,
    MicrokernelTile,
    call,
    number,
    stride_bytes,
    tile_function,
    tile_name,
)
from skipjack.solvers.cpu.ir import KERNEL, LlvmSolver, slot
from skipjack.solvers.solver import Slot, Source

# The driver.

Piece = Callable[[bool, list[str], str], None]
"""Writes one part of a length: whether it is an edge, the pointers, how much it covers."""


def generate(tile: MicrokernelTile) -> str:
    declarations = {"declare i64 @llvm.umin.i64(i64, i64)"}
    # A strip of one row has no lower edge, but a strip of columns may have a right edge.
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


def _cover(
    w: IRWriter,
    length: str,
    sizes: tuple[int, int],
    starts: list[str],
    strides: list[str],
    body: Piece,
) -> None:
    """Cover a length by whole tiles and then by edge tiles, the last of which may be partial.

    Pointers move by their stride per unit of the length.
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


def _along_columns(tile: MicrokernelTile, w: IRWriter, body: Piece) -> None:
    """Pointers into B and C move along the rows."""
    sizes = (tile.columns, tile.edge_vectors * tile.vector.lanes)
    item = str(tile.vector.item_bytes)
    _cover(w, number(w, "n"), sizes, ["%b", "%c"], [item, item], body)


def _along_rows(tile: MicrokernelTile, w: IRWriter, body: Piece) -> None:
    """Pointers into A and C move down the columns."""
    strides = [stride_bytes(w, name, tile.vector) for name in ("lda", "ldc")]
    _cover(w, number(w, "m"), (tile.rows, tile.edge_rows), ["%a", "%c"], strides, body)


def _row_panel(tile: MicrokernelTile, low: bool) -> str:
    """A strip of rows against all columns."""
    w = IRWriter()

    def piece(right: bool, at: list[str], width: str) -> None:
        call(w, tile_name(low, right), ["%a", *at], "%height", width)

    _along_columns(tile, w, piece)
    return _inner(w, f"void {_panel_name('rows', low)}({PARAMETERS})")


def _column_panel(tile: MicrokernelTile, right: bool) -> str:
    """A strip of columns against all rows."""
    w = IRWriter()

    def piece(low: bool, at: list[str], height: str) -> None:
        call(w, tile_name(low, right), [at[0], "%b", at[1]], height, "%width")

    _along_rows(tile, w, piece)
    return _inner(w, f"void {_panel_name('columns', right)}({PARAMETERS})")


def _block_function(tile: MicrokernelTile) -> str:
    """All of C for one block of K, in strips of rows or of columns."""
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


def _entry_function(tile: MicrokernelTile) -> str:
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


# The solver: few builds for every shape.

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_VECTORS = (1, 2, 3, 4, 5, 6)


class MicrokernelSolver(LlvmSolver):
    """Builds the tile; sets the order of the loops and the blocks of K at run time."""

    name = "microkernel"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts the plain matmul on CPUs."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        plain = problem.operation == "matmul" and not problem.attributes
        return "" if plain else "it only supports the plain matmul"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        m, n, k = problem.shape
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        registers = registers_of(device)
        blocks = (0, *(size for size in (64, 128, 256, 512) if size < k))
        return ParameterSpace(
            [
                Parameter("rows", tuple(r for r in _ROWS if r == 1 or r <= m), default=min(4, m)),
                Parameter("vectors", _VECTORS, default=2),
                Parameter("unroll", (1, 2, 4), default=1),
                Parameter("columns_first", (False, True), default=False, stage="run"),
                Parameter("k_block", blocks, default=0, stage="run"),
            ],
            [f"rows * vectors + vectors + 1 <= {registers}"],
            order=lambda config: _estimate(config, _tile(config, problem.dtype, lanes), m, n),
        )

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The code does not depend on the shape."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        tile = _tile(config, problem.dtype, lanes)
        return self.source(generate(tile), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        m, n, k = problem.shape
        settings = (int(config["columns_first"]), int(config["k_block"]))
        return ["a", "b", "out", m, n, k, k, n, n, *settings]


def _tile(config: Config, dtype: str, lanes: int) -> MicrokernelTile:
    return MicrokernelTile(
        rows=int(config["rows"]),
        vectors=int(config["vectors"]),
        unroll=int(config["unroll"]),
        vector=VectorType(dtype, lanes),
    )


def _estimate(config: Config, tile: MicrokernelTile, m: int, n: int) -> float:
    """Relative time by arithmetic alone: idle parts of tiles, loads per multiply-add, and
    latency."""
    rows, vectors = tile.rows, tile.vectors
    edge_columns = tile.edge_vectors * tile.vector.lanes
    covered = _covered(m, rows, tile.edge_rows) * _covered(n, tile.columns, edge_columns)
    loads = 1.0 + 0.15 * (rows + vectors) / (rows * vectors)
    latency = max(1.0, 10.0 / (rows * vectors))
    blocked = 0.002 * bool(config["k_block"]) + 0.001 * bool(config["columns_first"])
    return covered / (m * n) * loads * latency + blocked + 0.0001 * int(config["unroll"])


def _covered(length: int, size: int, edge: int) -> int:
    """The length that whole tiles and then edge tiles compute, idle parts included."""
    left = length % size
    return length - left + -(-left // edge) * edge
