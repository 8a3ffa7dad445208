"""Parts of a packed matrix product as LLVM IR: the register tile, and what hangs over the edge.

B is copied into panels as wide as the tile, so that the tile reads it front to back; A is copied in
the same way or read where it is. Sizes and strides are arguments. Strides are in bytes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core.nest import Accumulator, Load, Scalar
from skipjack.native.ir import Carried, VectorType, function
from skipjack.solvers.loops.scalar import Leaf, evaluated
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_BASE_EVERY = 3
"""Rows of A that share a pointer: the two after it are reached by one and two strides."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides the machine code."""

    rows: int
    vectors: int
    unroll: int
    pack_a: bool
    vector: VectorType
    epilogue: Scalar = field(default_factory=Accumulator)
    extras: int = 0
    """How many further operands the epilogue loads, as `Load(2)`, `Load(3)` and so on."""

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.vector.lanes

    @property
    def tile_bytes(self) -> int:
        """Memory of one tile."""
        return self.rows * self.columns * self.vector.item_bytes

    def extra_parameters(self) -> str:
        """Of functions that write C: a pointer and a row stride for each further operand."""
        return "".join(f", ptr %e{number}, i64 %s{number}" for number in range(self.extras))

    def extra_arguments(self, pointers: list[str], strides: list[str]) -> str:
        """To go with `extra_parameters`."""
        pairs = zip(pointers, strides, strict=True)
        return "".join(f", ptr {pointer}, i64 {stride}" for pointer, stride in pairs)


def _leaf(total: str, load: Callable[[int], str]) -> Leaf:
    """Of the epilogue of a sum; `load(number)` gives a further operand."""

    def leaf(scalar: Load | Accumulator) -> str:
        return total if isinstance(scalar, Accumulator) else load(scalar.operand - 2)

    return leaf


