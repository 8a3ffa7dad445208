"""Code of the stages of a Winograd convolution: their slots, transposed tiles, and the products.

All stages of a round work on the same block: some rows of tiles of one image, or some whole
images, and some or all columns (channels of the output). Offsets and strides are in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skipjack.native import VectorType, function
from skipjack.solvers.cpu.gemm import PackedRecipe, TileFunction
from skipjack.solvers.cpu.ir import (
    KERNEL,
    WholeNumberWriter,
    run_or_call,
    share,
    slot,
    task_signature,
    transpose,
)

# Slots, and how the code of a stage reads them.

BLOCK = (
    *("parallel", "threads"),
    *("tile_round", "images", "rows", "parts", "n", "tile_rows", "tile_columns"),
    *("column_round", "column_block", "columns"),
)
"""The first slots of every stage. A round has `images` images, or `rows` rows of tiles, which are
one of the `parts` of an image.

The numbers of rounds count up; `columns` are in rounds of `column_block`.
"""
_POINTERS = ("source", "target", "parallel", "spare", "other")


@dataclass(frozen=True, slots=True)
class BlockOfTiles:
    """The values of the current round."""

    first_image: str
    images: str
    first_row: str
    rows: str
    count: str
    """The number of tiles."""


class StageWriter(WholeNumberWriter):
    """Writes the task of a stage, with slots by name."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names
        # Load all slots at the entry, so that every loop can use them; unused ones cost nothing.
        self._values = {name: self._load(number) for number, name in enumerate(names)}

    def _load(self, number: int) -> str:
        return slot(self, number, "ptr" if self.names[number] in _POINTERS else "i64")

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def block_of_tiles(self) -> BlockOfTiles:
        """The tiles of this round."""
        number, parts = self["tile_round"], self["parts"]
        image = self.mul(self.value(f"udiv i64 {number}, {parts}"), self["images"])
        row = self.mul(self.value(f"urem i64 {number}, {parts}"), self["rows"])
        images = self.least(self["images"], self.sub(self["n"], image))
        rows = self.least(self["rows"], self.sub(self["tile_rows"], row))
        count = self.mul(self.mul(images, rows), self["tile_columns"])
        return BlockOfTiles(image, images, row, rows, count)

    def block_of_columns(self) -> tuple[str, str]:
        """The first column of this round, and the number of columns."""
        size = self["column_block"]
        first = self.mul(self["column_round"], size)
        return first, self.least(size, self.sub(self["columns"], first))

    def divided(self, number: str, by: str | int) -> tuple[str, str]:
        """Quotient and remainder."""
        quotient = self.value(f"udiv i64 {number}, {by}")
        return quotient, self.sub(number, self.mul(quotient, by))

    def not_negative(self, number: str) -> str:
        """The number, or 0 if it is negative."""
        negative = self.value(f"icmp slt i64 {number}, 0")
        return self.value(f"select i1 {negative}, i64 0, i64 {number}")

    def module(self, vector: VectorType, *functions: tuple[str, set[str]]) -> str:
        """The module, with further functions that the task calls."""
        self.emit("ret void")
        bits = 8 * vector.lanes * vector.item_bytes
        entry = StageWriter(self.names)
        run_or_call(entry, entry["parallel"], entry["threads"])
        entry.emit("ret void")
        declarations = self.declarations.union(
            entry.declarations, *(needed for _, needed in functions)
        )
        texts = [
            *(text for text, _ in functions),
            function(self, task_signature(), bits, linkage="internal", attributes="noinline"),
            function(entry, KERNEL, 64),
        ]
        return "\n".join([*sorted(declarations), *texts])


# Transposing square tiles: lines of memory become columns.

Strided = tuple[str, Sequence[str]]
"""A pointer, and its strides in bytes in several nested loops."""


def line_starts(w: WholeNumberWriter, start: str, stride: str, have: str, count: int) -> list[str]:
    """The first address of each line; missing lines repeat the last one."""
    last = w.sub(have, 1)
    return [w.advance(start, w.mul(w.least(at, last), stride)) for at in range(count)]


def transpose_square(
    w: WholeNumberWriter, vector: VectorType, source: Sequence[str], target: Sequence[str]
) -> None:
    """Transpose as many lines as a vector has lanes, each of as many elements."""
    values = transpose(w, vector, [w.load(vector, place) for place in source])
    # From the last line to the first: repeated lines are overwritten by the real one.
    for place, value in reversed(list(zip(target, values, strict=True))):
        w.store(vector, value, place)


