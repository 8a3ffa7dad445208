"""The loops of a packed matrix product over its cache blocks, and over the tiles of a block."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native import function
from skipjack.solvers.cpu.gemm.product import SlotWriter
from skipjack.solvers.cpu.gemm.tile import PackedRecipe

# One block of rows against one block of B, tile by tile.


def internal_function(w: SlotWriter, signature: str) -> tuple[str, set[str]]:
    """A finished internal function, and the declarations that it needs."""
    w.emit("ret void")
    return function(w, signature, 64, linkage="internal", attributes="noinline"), w.declarations


def block_function(recipe: PackedRecipe) -> tuple[str, set[str]]:
    """The function ``@block``, and the declarations that it needs."""
    return _Block(recipe).text()


@dataclass(frozen=True, slots=True)
class _Source:
    """The rows of A of a tile: which function reads them, their address and stride."""

    tile: str
    pointer: str
    stride: str


@dataclass(frozen=True, slots=True)
class _Panel:
    """The columns of B of a tile: address, stride between steps, how many, whether all."""

    pointer: str
    stride: str
    have: str
    whole: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of A of a tile in place: address, how many, whether all."""

    a: str
    have: str
    whole: str


class _Block:
    """Goes through the panels of columns, and in each through the tiles.

    A tile always reads all of its rows and columns. If some are missing, the others are packed
    first, and the result is written to a buffer and copied from there.
    """

    def __init__(self, recipe: PackedRecipe) -> None:
        self.recipe, self.w = recipe, SlotWriter()
        w, item = self.w, recipe.vector.item_bytes
        self.a_row, self.a_col, self.b_row, self.b_col, self.c_row, self.c_col = (
            w.bytes(name, recipe)
            for name in ("a_row", "a_col", "b_row", "b_col", "out_row", "out_col")
        )
        self.ldc = self.c_col if recipe.transposed else self.c_row
        self.a_line, self.b_line = str(recipe.rows * item), str(recipe.columns * item)
        self.a_panel = w.mul("%depth", self.a_line)
        self.b_panel = w.mul("%depth", self.b_line)
        self.strides = [f"%s{number}" for number in range(recipe.extras)]

    def text(self) -> tuple[str, set[str]]:
        w, recipe = self.w, self.recipe
        item, width = recipe.vector.item_bytes, recipe.columns

        def columns(number: str, at: list[str]) -> list[str]:
            b, c, *extras = at
            self._rows([c, *extras], self._panel(number, b))
            b_move = self.b_panel if recipe.pack_b else self.b_line
            moved = [w.advance(b, b_move), w.advance(c, w.mul(self.c_col, width))]
            return [*moved, *(w.advance(extra, width * item) for extra in extras)]

        extras = [f"%e{number}" for number in range(recipe.extras)]
        starts = [("ptr", start) for start in ("%b", "%c", *extras)]
        w.loop(w.rounds("%n", width), starts, columns)
        parameters = (
            "ptr %a, ptr %packed, ptr %b, ptr %packed_b, ptr %c, ptr %tile, i64 %m, i64 %n, "
            "i64 %depth, i1 %add, i1 %last, ptr %slots" + recipe.extra_parameters()
        )
        return internal_function(w, f"void @block({parameters})")

    def _panel(self, number: str, b: str) -> _Panel:
        """Where tiles read their columns of B: in place, or packed if some are missing."""
        w, width = self.w, self.recipe.columns
        have = w.least(w.sub("%n", w.mul(number, width)), width)
        whole = w.value(f"icmp eq i64 {have}, {width}")
        if self.recipe.pack_b:
            return _Panel(b, self.b_line, have, whole)
        w.when(
            w.value(f"xor i1 {whole}, true"),
            lambda: self._pack("b", b, "%packed_b", have),
        )
        pointer = w.value(f"select i1 {whole}, ptr {b}, ptr %packed_b")
        stride = w.value(f"select i1 {whole}, i64 {self.b_row}, i64 {self.b_line}")
        return _Panel(pointer, stride, have, whole)

    def _pack(self, name: str, source: str, target: str, have: str) -> None:
        """Pack a panel that is not whole."""
        along, down = (self.a_row, self.a_col) if name == "a" else (self.b_col, self.b_row)
        self.w.emit(
            f"call void @pack_{name}(ptr {source}, ptr {target}, i64 {have}, i64 %depth, "
            f"i64 {along}, i64 {down}, i64 0)"
        )

    def _rows(self, written: list[str], panel: _Panel) -> None:
        """The tiles of a panel; whole ones write to C, those at the edge to a buffer."""
        w, height = self.w, self.recipe.rows

        def rows(number: str, at: list[str]) -> list[str]:
            a, packed, *here = at
            have = w.least(w.sub("%m", w.mul(number, height)), height)
            high = w.value(f"icmp eq i64 {have}, {height}")
            full = w.value(f"and i1 {panel.whole}, {high}")
            source = self._source(a, packed)
            given = self.recipe.extra_arguments(here[1:], self.strides)
            w.either(
                full,
                lambda: self._tile(source, panel, here[0], self.ldc, f"i1 %add, i1 %last{given}"),
                lambda: self._edge(source, panel, here, _Rows(a, have, high)),
            )
            moved = [w.advance(a, w.mul(self.a_row, height)), w.advance(packed, self.a_panel)]
            pairs = zip(here, [self.c_row, *self.strides], strict=True)
            return [*moved, *(w.advance(p, w.mul(stride, height)) for p, stride in pairs)]

        starts = [("ptr", start) for start in ("%a", "%packed", *written)]
        w.loop(w.rounds("%m", height), starts, rows)

    def _source(self, a: str, packed: str) -> _Source:
        """Which tile function reads A, its address and stride."""
        if self.recipe.pack_a:
            return _Source("packed", packed, self.a_line)
        if self.recipe.a_by_columns:
            return _Source("packed", a, self.a_col)
        return _Source("direct", a, self.a_row)

    def _edge(self, source: _Source, panel: _Panel, written: list[str], rows: _Rows) -> None:
        """Compute a tile at the edge in a buffer, and copy the part inside C."""
        w, recipe = self.w, self.recipe
        line = str(recipe.line * recipe.vector.item_bytes)
        nowhere = recipe.extra_arguments(["null"] * recipe.extras, ["0"] * recipe.extras)

        def through(source: _Source) -> None:
            self._tile(source, panel, "%tile", line, f"i1 false, i1 false{nowhere}")

        def missing_rows() -> None:
            self._pack("a", rows.a, "%packed", rows.have)
            through(_Source("packed", "%packed", self.a_line))

        if recipe.pack_a:
            through(source)
        else:
            w.either(rows.whole, lambda: through(source), missing_rows)
        c, *extras = written
        w.emit(
            f"call void @edge(ptr %tile, ptr {c}, i64 {self.ldc}, i64 {rows.have}, "
            f"i64 {panel.have}, i1 %add, i1 %last{recipe.extra_arguments(extras, self.strides)})"
        )

    def _tile(self, source: _Source, panel: _Panel, c: str, ldc: str, rest: str) -> None:
        """Call a tile function."""
        self.w.emit(
            f"call void @tile_{source.tile}(ptr {source.pointer}, ptr {panel.pointer}, ptr {c}, "
            f"i64 {source.stride}, i64 {panel.stride}, i64 {ldc}, i64 %depth, {rest})"
        )


