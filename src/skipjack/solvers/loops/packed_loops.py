"""The loops of a packed matrix product over its blocks as LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.solvers.loops.packed_block import internal
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.packed_slots import SlotWriter

_PAGE = 4096


def pages(size: int) -> int:
    """Whole pages, in bytes."""
    return -(-size // _PAGE) * _PAGE


def multiply(recipe: Recipe) -> tuple[str, set[str]]:
    """One matrix product (or a thread's part of one): the loops over blocks."""
    return _Multiply(recipe).text()


@dataclass(frozen=True, slots=True)
class _Step:
    """One block of columns and of K."""

    n: str
    depth: str
    """Steps of a slice."""
    slices: str
    add: str
    last: str


class _Multiply:
    """Blocks of columns, slices of K, blocks of K (B is packed), blocks of rows (A is packed)."""

    def __init__(self, recipe: Recipe) -> None:
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
        self.packed_b = w.advance("%workspace", pages(recipe.tile_bytes))
        panels = w.rounds(self.blocks["n"], recipe.columns) if recipe.pack_b else "1"
        columns = w.mul(panels, recipe.columns)
        depth = w.mul(self.blocks["k"], self.slice_block)
        b_bytes = w.mul(w.mul(depth, columns), recipe.vector.item_bytes)
        self.packed_a = w.advance(self.packed_b, w.mul(w.rounds(b_bytes, _PAGE), _PAGE))
        self.accumulate = w.is_more(w.number("accumulate"))

    def text(self) -> tuple[str, set[str]]:
        """The function, and the declarations that it needs."""
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
        return internal(w, f"void @multiply({parameters})")

    def _slices(self, at: list[str], n: str) -> None:
        w, block = self.w, self.slice_block
        b, *written = at

        def slices(number: str, here: list[str]) -> list[str]:
            left = w.sub(self.slices, w.mul(number, block))
            count = w.least(left, block)
            last = w.value(f"icmp ule i64 {left}, {block}")
            add = w.value(f"or i1 {self.accumulate}, {w.is_more(number)}")
            self._steps(here, written, _Step(n, "", count, add, last))
            moves = (w.mul(self.stride[f"{name}_slice"], block) for name in "ab")
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop(w.rounds(self.slices, block), [("ptr", "%a"), ("ptr", b)], slices)

    def _steps(self, at: list[str], written: list[str], whole: _Step) -> None:
        """Blocks of K of some slices: a part of each, or all of several."""
        w, k_block = self.w, self.blocks["k"]

        def steps(number: str, here: list[str]) -> list[str]:
            _, b = here
            left = w.sub(self.k, w.mul(number, k_block))
            depth = w.least(left, k_block)
            adds = w.value(f"or i1 {whole.add}, {w.is_more(number)}")
            ends = w.value(f"and i1 {whole.last}, {w.value(f'icmp ule i64 {left}, {k_block}')}")
            step = _Step(whole.n, depth, whole.slices, adds, ends)
            if self.recipe.pack_b:
                self._pack("b", b, step.n, step)
            self._groups(here, written, step)
            moves = (w.mul(self.stride[name], k_block) for name in ("a_col", "b_row"))
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop(w.rounds(self.k, k_block), [("ptr", pointer) for pointer in at], steps)

    def _groups(self, read: list[str], written: list[str], step: _Step) -> None:
        w = self.w
        (a, b), (c, *extras) = read, written

        def group(_: str, here: list[str]) -> list[str]:
            self._rows([here[0], b], [here[1], *extras], step)
            moves = (self.stride["a_group"], self.stride["out_group"])
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        w.loop("%groups", [("ptr", a), ("ptr", c)], group)

    def _rows(self, read: list[str], written: list[str], step: _Step) -> None:
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

    def _pack(self, name: str, source: str, count: str, step: _Step) -> None:
        """A block of A or B, slice behind slice in each panel."""
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
