"""A matmul micro-kernel and its driver as LLVM IR, with sizes and strides as arguments.

One object serves every shape: a register tile of ``rows x vectors``, the narrower tiles that tails
need, and a small driver that walks over C in either order and over K in blocks. A kernel is called
as ``void @kernel(ptr slots)`` with the slots named in `SLOTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skipjack.native.ir import Carried, IRWriter, VectorType, function

SLOTS = ("a", "b", "out", "m", "n", "k", "lda", "ldb", "ldc", "columns_first", "k_block")
"""Pointers, sizes and strides in elements; `columns_first` is 0 or 1; a `k_block` of 0 means K."""


@dataclass(frozen=True, slots=True)
class Tile:
    """What is built: the register tile, and how many steps of k one round of the loop takes."""

    rows: int
    vectors: int
    unroll: int
    vector: VectorType

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """The tile's rows, then ever smaller ones for the tail."""
        return _halves(self.rows)

    @property
    def column_sizes(self) -> tuple[int, ...]:
        """The same for vectors of columns."""
        return _halves(self.vectors)


def _halves(size: int) -> tuple[int, ...]:
    sizes = [size]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    return tuple(sizes)


def generate(tile: Tile) -> str:
    """The whole module."""
    declarations: set[str] = set()
    parts = []
    for rows in tile.row_sizes:
        for vectors in tile.column_sizes:
            parts.append(_TileFunction(tile, rows, vectors, masked=False).text(declarations))
        parts.append(_TileFunction(tile, rows, 1, masked=True).text(declarations))
        parts.append(_row_panel(tile, rows))
    for vectors in tile.column_sizes:
        parts.append(_column_panel(tile, vectors, masked=False))
    parts.append(_column_panel(tile, 1, masked=True))
    parts.append(_driver(tile))
    return "\n".join([*sorted(declarations), *parts])


def _tile_name(rows: int, vectors: int, masked: bool) -> str:
    return f"@tile_{rows}_{'rest' if masked else vectors}"


# A panel and a tile share this call: three pointers, K of this block, whether to add to C, the
# columns that a masked tile covers, and the slots for everything else.
_PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %depth, i1 %add, i64 %columns, ptr %slots"
)


def _slot(writer: IRWriter, name: str) -> str:
    at = writer.advance("%slots", 8 * SLOTS.index(name))
    return writer.value(f"load i64, ptr {at}, align 8")


def _bytes(writer: IRWriter, elements: str, item_bytes: int) -> str:
    return writer.value(f"mul i64 {elements}, {item_bytes}")


