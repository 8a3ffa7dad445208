"""One block of rows against one block of B, tile by tile, as LLVM IR."""

from __future__ import annotations

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
            have = w.least(w.sub("%n", w.mul(number, width)), width)
            wide = w.value(f"icmp eq i64 {have}, {width}")
            panel, ldb = self._panel(b, have, wide)
            self._rows([c, *extras], panel, ldb, have, wide)
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

    def _panel(self, b: str, have: str, wide: str) -> tuple[str, str]:
        """Where a tile reads B, and its stride from step to step."""
        w = self.w
        if self.recipe.pack_b:
            return b, self.b_line
        w.when(
            w.value(f"xor i1 {wide}, true"),
            lambda: self._pack("b", b, "%packed_b", have),
        )
        pointer = w.value(f"select i1 {wide}, ptr {b}, ptr %packed_b")
        return pointer, w.value(f"select i1 {wide}, i64 {self.b_row}, i64 {self.b_line}")

    def _pack(self, name: str, source: str, target: str, have: str) -> None:
        """One panel that is not whole."""
        along, down = (self.a_row, self.a_col) if name == "a" else (self.b_col, self.b_row)
        self.w.emit(
            f"call void @pack_{name}(ptr {source}, ptr {target}, i64 {have}, i64 %depth, "
            f"i64 {along}, i64 {down}, i64 0)"
        )

    def _rows(self, written: list[str], b: str, ldb: str, have_n: str, wide: str) -> None:
        w, height = self.w, self.recipe.rows

        def rows(number: str, at: list[str]) -> list[str]:
            a, packed, *here = at
            have = w.least(w.sub("%m", w.mul(number, height)), height)
            high = w.value(f"icmp eq i64 {have}, {height}")
            full = w.value(f"and i1 {wide}, {high}")
            w.either(
                full,
                lambda: self._tile(a, packed, b, ldb, here),
                lambda: self._edge(a, packed, b, ldb, here, (have, have_n, high)),
            )
            moved = [w.advance(a, w.mul(self.a_row, height)), w.advance(packed, self.a_panel)]
            strides = [self.c_row, *self.strides]
            pairs = zip(here, strides, strict=True)
            return [*moved, *(w.advance(p, w.mul(stride, height)) for p, stride in pairs)]

        starts = [("ptr", start) for start in ("%a", "%packed", *written)]
        w.loop(w.rounds("%m", height), starts, rows)

    def _tile(self, a: str, packed: str, b: str, ldb: str, written: list[str]) -> None:
        """A whole one, straight into C."""
        c, *extras = written
        given = self.recipe.extra_arguments(extras, self.strides)
        self._call(*self._source(a, packed), b, ldb, f"ptr {c}", self.ldc, "%add", "%last", given)

    def _source(self, a: str, packed: str) -> tuple[str, str, str]:
        """Which tile reads A, where, and its stride."""
        if self.recipe.pack_a:
            return "packed", packed, self.a_line
        return ("packed", a, self.a_col) if self.recipe.upright else ("direct", a, self.a_row)

    def _edge(
        self,
        a: str,
        packed: str,
        b: str,
        ldb: str,
        written: list[str],
        have: tuple[str, str, str],
    ) -> None:
        """What there is of a tile: rows, columns, and whether it has all its rows."""
        w, recipe = self.w, self.recipe
        have_m, have_n, high = have
        line = str(recipe.line * recipe.vector.item_bytes)
        nowhere = recipe.extra_arguments(["null"] * recipe.extras, ["0"] * recipe.extras)

        def through(kind: str, source: str, lda: str) -> None:
            self._call(kind, source, lda, b, ldb, "ptr %tile", line, "false", "false", nowhere)

        def missing_rows() -> None:
            self._pack("a", a, "%packed", have_m)
            through("packed", "%packed", self.a_line)

        if recipe.pack_a:
            through(*self._source(a, packed))
        else:
            w.either(high, lambda: through(*self._source(a, packed)), missing_rows)
        c, *extras = written
        w.emit(
            f"call void @edge(ptr %tile, ptr {c}, i64 {self.ldc}, i64 {have_m}, i64 {have_n}, "
            f"i1 %add, i1 %last{recipe.extra_arguments(extras, self.strides)})"
        )

    def _call(
        self,
        kind: str,
        a: str,
        lda: str,
        b: str,
        ldb: str,
        c: str,
        ldc: str,
        add: str,
        last: str,
        extras: str,
    ) -> None:
        self.w.emit(
            f"call void @tile_{kind}(ptr {a}, ptr {b}, {c}, i64 {lda}, i64 {ldb}, i64 {ldc}, "
            f"i64 %depth, i1 {add}, i1 {last}{extras})"
        )
