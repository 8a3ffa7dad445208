"""A matrix product of few rows as LLVM IR.

The time of such a product is that of reading B, or nearly so. Several steps of K are taken at a
time: their rows of B are read in parallel, each from front to back, which suits the hardware
prefetcher best. The rows are adjacent, or lie a fraction of B apart: then each stream continues
from row to row. C is kept in a buffer, one block of columns after the other: rows of C that lie a
multiple of a page apart would evict each other, and those of B, from L1. Threads split K, and each
has a C of its own; at the end they split the columns and add these up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.core import Scalar
from skipjack.native import Carried, VectorType, function
from skipjack.solvers.cpu.gemm.tile import epilogue_leaf
from skipjack.solvers.cpu.ir import (
    KERNEL,
    WholeNumberWriter,
    evaluated,
    run_or_call,
    share,
    slot,
    task_signature,
)

POINTERS = ("a", "b", "out", "workspace", "parallel")
NUMBERS = (
    *("threads", "m", "n", "k", "a_row", "a_column", "b_row", "out_row"),
    *("tiles", "thread_bytes", "scalar_bytes", "is_apart"),
)
"""Strides and sizes are in elements unless their name says bytes; `tiles` cover the rows.
`is_apart` is 1 if the rows of B that are read together lie apart, else 0. Then follow, for each
further operand, a pointer and a row stride."""
_LINE = 64
_EXTRA = len(POINTERS) + len(NUMBERS)


@dataclass(frozen=True, slots=True)
class ThinRecipe:
    """Everything that decides the machine code."""

    rows: int
    vectors: int
    steps: int
    vector: VectorType
    epilogue: Scalar
    extras: int
    ahead_bytes: int = 0
    """How far ahead rows of B are prefetched; 0 leaves this to the hardware."""

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.vectors * self.vector.lanes

    @property
    def tile_bytes(self) -> int:
        """Size of a tile of C."""
        return self.rows * self.columns * self.vector.item_bytes

    @property
    def bits(self) -> int:
        """Bits of a vector."""
        return 8 * self.vector.lanes * self.vector.item_bytes


def generate(recipe: ThinRecipe) -> str:
    """The whole module; ``void @kernel(ptr slots)`` takes what `POINTERS` and `NUMBERS` list."""
    parts = [_sweep(recipe, steps) for steps in sorted({1, recipe.steps})]
    parts += [_task(recipe), _finish(recipe), _kernel()]
    declarations: set[str] = set().union(*(needed for _, needed in parts))
    return "\n".join([*sorted(declarations), *(text for text, _ in parts)])


class _Writer(WholeNumberWriter):
    """Reads the slots by name."""

    def pointer(self, name: str) -> str:
        return slot(self, POINTERS.index(name))

    def number(self, name: str) -> str:
        return slot(self, len(POINTERS) + NUMBERS.index(name), "i64")

    def extra(self, number: int) -> tuple[str, str]:
        """A further operand's pointer and row stride."""
        return slot(self, _EXTRA + 2 * number), slot(self, _EXTRA + 2 * number + 1, "i64")

    def internal(self, signature: str, bits: int) -> tuple[str, set[str]]:
        """A finished internal function, and the declarations that it needs."""
        self.emit("ret void")
        text = function(self, signature, bits, linkage="internal", attributes="noinline")
        return text, self.declarations

    def masks(self, recipe: ThinRecipe, have: str) -> list[str | None]:
        """Masks of the vectors of a block that has fewer columns."""
        lanes = recipe.vector.lanes
        return [
            self.first_lanes(lanes, self.without(have, start))
            for start in range(0, recipe.columns, lanes)
        ]