class _TileFunction:
    """``C[rows, columns] (+)= A[rows, depth] B[depth, columns]`` with all of C in registers."""

    def __init__(self, tile: Tile, rows: int, vectors: int, *, masked: bool) -> None:
        self.tile, self.rows, self.vectors, self.masked = tile, rows, vectors, masked
        self.vector = tile.vector
        self.w = IRWriter()

    def text(self, declarations: set[str]) -> str:
        """The function; intrinsics that it needs are added to the declarations."""
        w, item = self.w, self.vector.item_bytes
        self.mask = self._mask() if self.masked else None
        self.lda, self.ldb, self.ldc = (
            _bytes(w, _slot(w, name), item) for name in ("lda", "ldb", "ldc")
        )
        self.lda2 = w.value(f"shl i64 {self.lda}, 1")
        accumulators = self._reduce()
        self._store(accumulators)
        w.emit("ret void")
        declarations |= w.declarations
        name = _tile_name(self.rows, self.vectors, self.masked)
        bits = 8 * item * self.vector.lanes
        return function(
            w, f"void {name}({_PARAMETERS})", bits, linkage="internal", attributes="noinline"
        )

    def _mask(self) -> str:
        lanes = self.vector.lanes
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
        first = self.w.value(f"insertelement <{lanes} x i64> poison, i64 %columns, i64 0")
        limit = self.w.value(
            f"shufflevector <{lanes} x i64> {first}, <{lanes} x i64> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )
        return self.w.value(f"icmp ult <{lanes} x i64> {numbers}, {limit}")

    def _row_bases(self) -> list[str]:
        """A pointer for every third row; the two between are reached by lda and 2 lda.

        A pointer for each row would need more general registers than there are.
        """
        w = self.w
        lda3 = w.value(f"add i64 {self.lda}, {self.lda2}")
        bases = ["%a"]
        for _ in range(3, self.rows, 3):
            bases.append(w.advance(bases[-1], lda3))
        return bases

    def _row(self, bases: list[str], row: int) -> str:
        return self.w.advance(bases[row // 3], (0, self.lda, self.lda2)[row % 3])

    def _reduce(self) -> list[str]:
        w, item = self.w, self.vector.item_bytes
        # Tails are a small part of the work: unrolling them would only lengthen the build.
        main = self.rows == self.tile.rows and self.vectors == self.tile.vectors
        unroll = self.tile.unroll if main and not self.masked else 1
        bases = self._row_bases()
        zeros = [self.vector.constant(0.0)] * (self.rows * self.vectors)
        pointers: Carried = [("ptr", pointer) for pointer in [*bases, "%b"]]
        carried = [*pointers, *((self.vector.text, zero) for zero in zeros)]
        count = len(pointers)

        def rounds(steps: int) -> Callable[[str, list[str]], list[str]]:
            def body(_: str, state: list[str]) -> list[str]:
                rows, b, sums = state[: count - 1], state[count - 1], state[count:]
                for step in range(steps):
                    sums = self._step(rows, b, sums, step)
                    b = w.advance(b, self.ldb)
                return [*(w.advance(row, steps * item) for row in rows), b, *sums]

            return body

        if unroll == 1:
            return w.loop("%depth", carried, rounds(1))[count:]
        full = w.value(f"udiv i64 %depth, {unroll}")
        rest = w.value(f"urem i64 %depth, {unroll}")
        state = self._loop_or_skip(full, carried, rounds(unroll))
        kinds = [kind for kind, _ in carried]
        return self._loop_or_skip(rest, list(zip(kinds, state, strict=True)), rounds(1))[count:]

    def _loop_or_skip(
        self, count: str, carried: Carried, body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """A loop that may have no rounds."""
        w = self.w
        before, run, after = w.block, w.name("run"), w.name("join")
        some = w.value(f"icmp ne i64 {count}, 0")
        w.emit(f"br i1 {some}, label %{run}, label %{after}")
        w.open_block(run)
        results = w.loop(count, carried, body)
        ran = w.block
        w.emit(f"br label %{after}")
        w.open_block(after)
        return [
            w.value(f"phi {kind} [ {start}, %{before} ], [ {result}, %{ran} ]")
            for (kind, start), result in zip(carried, results, strict=True)
        ]

    def _step(self, rows: list[str], b: str, sums: list[str], step: int) -> list[str]:
        w, item = self.w, self.vector.item_bytes
        width = self.vector.lanes * item
        columns = [
            w.load(self.vector, w.advance(b, vector * width), self.mask)
            for vector in range(self.vectors)
        ]
        after = []
        for row in range(self.rows):
            element = w.broadcast(self.vector, w.advance(self._row(rows, row), step * item))
            for vector, column in enumerate(columns):
                before = sums[row * self.vectors + vector]
                after.append(w.call(self.vector, "fma", [element, column, before]))
        return after

    def _store(self, sums: list[str]) -> None:
        w = self.w
        width = self.vector.lanes * self.vector.item_bytes
        places = []
        pointer = "%c"
        for _ in range(self.rows):
            places += [w.advance(pointer, vector * width) for vector in range(self.vectors)]
            pointer = w.advance(pointer, self.ldc)
        add, plain = w.name("add"), w.name("plain")
        w.emit(f"br i1 %add, label %{add}, label %{plain}")
        w.open_block(add)
        for place, total in zip(places, sums, strict=True):
            before = w.load(self.vector, place, self.mask)
            both = w.value(f"fadd {self.vector.text} {before}, {total}")
            w.store(self.vector, both, place, self.mask)
        w.emit("ret void")
        w.open_block(plain)
        for place, total in zip(places, sums, strict=True):
            w.store(self.vector, total, place, self.mask)


def _walk(
    w: IRWriter,
    length: str,
    sizes: tuple[int, ...],
    starts: list[str],
    strides: list[str],
    body: Callable[[int, list[str]], None],
) -> tuple[str, list[str]]:
    """Cover `length` units by pieces of these sizes, largest first.

    Pointers move by their stride for each unit. Gives what is left and where the pointers stand.
    """
    pointers, left = starts, length
    for size in sizes:
        rounds = w.value(f"udiv i64 {left}, {size}")
        left = w.value(f"urem i64 {left}, {size}")
        moves = [w.value(f"mul i64 {stride}, {size}") for stride in strides]
        here = pointers

        def piece(
            size: int = size,
            rounds: str = rounds,
            here: list[str] = here,
            moves: list[str] = moves,
        ) -> None:
            def round_(_: str, at: list[str]) -> list[str]:
                body(size, at)
                return [w.advance(p, move) for p, move in zip(at, moves, strict=True)]

            w.loop(rounds, [("ptr", pointer) for pointer in here], round_)

        totals = [w.value(f"mul i64 {move}, {rounds}") for move in moves]
        w.when(w.value(f"icmp ne i64 {rounds}, 0"), piece)
        pointers = [w.advance(p, total) for p, total in zip(here, totals, strict=True)]
    return left, pointers


def _call(w: IRWriter, name: str, a: str, b: str, c: str, columns: str = "0") -> None:
    w.emit(
        f"call void {name}(ptr {a}, ptr {b}, ptr {c}, i64 %depth, i1 %add, "
        f"i64 {columns}, ptr %slots)"
    )


def _columns_walk(tile: Tile, w: IRWriter, body: Callable[[str, str, str, str], None]) -> None:
    """All columns: whole vectors first, then what is left under a mask.

    `body(suffix, b, c, columns)` is called for each width, its name's suffix first.
    """
    lanes, item = tile.vector.lanes, tile.vector.item_bytes
    n = _slot(w, "n")
    whole = w.value(f"udiv i64 {n}, {lanes}")
    rest = w.value(f"urem i64 {n}, {lanes}")
    width = str(lanes * item)
    _, (b, c) = _walk(
        w,
        whole,
        tile.column_sizes,
        ["%b", "%c"],
        [width, width],
        lambda size, at: body(str(size), at[0], at[1], "0"),
    )
    w.when(w.value(f"icmp ne i64 {rest}, 0"), lambda: body("rest", b, c, rest))


def _rows_walk(tile: Tile, w: IRWriter, body: Callable[[int, str, str], None]) -> None:
    """All rows; `body(rows, a, c)` is called for each height."""
    item = tile.vector.item_bytes
    lda, ldc = (_bytes(w, _slot(w, name), item) for name in ("lda", "ldc"))
    m = _slot(w, "m")
    _walk(w, m, tile.row_sizes, ["%a", "%c"], [lda, ldc], lambda size, at: body(size, *at))


def _row_panel(tile: Tile, rows: int) -> str:
    """A strip of rows against all columns."""
    w = IRWriter()
    _columns_walk(
        tile,
        w,
        lambda suffix, b, c, columns: _call(w, f"@tile_{rows}_{suffix}", "%a", b, c, columns),
    )
    w.emit("ret void")
    signature = f"void @rows_{rows}({_PARAMETERS})"
    return function(w, signature, 64, linkage="internal", attributes="noinline")


def _column_panel(tile: Tile, vectors: int, *, masked: bool) -> str:
    """A strip of columns against all rows."""
    w = IRWriter()
    suffix = "rest" if masked else str(vectors)
    _rows_walk(
        tile, w, lambda rows, a, c: _call(w, f"@tile_{rows}_{suffix}", a, "%b", c, "%columns")
    )
    w.emit("ret void")
    signature = f"void @columns_{suffix}({_PARAMETERS})"
    return function(w, signature, 64, linkage="internal", attributes="noinline")


def _driver(tile: Tile) -> str:
    """Blocks of K outermost, then strips in the order that was asked for."""
    return "\n".join((_block_function(tile), _entry_function(tile)))


def _block_function(tile: Tile) -> str:
    w = IRWriter()
    columns_first = w.value(f"icmp ne i64 {_slot(w, 'columns_first')}, 0")

    def by_columns() -> None:
        _columns_walk(
            tile, w, lambda suffix, b, c, n: _call(w, f"@columns_{suffix}", "%a", b, c, n)
        )

    def by_rows() -> None:
        _rows_walk(tile, w, lambda rows, a, c: _call(w, f"@rows_{rows}", a, "%b", c))

    w.when(columns_first, by_columns)
    w.when(w.value(f"xor i1 {columns_first}, true"), by_rows)
    w.emit("ret void")
    return function(w, f"void @block({_PARAMETERS})", 64, linkage="internal", attributes="noinline")


def _entry_function(tile: Tile) -> str:
    w, item = IRWriter(), tile.vector.item_bytes
    a, b, c = (
        w.value(f"load ptr, ptr {w.advance('%slots', 8 * slot)}, align 8") for slot in range(3)
    )
    k, wanted = _slot(w, "k"), _slot(w, "k_block")
    whole = w.value(f"icmp eq i64 {wanted}, 0")
    size = w.value(f"select i1 {whole}, i64 {k}, i64 {wanted}")
    up = w.value(f"add i64 {k}, {size}")
    blocks = w.value(f"udiv i64 {w.value(f'sub i64 {up}, 1')}, {size}")
    ldb = _bytes(w, _slot(w, "ldb"), item)
    b_move = w.value(f"mul i64 {ldb}, {size}")
    a_move = _bytes(w, size, item)

    def body(counter: str, at: list[str]) -> list[str]:
        left = w.value(f"sub i64 {k}, {w.value(f'mul i64 {counter}, {size}')}")
        depth = w.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {size})")
        add = w.value(f"icmp ne i64 {counter}, 0")
        w.emit(
            f"call void @block(ptr {at[0]}, ptr {at[1]}, ptr {c}, i64 {depth}, i1 {add}, "
            "i64 0, ptr %slots)"
        )
        return [w.advance(at[0], a_move), w.advance(at[1], b_move)]

    w.loop(blocks, [("ptr", a), ("ptr", b)], body)
    w.emit("ret void")
    entry = function(w, "void @kernel(ptr %slots)", 64)
    return f"declare i64 @llvm.umin.i64(i64, i64)\n{entry}"