# The loops over blocks.

_PAGE = 4096


def whole_pages(size: int) -> int:
    """A size rounded up to whole pages."""
    return -(-size // _PAGE) * _PAGE


def multiply_function(recipe: PackedRecipe) -> tuple[str, set[str]]:
    """The function for one matrix product (or a thread's part of one)."""
    return _Multiply(recipe).text()


@dataclass(frozen=True, slots=True)
class _BlockStep:
    """One block of columns and of K."""

    n: str
    depth: str
    """Steps of each slice."""
    slices: str
    add: str
    last: str


class _Multiply:
    """Blocks of columns, slices of K, blocks of K (B is packed), blocks of rows (A is packed)."""

    def __init__(self, recipe: PackedRecipe) -> None:
        self.recipe, self.w = recipe, SlotWriter()
        w = self.w
        self.blocks = {letter: w.number(f"{letter}_block") for letter in "mkn"}
        self.k, self.slices = w.number("k"), w.number("slices")
        self.slice_block = w.number("slice_block")
        self.stride = {
            name: w.bytes(name, recipe)
            for name in (
                *("a_row", "a_col", "a_slice", "a_group"),
                *("b_row", "b_col", "b_slice"),
                *("out_row", "out_col", "out_group"),
            )
        }
        self.extra_strides = [f"%s{number}" for number in range(recipe.extras)]
        self.packed_b = w.advance("%workspace", whole_pages(recipe.tile_bytes))
        panels = w.rounds(self.blocks["n"], recipe.columns) if recipe.pack_b else "1"
        columns = w.mul(panels, recipe.columns)
        depth = w.mul(self.blocks["k"], self.slice_block)
        b_bytes = w.mul(w.mul(depth, columns), recipe.vector.item_bytes)
        self.packed_a = w.advance(self.packed_b, w.mul(w.rounds(b_bytes, _PAGE), _PAGE))
        self.accumulate = w.is_more(w.number("accumulate"))

    def text(self) -> tuple[str, set[str]]:
        w, n_block = self.w, self.blocks["n"]

        def columns(jc: str, at: list[str]) -> list[str]:
            n = w.least(w.sub("%n", w.mul(jc, n_block)), n_block)
            self._slices(at, n)
            item = str(self.recipe.vector.item_bytes)
            strides = [self.stride["b_col"], self.stride["out_col"], *[item] * self.recipe.extras]
            pairs = zip(at, strides, strict=True)
            return [w.advance(p, w.mul(n_block, stride)) for p, stride in pairs]

        extras = [f"%e{number}" for number in range(self.recipe.extras)]
        w.loop(w.rounds("%n", n_block), [("ptr", p) for p in ("%b", "%c", *extras)], columns)
        parameters = (
            "ptr %a, ptr %b, ptr %c, ptr %workspace, i64 %groups, i64 %m, i64 %n, ptr %slots"
            + self.recipe.extra_parameters()
        )
        return internal_function(w, f"void @multiply({parameters})")

    def _slices(self, at: list[str], n: str) -> None:
        w, block = self.w, self.slice_block
        b, *written = at

        def slices(number: str, here: list[str]) -> list[str]:
            left = w.sub(self.slices, w.mul(number, block))
            count = w.least(left, block)
            last = w.value(f"icmp ule i64 {left}, {block}")
            add = w.value(f"or i1 {self.accumulate}, {w.is_more(number)}")
            self._steps(here, written, _BlockStep(n, "", count, add, last))
            moves = (w.mul(self.stride[f"{name}_slice"], block) for name in "ab")
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop(w.rounds(self.slices, block), [("ptr", "%a"), ("ptr", b)], slices)

    def _steps(self, at: list[str], written: list[str], whole: _BlockStep) -> None:
        """Blocks of K of some slices: a part of one slice, or all of several slices."""
        w, k_block = self.w, self.blocks["k"]

        def steps(number: str, here: list[str]) -> list[str]:
            _, b = here
            left = w.sub(self.k, w.mul(number, k_block))
            depth = w.least(left, k_block)
            adds = w.value(f"or i1 {whole.add}, {w.is_more(number)}")
            ends = w.value(f"and i1 {whole.last}, {w.value(f'icmp ule i64 {left}, {k_block}')}")
            step = _BlockStep(whole.n, depth, whole.slices, adds, ends)
            if self.recipe.pack_b:
                self._pack("b", b, step.n, step)
            self._groups(here, written, step)
            moves = (w.mul(self.stride[name], k_block) for name in ("a_col", "b_row"))
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop(w.rounds(self.k, k_block), [("ptr", pointer) for pointer in at], steps)

    def _groups(self, read: list[str], written: list[str], step: _BlockStep) -> None:
        w = self.w
        (a, b), (c, *extras) = read, written

        def group(_: str, here: list[str]) -> list[str]:
            self._rows([here[0], b], [here[1], *extras], step)
            moves = (self.stride["a_group"], self.stride["out_group"])
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop("%groups", [("ptr", a), ("ptr", c)], group)

    def _rows(self, read: list[str], written: list[str], step: _BlockStep) -> None:
        a, b = read
        w, m_block = self.w, self.blocks["m"]
        depth = w.mul(step.depth, step.slices)

        def rows(number: str, here: list[str]) -> list[str]:
            a_here, c, *extras = here
            m = w.least(w.sub("%m", w.mul(number, m_block)), m_block)
            if self.recipe.pack_a:
                self._pack("a", a_here, m, step)
            w.emit(
                f"call void @block(ptr {a_here}, ptr {self.packed_a}, "
                f"ptr {self.packed_b if self.recipe.pack_b else b}, ptr {self.packed_b}, "
                f"ptr {c}, ptr %workspace, i64 {m}, i64 {step.n}, i64 {depth}, "
                f"i1 {step.add}, i1 {step.last}, "
                f"ptr %slots{self.recipe.extra_arguments(extras, self.extra_strides)})"
            )
            strides = [self.stride["a_row"], self.stride["out_row"], *self.extra_strides]
            pairs = zip(here, strides, strict=True)
            return [w.advance(p, w.mul(stride, m_block)) for p, stride in pairs]

        w.loop(w.rounds("%m", m_block), [("ptr", pointer) for pointer in (a, *written)], rows)

    def _pack(self, name: str, source: str, count: str, step: _BlockStep) -> None:
        """Pack a block of A or B; the slices follow each other in each panel."""
        w, recipe = self.w, self.recipe
        target, size = (
            (self.packed_a, recipe.rows) if name == "a" else (self.packed_b, recipe.columns)
        )
        along, down = (self.stride[f"{name}_{axis}"] for axis in ("row", "col"))
        if name == "b":
            along, down = down, along
        part = w.mul(step.depth, size * recipe.vector.item_bytes)
        panel = w.mul(part, step.slices)

        def one(_: str, at: list[str]) -> list[str]:
            w.emit(
                f"call void @pack_{name}(ptr {at[0]}, ptr {at[1]}, i64 {count}, i64 {step.depth}, "
                f"i64 {along}, i64 {down}, i64 {panel})"
            )
            return [w.advance(at[0], self.stride[f"{name}_slice"]), w.advance(at[1], part)]

        w.loop(step.slices, [("ptr", source), ("ptr", target)], one)
