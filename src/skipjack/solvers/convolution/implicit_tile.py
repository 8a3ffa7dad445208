"""The register tile of an implicit matrix product: rows that lie anywhere, several loops over them.

The places of a tile's rows in A and C are constants of the problem, so one pointer reaches them
all. The sums stay in registers while loop follows loop over pieces of the reduction, and each loop
may leave rows out: those that would read padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.native.ir import Carried, VectorType, constant_mask
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Inside = Callable[[str, str, list[str]], list[str]]
"""Writes what a loop does: from pointers into A and B and the sums to the sums afterwards."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows by columns; places of rows are in bytes from a tile's pointer."""

    a_rows: tuple[int, ...]
    c_rows: tuple[int, ...]
    columns: int
    vector: VectorType

    @property
    def vectors(self) -> int:
        """Of a row."""
        return -(-self.columns // self.vector.lanes)

    @property
    def masks(self) -> list[str | None]:
        """For each vector, which lanes of B and C there are."""
        lanes = self.vector.lanes
        starts = range(0, self.columns, lanes)
        return [constant_mask(lanes, min(lanes, self.columns - start)) for start in starts]

    @property
    def width(self) -> int:
        """Bytes of a vector."""
        return self.vector.lanes * self.vector.item_bytes


@dataclass(frozen=True, slots=True)
class Walk:
    """A loop of a reduction: so many rounds, each moving A and B by so many bytes."""

    rounds: int | str
    a_move: int
    b_move: int | str


class TileWriter:
    """Writes the code of one tile; sums are a list of values, row by row."""

    def __init__(self, w: WholeNumberWriter, tile: Tile) -> None:
        self.w, self.tile = w, tile

    @property
    def row_sums(self) -> int:
        """Sums of a row, each a vector."""
        return self.tile.vectors

    def zeros(self) -> list[str]:
        """Sums of nothing."""
        return [self.tile.vector.constant(0.0)] * (len(self.tile.a_rows) * self.row_sums)

    def around(self, walk: Walk, a: str, b: str, sums: list[str], inside: Inside) -> list[str]:
        """A loop around others."""
        w = self.w

        def body(_: str, state: list[str]) -> list[str]:
            done = inside(state[0], state[1], state[2:])
            return [w.advance(state[0], walk.a_move), w.advance(state[1], walk.b_move), *done]

        start: Carried = [("ptr", a), ("ptr", b), *((self.tile.vector.text, s) for s in sums)]
        if isinstance(walk.rounds, int):
            return w.loop(walk.rounds, start, body)[2:] if walk.rounds else sums
        return w.loop_or_skip(walk.rounds, start, body)[2:]

    def accumulate(
        self, rows: Sequence[int], walk: Walk, a: str, b: str, sums: list[str]
    ) -> list[str]:
        """The innermost loop: each round adds a product of an element and vectors to some rows."""
        if not rows:
            return sums
        count = self.row_sums
        places = [row * count + part for row in rows for part in range(count)]
        some = [sums[at] for at in places]
        done = self.around(walk, a, b, some, lambda *at: self.step(rows, *at))
        result = list(sums)
        for at, value in zip(places, done, strict=True):
            result[at] = value
        return result

    def step(self, rows: Sequence[int], a: str, b: str, sums: list[str]) -> list[str]:
        """One round of it."""
        w, tile = self.w, self.tile
        columns = [
            w.load(tile.vector, w.advance(b, part * tile.width), mask)
            for part, mask in enumerate(tile.masks)
        ]
        after = []
        for number, row in enumerate(rows):
            element = w.broadcast(tile.vector, w.advance(a, tile.a_rows[row]))
            for part, column in enumerate(columns):
                before = sums[number * tile.vectors + part]
                after.append(w.call(tile.vector, "fmuladd", [element, column, before]))
        return after

    def write(self, sums: list[str], c: str, add: str | bool) -> None:
        """Write the sums, or add them to what is there: an i1 value may decide."""
        if isinstance(add, bool):
            self._store(sums, c, add)
        else:
            self.w.either(
                add, lambda: self._store(sums, c, True), lambda: self._store(sums, c, False)
            )

    def _store(self, sums: list[str], c: str, add: bool) -> None:
        w, tile = self.w, self.tile
        for row, place in enumerate(tile.c_rows):
            for part, mask in enumerate(tile.masks):
                at = w.advance(c, place + part * tile.width)
                value = sums[row * tile.vectors + part]
                if add:
                    there = w.load(tile.vector, at, mask)
                    value = w.value(f"fadd {tile.vector.text} {there}, {value}")
                w.store(tile.vector, value, at, mask)