class TileFunction:
    """``C (+)= A B`` for one whole tile, all of it in registers; A is packed or not."""

    def __init__(self, recipe: Recipe, *, direct: bool) -> None:
        self.recipe, self.direct = recipe, direct
        self.vector, self.w = recipe.vector, WholeNumberWriter()

    def text(self) -> tuple[str, set[str]]:
        """The function and the declarations that it needs."""
        w = self.w
        sums = self._reduce()
        add, first = w.name("add"), w.name("first")
        w.emit(f"br i1 %add, label %{add}, label %{first}")
        w.open_block(add)
        added = [
            w.value(f"fadd {self.vector.text} {w.load(self.vector, place)}, {total}")
            for place, total in zip(self._places(), sums, strict=True)
        ]
        self._write(added)
        w.open_block(first)
        self._write(sums)
        name = "@tile_direct" if self.direct else "@tile_packed"
        parameters = (
            "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %lda, i64 %ldc, "
            "i64 %depth, i1 %add, i1 %last" + self.recipe.extra_parameters()
        )
        bits = 8 * self.vector.lanes * self.vector.item_bytes
        signature = f"void {name}({parameters})"
        whole = function(w, signature, bits, linkage="internal", attributes="noinline")
        return whole, w.declarations

    def _write(self, sums: list[str]) -> None:
        """Store, through the epilogue if this was the last block of K, and return."""
        w, recipe = self.w, self.recipe
        if recipe.epilogue == Accumulator():
            self._store(sums)
            w.emit("ret void")
            return
        last, plain = w.name("last"), w.name("plain")
        w.emit(f"br i1 %last, label %{last}, label %{plain}")
        w.open_block(last)
        width = self.vector.lanes * self.vector.item_bytes
        rows = {f"%e{number}": [f"%e{number}"] for number in range(recipe.extras)}
        for number in range(recipe.extras):
            pointers = rows[f"%e{number}"]
            for _ in range(recipe.rows - 1):
                pointers.append(w.advance(pointers[-1], f"%s{number}"))
        done = []
        for at, total in enumerate(sums):
            row, column = divmod(at, recipe.vectors)

            def load(number: int, row: int = row, column: int = column) -> str:
                pointer = rows[f"%e{number}"][row]
                return w.load(self.vector, w.advance(pointer, column * width))

            done.append(evaluated(w, self.vector, recipe.epilogue, _leaf(total, load)))
        self._store(done)
        w.emit("ret void")
        w.open_block(plain)
        self._store(sums)
        w.emit("ret void")

    def _places(self) -> list[str]:
        w, width = self.w, self.vector.lanes * self.vector.item_bytes
        places, pointer = [], "%c"
        for _ in range(self.recipe.rows):
            places += [w.advance(pointer, part * width) for part in range(self.recipe.vectors)]
            pointer = w.advance(pointer, "%ldc")
        return places

    def _store(self, values: list[str]) -> None:
        for place, value in zip(self._places(), values, strict=True):
            self.w.store(self.vector, value, place)

    def _reduce(self) -> list[str]:
        w, recipe = self.w, self.recipe
        zero = self.vector.constant(0.0)
        pointers: Carried = [("ptr", pointer) for pointer in [*self._bases(), "%b"]]
        count = len(pointers)
        carried = [*pointers, *[(self.vector.text, zero)] * (recipe.rows * recipe.vectors)]
        if recipe.unroll == 1:
            return w.loop("%depth", carried, self._steps(1, count))[count:]
        full = w.value(f"udiv i64 %depth, {recipe.unroll}")
        rest = w.value(f"urem i64 %depth, {recipe.unroll}")
        state = w.loop_or_skip(full, carried, self._steps(recipe.unroll, count))
        kinds = [kind for kind, _ in carried]
        again = list(zip(kinds, state, strict=True))
        return w.loop_or_skip(rest, again, self._steps(1, count))[count:]

    def _bases(self) -> list[str]:
        w = self.w
        if not self.direct:
            return ["%a"]
        self.lda2 = w.value("shl i64 %lda, 1")
        lda3 = w.add("%lda", self.lda2)
        bases = ["%a"]
        for _ in range(_BASE_EVERY, self.recipe.rows, _BASE_EVERY):
            bases.append(w.advance(bases[-1], lda3))
        return bases

    def _element(self, bases: list[str], row: int, number: int) -> str:
        """Where A's element of a row and a step of k is."""
        w, item = self.w, self.vector.item_bytes
        if not self.direct:
            return w.advance(bases[0], (number * self.recipe.rows + row) * item)
        offset = (0, "%lda", self.lda2)[row % _BASE_EVERY]
        return w.advance(w.advance(bases[row // _BASE_EVERY], offset), number * item)

    def _steps(self, steps: int, count: int) -> Callable[[str, list[str]], list[str]]:
        w, recipe, item = self.w, self.recipe, self.vector.item_bytes
        width = self.vector.lanes * item
        a_move = steps * item * (1 if self.direct else recipe.rows)

        def body(_: str, state: list[str]) -> list[str]:
            bases, b, sums = state[: count - 1], state[count - 1], state[count:]
            for number in range(steps):
                columns = [
                    w.load(self.vector, w.advance(b, (number * recipe.vectors + part) * width))
                    for part in range(recipe.vectors)
                ]
                after = []
                for row in range(recipe.rows):
                    element = w.broadcast(self.vector, self._element(bases, row, number))
                    for part, column in enumerate(columns):
                        before = sums[row * recipe.vectors + part]
                        after.append(w.call(self.vector, "fma", [element, column, before]))
                sums = after
            b = w.advance(b, steps * recipe.vectors * width)
            return [*(w.advance(base, a_move) for base in bases), b, *sums]

        return body


def edge(recipe: Recipe) -> tuple[str, set[str]]:
    """Write the part of a tile that lies inside of C, like a tile would; the rest stays."""
    w, vector = WholeNumberWriter(), recipe.vector
    lanes, width = vector.lanes, vector.lanes * vector.item_bytes
    extras = [f"%e{number}" for number in range(recipe.extras)]
    masks = [w.first_lanes(lanes, w.without("%n", part * lanes)) for part in range(recipe.vectors)]

    def piece(at: list[str], mask: str) -> None:
        total = w.load(vector, at[0])
        both = w.value(f"fadd {vector.text} {total}, {w.load(vector, at[1], mask)}")
        total = w.value(f"select i1 %add, {vector.text} {both}, {vector.text} {total}")
        leaf = _leaf(total, lambda number: w.load(vector, at[2 + number], mask))
        done = evaluated(w, vector, recipe.epilogue, leaf)
        if done != total:
            total = w.value(f"select i1 %last, {vector.text} {done}, {vector.text} {total}")
        w.store(vector, total, at[1], mask)

    def row(_: str, at: list[str]) -> list[str]:
        for part, mask in enumerate(masks):
            piece([w.advance(pointer, part * width) for pointer in at], mask)
        strides: list[int | str] = [recipe.vectors * width, "%ldc"]
        strides += [f"%s{number}" for number in range(recipe.extras)]
        return [w.advance(p, stride) for p, stride in zip(at, strides, strict=True)]

    w.loop("%m", [("ptr", pointer) for pointer in ("%tile", "%c", *extras)], row)
    w.emit("ret void")
    parameters = (
        "ptr noalias %tile, ptr noalias %c, i64 %ldc, i64 %m, i64 %n, i1 %add, i1 %last"
        + recipe.extra_parameters()
    )
    signature = f"void @edge({parameters})"
    bits = 8 * width
    return function(w, signature, bits, linkage="internal", attributes="noinline"), w.declarations
