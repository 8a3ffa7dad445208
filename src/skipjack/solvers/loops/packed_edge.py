"""What of a packed matrix product's tiles hangs over the edge of C, as LLVM IR."""

from __future__ import annotations

from skipjack.native.ir import function
from skipjack.solvers.loops.packed_parts import Recipe, leaf_of
from skipjack.solvers.loops.scalar import evaluated
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


def edge(recipe: Recipe) -> tuple[str, set[str]]:
    """Write the part of a tile that lies inside of C, like a tile would; the rest stays."""
    w, vector = WholeNumberWriter(), recipe.vector
    lanes, width = vector.lanes, vector.lanes * vector.item_bytes
    extras = [f"%e{number}" for number in range(recipe.extras)]
    # Lines of a turned tile are its columns.
    lines, along = ("%n", "%m") if recipe.turned else ("%m", "%n")
    masks = [
        w.first_lanes(lanes, w.without(along, start)) for start in range(0, recipe.line, lanes)
    ]

    def piece(at: list[str], mask: str) -> None:
        total = w.load(vector, at[0], mask)
        both = w.value(f"fadd {vector.text} {total}, {w.load(vector, at[1], mask)}")
        total = w.value(f"select i1 %add, {vector.text} {both}, {vector.text} {total}")
        leaf = leaf_of(total, lambda number: w.load(vector, at[2 + number], mask))
        done = evaluated(w, vector, recipe.epilogue, leaf)
        if done != total:
            total = w.value(f"select i1 %last, {vector.text} {done}, {vector.text} {total}")
        w.store(vector, total, at[1], mask)

    def line(_: str, at: list[str]) -> list[str]:
        for part, mask in enumerate(masks):
            piece([w.advance(pointer, part * width) for pointer in at], mask)
        strides: list[int | str] = [recipe.line * vector.item_bytes, "%ldc"]
        strides += [f"%s{number}" for number in range(recipe.extras)]
        return [w.advance(p, stride) for p, stride in zip(at, strides, strict=True)]

    w.loop(lines, [("ptr", pointer) for pointer in ("%tile", "%c", *extras)], line)
    w.emit("ret void")
    parameters = (
        "ptr noalias %tile, ptr noalias %c, i64 %ldc, i64 %m, i64 %n, i1 %add, i1 %last"
        + recipe.extra_parameters()
    )
    signature = f"void @edge({parameters})"
    bits = 8 * width
    return function(w, signature, bits, linkage="internal", attributes="noinline"), w.declarations
