"""One block of rows against one block of B, tile by tile, as LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import function
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.packed_slots import SlotWriter


def internal(w: SlotWriter, signature: str) -> tuple[str, set[str]]:
    """A finished function that the others of its module call."""
    w.emit("ret void")
    return function(w, signature, 64, linkage="internal", attributes="noinline"), w.declarations


def block(recipe: Recipe) -> tuple[str, set[str]]:
    """The function ``@block``, and the declarations that it needs."""
    return _Block(recipe).text()


@dataclass(frozen=True, slots=True)
class _Source:
    """A tile's rows of A: which function reads them, where, and their stride."""

    tile: str
    pointer: str
    stride: str


@dataclass(frozen=True, slots=True)
class _Panel:
    """A tile's columns of B: where they are, the stride of steps, how many, whether all."""

    pointer: str
    stride: str
    have: str
    whole: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """A tile's rows of A where they lie: how many there are, whether all."""

    a: str
    have: str
    whole: str


class _Block:
    """Panels of columns, and down each of them the tiles.

    Tiles read all of their rows and columns. Where some are missing, those that are there are
    packed for them, and the result goes through memory of its own.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.w = recipe, SlotWriter()
        w, item = self.w, recipe.vector.item_bytes
        self.a_row, self.a_col, self.b_row, self.b_col, self.c_row, self.c_col = (
            w.bytes(name, recipe)
            for name in ("a_row", "a_col", "b_row", "b_col", "out_row", "out_col")
        )
        self.ldc = self.c_col if recipe.turned else self.c_row
        self.a_line, self.b_line = str(recipe.rows * item), str(recipe.columns * item)
        self.a_panel = w.mul("%depth", self.a_line)
        self.b_panel = w.mul("%depth", self.b_line)
        self.strides = [f"%s{number}" for number in range(recipe.extras)]

    def text(self) -> tuple[str, set[str]]:
        """The function, and the declarations that it needs."""
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
        return internal(w, f"void @block({parameters})")

    def _panel(self, number: str, b: str) -> _Panel:
        """Where tiles read their columns of B."""
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
        """One panel that is not whole."""
        along, down = (self.a_row, self.a_col) if name == "a" else (self.b_col, self.b_row)
        self.w.emit(
            f"call void @pack_{name}(ptr {source}, ptr {target}, i64 {have}, i64 %depth, "
            f"i64 {along}, i64 {down}, i64 0)"
        )

    def _rows(self, written: list[str], panel: _Panel) -> None:
        """Tiles down a panel; straight into C, or over its edge."""
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
        """Which tile reads A, where, and its stride."""
        if self.recipe.pack_a:
            return _Source("packed", packed, self.a_line)
        if self.recipe.upright:
            return _Source("packed", a, self.a_col)
        return _Source("direct", a, self.a_row)

    def _edge(self, source: _Source, panel: _Panel, written: list[str], rows: _Rows) -> None:
        """What there is of a tile, by way of memory of its own."""
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
        """All of a tile."""
        self.w.emit(
            f"call void @tile_{source.tile}(ptr {source.pointer}, ptr {panel.pointer}, ptr {c}, "
            f"i64 {source.stride}, i64 {panel.stride}, i64 {ldc}, i64 %depth, {rest})"
        )