def copy_elements(
    w: WholeNumberWriter,
    vector: VectorType,
    counts: Sequence[str | int],
    source: Strided,
    target: Strided,
) -> None:
    """Copy elements one by one in nested loops: little code for the remainder of square tiles."""
    one = VectorType(vector.dtype, 1)

    def loop(level: int, pointers: Sequence[str]) -> None:
        if level == len(counts):
            w.store(one, w.load(one, pointers[0]), pointers[1])
            return

        def body(_: str, at: list[str]) -> list[str]:
            loop(level + 1, at)
            strides = source[1][level], target[1][level]
            return [w.advance(place, stride) for place, stride in zip(at, strides, strict=True)]

        w.loop_or_skip(str(counts[level]), [("ptr", pointer) for pointer in pointers], body)

    loop(0, (source[0], target[0]))


# The products: one for each point, all of the same sizes.
#
# Planes of the first operand have tiles as rows and channels side by side; those of the second
# are panels as wide as a register tile. So every tile reads its operands in place, and two tile
# heights cover any number of rows: 20 rows are two tiles of 7 and one of 6.

PRODUCT = (
    *BLOCK,
    *("source", "other", "target"),
    *("length", "source_plane", "source_row"),
    *("other_plane", "other_panel", "target_plane", "target_row"),
)
"""`length` is the length of the sums, or the number of rows if sums run over tiles."""


@dataclass(frozen=True, slots=True)
class Products:
    """The parameters of the code."""

    recipe: PackedRecipe
    """Has `a_by_columns` if the sums run over tiles: then rows are channels, and rounds add up."""
    points: int
    """The number of products."""


def products(kind: Products) -> str:
    """The module of the products."""
    recipe = kind.recipe
    w, item = StageWriter(PRODUCT), recipe.vector.item_bytes
    block = w.block_of_tiles()
    _, columns = w.block_of_columns()
    panels = w.rounds(columns, recipe.columns)
    rows, depth = (w["length"], block.count) if recipe.a_by_columns else (block.count, w["length"])
    add = w.value(f"icmp ne i64 {w['tile_round']}, 0") if recipe.a_by_columns else "false"
    tiles = w.rounds(rows, recipe.rows)
    low = w.least(w.sub(w.mul(tiles, recipe.rows), rows), tiles)
    high = w.sub(tiles, low)
    begin, end = share(w, w.mul(panels, kind.points))
    stride = recipe.columns * item

    def column(counter: str, _: list[str]) -> list[str]:
        point, panel = w.divided(w.add(begin, counter), panels)
        b = w.advance(w["other"], w.mul(point, w["other_plane"]))
        b = w.advance(b, w.mul(panel, w["other_panel"]))
        a = w.advance(w["source"], w.mul(point, w["source_plane"]))
        c = w.advance(w["target"], w.mul(point, w["target_plane"]))
        c = w.advance(c, w.mul(panel, stride))

        def run(name: str, height: int, count: str, at: list[str]) -> list[str]:
            def one(_: str, here: list[str]) -> list[str]:
                w.emit(
                    f"call void @{name}(ptr {here[0]}, ptr {b}, ptr {here[1]}, "
                    f"i64 {w['source_row']}, i64 {stride}, i64 {w['target_row']}, i64 {depth}, "
                    f"i1 {add}, i1 true)"
                )
                step = height * item if recipe.a_by_columns else w.mul(w["source_row"], height)
                return [
                    w.advance(here[0], step),
                    w.advance(here[1], w.mul(w["target_row"], height)),
                ]

            return w.loop_or_skip(count, [("ptr", each) for each in at], one)

        at = run("high", recipe.rows, high, [a, c])
        run("low", recipe.rows - 1, low, at)
        return []

    w.loop_or_skip(w.sub(end, begin), [], column)
    return w.module(
        recipe.vector,
        _tile(recipe, "high"),
        _tile(replace(recipe, rows=recipe.rows - 1), "low"),
    )


def _tile(recipe: PackedRecipe, name: str) -> tuple[str, set[str]]:
    """The function of a register tile with its own name: there are two heights."""
    text, declarations = TileFunction(recipe, direct=recipe.direct).text()
    return re.sub(r"@tile_\w+\(", f"@{name}(", text), declarations
