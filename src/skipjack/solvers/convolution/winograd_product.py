"""The products of a Winograd convolution as LLVM IR: one for each point, all of the same sizes.

Planes of the first operand have tiles for rows and channels side by side; those of the second one
are panels as wide as a register tile. So every tile reads its operands where they are, and two
heights of it cover any number of rows: as 7 and 6 do 20.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from skipjack.solvers.convolution.winograd_slots import BLOCK, StageWriter
from skipjack.solvers.loops.entry import share
from skipjack.solvers.loops.packed_parts import Recipe, TileFunction

PRODUCT = (
    *BLOCK,
    *("source", "other", "target"),
    *("length", "source_plane", "source_row"),
    *("other_plane", "other_panel", "target_plane", "target_row"),
)
"""`length` is the length of the sums, or how many rows there are where sums run over tiles."""


@dataclass(frozen=True, slots=True)
class Products:
    """What decides the code."""

    recipe: Recipe
    """`upright` where the sums run over tiles: then rows are channels, and rounds add up."""
    points: int
    """How many products."""


def products(kind: Products) -> str:
    """The module."""
    recipe = kind.recipe
    w, item = StageWriter(PRODUCT), recipe.vector.item_bytes
    block = w.block_of_tiles()
    _, columns = w.block_of_columns()
    panels = w.rounds(columns, recipe.columns)
    rows, depth = (w["length"], block.count) if recipe.upright else (block.count, w["length"])
    add = w.value(f"icmp ne i64 {w['tile_round']}, 0") if recipe.upright else "false"
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
                step = height * item if recipe.upright else w.mul(w["source_row"], height)
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


def _tile(recipe: Recipe, name: str) -> tuple[str, set[str]]:
    """The function of a register tile under a name of its own: there are two heights."""
    text, declarations = TileFunction(recipe, direct=recipe.direct).text()
    return re.sub(r"@tile_\w+\(", f"@{name}(", text), declarations