def _sweep(recipe: ThinRecipe, steps: int) -> tuple[str, set[str]]:
    """Some steps of K for all columns: their rows of B start at `%b`, `%b_apart` bytes apart.

    `%scalars` holds the elements of A: for each tile, step by step, those of its rows.
    """
    w, vector = _Writer(), recipe.vector
    width, item = vector.lanes * vector.item_bytes, vector.item_bytes
    blocks, rest = w.divided("%n", recipe.columns)
    starts = [w.mul("%b_apart", step) if step else "0" for step in range(steps)]

    def tile(b: str, scalars: str, c: str, masks: Sequence[str | None]) -> None:
        places = [w.advance(c, at * width) for at in range(recipe.rows * recipe.vectors)]
        sums = [w.load(vector, place) for place in places]
        for step in range(steps):
            row = w.advance(b, starts[step])
            columns = [
                w.load(vector, w.advance(row, at * width), mask) for at, mask in enumerate(masks)
            ]
            for line in range(0, recipe.columns * item if recipe.ahead_bytes else 0, _LINE):
                w.prefetch(w.advance(row, line + recipe.ahead_bytes))
            for number in range(recipe.rows):
                place = w.advance(scalars, (step * recipe.rows + number) * item)
                element = w.broadcast(vector, place)
                for at, column in enumerate(columns):
                    own = number * recipe.vectors + at
                    sums[own] = w.call(vector, "fmuladd", [element, column, sums[own]])
        for place, value in zip(places, sums, strict=True):
            w.store(vector, value, place)

    def block(b: str, c: str, masks: Sequence[str | None]) -> str:
        def one(_: str, at: list[str]) -> list[str]:
            scalars, here = at
            tile(b, scalars, here, masks)
            next_scalars = w.advance(scalars, steps * recipe.rows * item)
            return [next_scalars, w.advance(here, recipe.tile_bytes)]

        return w.loop("%tiles", [("ptr", "%scalars"), ("ptr", c)], one)[1]

    def whole(_: str, at: list[str]) -> list[str]:
        b, c = at
        after = block(b, c, [None] * recipe.vectors)
        return [w.advance(b, recipe.columns * item), after]

    def part() -> None:
        block(b, c, w.masks(recipe, rest))

    b, c = w.loop_or_skip(blocks, [("ptr", "%b"), ("ptr", "%c")], whole)
    w.when(w.value(f"icmp ne i64 {rest}, 0"), part)
    parameters = "ptr noalias %b, i64 %b_apart, ptr noalias %scalars, ptr noalias %c"
    return w.internal(f"void @sweep_{steps}({parameters}, i64 %n, i64 %tiles)", recipe.bits)


def _task(recipe: ThinRecipe) -> tuple[str, set[str]]:
    """A thread's share of K, summed in a C of its own."""
    w, item, steps = _Writer(), recipe.vector.item_bytes, recipe.steps
    n, tiles = w.number("n"), w.number("tiles")
    a_column, b_row = (w.mul(w.number(name), item) for name in ("a_column", "b_row"))
    begin, end = share(w, w.number("k"))
    rounds, rest = w.divided(w.sub(end, begin), steps)
    scalars = w.advance(w.pointer("workspace"), w.mul("%index", w.number("thread_bytes")))
    c = w.advance(scalars, w.number("scalar_bytes"))
    _clear(w, recipe, c, w.mul(w.rounds(n, recipe.columns), tiles))
    is_apart = w.value(f"icmp ne i64 {w.number('is_apart')}, 0")
    rows_apart = w.value(f"select i1 {is_apart}, i64 {rounds}, i64 1")
    move = w.value(f"select i1 {is_apart}, i64 1, i64 {steps}")

    def sweep(number: int, move: str) -> Callable[[str, list[str]], list[str]]:
        def body(_: str, at: list[str]) -> list[str]:
            a, b = at
            _gather(w, recipe, number, a, scalars, w.mul(rows_apart, a_column))
            b_apart = w.mul(rows_apart, b_row)
            w.emit(
                f"call void @sweep_{number}(ptr {b}, i64 {b_apart}, ptr {scalars}, "
                f"ptr {c}, i64 {n}, i64 {tiles})"
            )
            return [w.advance(a, w.mul(move, a_column)), w.advance(b, w.mul(move, b_row))]

        return body

    def starting_at(step: str) -> Carried:
        a, b = w.pointer("a"), w.pointer("b")
        return [
            ("ptr", w.advance(a, w.mul(step, a_column))),
            ("ptr", w.advance(b, w.mul(step, b_row))),
        ]

    w.loop_or_skip(rounds, starting_at(begin), sweep(steps, move))
    w.loop_or_skip(rest, starting_at(w.sub(end, rest)), sweep(1, "1"))
    return w.internal(task_signature(), recipe.bits)


