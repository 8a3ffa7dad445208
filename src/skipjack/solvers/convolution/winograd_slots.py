"""What the stages of a Winograd convolution are given, and how their code reads it.

All stages of a round work on the same block: some rows of tiles of one image, or some whole images,
and some or all columns (channels of what is computed). Offsets and strides are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import VectorType, function
from skipjack.solvers.loops.entry import KERNEL, run_or_call, slot, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

BLOCK = (
    *("parallel", "threads"),
    *("tile_round", "images", "rows", "parts", "n", "tile_rows", "tile_columns"),
    *("column_round", "column_block", "columns"),
)
"""Of every stage. A round has `images` images, or `rows` rows of tiles: one of `parts` of an image.

The rounds' numbers count up from round to round; `columns` are in rounds of `column_block`.
"""
_POINTERS = ("source", "target", "parallel", "spare", "other")


@dataclass(frozen=True, slots=True)
class BlockOfTiles:
    """Values of the round that is being done."""

    first_image: str
    images: str
    first_row: str
    rows: str
    count: str
    """Tiles."""


class StageWriter(WholeNumberWriter):
    """Writes the task of a stage, whose slots have names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names
        # All at the entry, so that they are there in every loop; unused ones cost nothing.
        self._values = {name: self._load(number) for number, name in enumerate(names)}

    def _load(self, number: int) -> str:
        return slot(self, number, "ptr" if self.names[number] in _POINTERS else "i64")

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def block_of_tiles(self) -> BlockOfTiles:
        """Where this round is."""
        number, parts = self["tile_round"], self["parts"]
        image = self.mul(self.value(f"udiv i64 {number}, {parts}"), self["images"])
        row = self.mul(self.value(f"urem i64 {number}, {parts}"), self["rows"])
        images = self.least(self["images"], self.sub(self["n"], image))
        rows = self.least(self["rows"], self.sub(self["tile_rows"], row))
        count = self.mul(self.mul(images, rows), self["tile_columns"])
        return BlockOfTiles(image, images, row, rows, count)

    def block_of_columns(self) -> tuple[str, str]:
        """The first column of this round, and how many there are."""
        size = self["column_block"]
        first = self.mul(self["column_round"], size)
        return first, self.least(size, self.sub(self["columns"], first))

    def divided(self, number: str, by: str | int) -> tuple[str, str]:
        """Quotient and rest."""
        quotient = self.value(f"udiv i64 {number}, {by}")
        return quotient, self.sub(number, self.mul(quotient, by))

    def not_negative(self, number: str) -> str:
        """The number, or 0 if it is less."""
        negative = self.value(f"icmp slt i64 {number}, 0")
        return self.value(f"select i1 {negative}, i64 0, i64 {number}")

    def module(self, vector: VectorType, *functions: tuple[str, set[str]]) -> str:
        """The whole module, with further functions that the task calls."""
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