def _clear(w: _Writer, recipe: ThinRecipe, c: str, tiles: str) -> None:
    vector, width = recipe.vector, recipe.vector.lanes * recipe.vector.item_bytes

    def one(_: str, at: list[str]) -> list[str]:
        for start in range(0, recipe.tile_bytes, width):
            w.store(vector, vector.constant(0.0), w.advance(at[0], start))
        return [w.advance(at[0], recipe.tile_bytes)]

    w.loop(tiles, [("ptr", c)], one)


def _gather(w: _Writer, recipe: ThinRecipe, steps: int, a: str, scalars: str, a_apart: str) -> None:
    """Gather elements of A, rows of a tile side by side. Missing rows repeat the last one."""
    item, scalar = recipe.vector.item_bytes, VectorType(recipe.vector.dtype, 1)
    m, a_row = w.number("m"), w.mul(w.number("a_row"), item)
    last = w.sub(m, 1)

    def tile(number: str, at: list[str]) -> list[str]:
        first = w.mul(number, recipe.rows)
        for row in range(recipe.rows):
            source = w.advance(a, w.mul(w.least(w.add(first, row), last), a_row))
            for step in range(steps):
                place = w.advance(at[0], (step * recipe.rows + row) * item)
                w.store(scalar, w.load(scalar, source), place)
                source = w.advance(source, a_apart)
        return [w.advance(at[0], steps * recipe.rows * item)]

    w.loop(w.number("tiles"), [("ptr", scalars)], tile)


def _finish(recipe: ThinRecipe) -> tuple[str, set[str]]:
    """A thread's share of the columns: adds up the results of all threads and writes the output."""
    w, vector = _Writer(), recipe.vector
    item, width = vector.item_bytes, vector.lanes * vector.item_bytes
    m, n, own = w.number("m"), w.number("n"), w.number("thread_bytes")
    block_bytes = w.mul(w.number("tiles"), recipe.tile_bytes)
    begin, end = share(w, w.rounds(n, recipe.columns))
    first = w.advance(w.pointer("workspace"), w.number("scalar_bytes"))
    targets = [(w.pointer("out"), w.mul(w.number("out_row"), item))]
    for number in range(recipe.extras):
        pointer, row = w.extra(number)
        targets.append((pointer, w.mul(row, item)))

    def total(place: str) -> str:
        def add(_: str, state: list[str]) -> list[str]:
            value = w.value(f"fadd {vector.text} {state[1]}, {w.load(vector, state[0])}")
            return [w.advance(state[0], own), value]

        start = w.load(vector, place)
        others = [("ptr", w.advance(place, own)), (vector.text, start)]
        return w.loop_or_skip(w.sub("%count", 1), others, add)[1]

    def block(number: str, masks: Sequence[str | None]) -> None:
        source = w.advance(first, w.mul(number, block_bytes))
        offset = w.mul(number, recipe.columns * item)

        def row(_: str, at: list[str]) -> list[str]:
            for part, mask in enumerate(masks):
                place, out, *extras = (w.advance(pointer, part * width) for pointer in at)
                # The compiler drops loads that the epilogue does not use.
                loaded = [w.load(vector, extra, mask) for extra in extras]
                leaf = epilogue_leaf(total(place), loaded.__getitem__)
                w.store(vector, evaluated(w, vector, recipe.epilogue, leaf), out, mask)
            moves = [str(recipe.columns * item), *(stride for _, stride in targets)]
            return [w.advance(p, move) for p, move in zip(at, moves, strict=True)]

        starts = [source, *(w.advance(pointer, offset) for pointer, _ in targets)]
        w.loop(m, [("ptr", pointer) for pointer in starts], row)

    def blocks(number: str, _: list[str]) -> list[str]:
        at = w.add(begin, number)
        have = w.sub(n, w.mul(at, recipe.columns))
        w.either(
            w.value(f"icmp uge i64 {have}, {recipe.columns}"),
            lambda: block(at, [None] * recipe.vectors),
            lambda: block(at, w.masks(recipe, have)),
        )
        return []

    w.loop_or_skip(w.sub(end, begin), [], blocks)
    return w.internal(task_signature("finish"), recipe.bits)


def _kernel() -> tuple[str, set[str]]:
    w = _Writer()
    for name in ("task", "finish"):
        run_or_call(w, w.pointer("parallel"), w.number("threads"), name)
    w.emit("ret void")
    return function(w, KERNEL, 64), w.declarations
