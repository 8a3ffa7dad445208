"""The register tile of a packed matrix product as LLVM IR.

Operands are copied into panels as wide as the tile, so that the tile reads them front to back, or
are read where they are. Sizes and strides are arguments. Strides are in bytes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core.nest import Accumulator, Load, Scalar
from skipjack.native.ir import Carried, VectorType, constant_mask, function
from skipjack.solvers.loops.packing import transpose
from skipjack.solvers.loops.scalar import Leaf, evaluated
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_LINE = 64
"""Bytes that memory is fetched by."""
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
    pack_b: bool = True
    upright: bool = False
    """Of A that is not packed: whether rows lie side by side, and not the steps of a sum."""
    turned: bool = False
    """Whether rows of C lie side by side, and not columns; then nothing is loaded besides."""

    @property
    def direct(self) -> bool:
        """Whether A is read row by row where it is."""
        return not self.pack_a and not self.upright

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.vector.lanes

    @property
    def line(self) -> int:
        """Elements of a tile that lie side by side: a row of it, or a column where it is turned."""
        return self.rows if self.turned else self.columns

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


def leaf_of(total: str, load: Callable[[int], str]) -> Leaf:
    """Of the epilogue of a sum; `load(number)` gives a further operand."""

    def leaf(scalar: Load | Accumulator) -> str:
        return total if isinstance(scalar, Accumulator) else load(scalar.operand - 2)

    return leaf


class TileFunction:
    """``C (+)= A B`` for one whole tile, all of it in registers.

    `%lda` is the stride from row to row of a `direct` A, whose steps lie side by side; else from
    step to step, and the rows lie side by side as they do in panels. `%ldb` is the stride from step
    to step of B; `%ldc` from row to row of C, or from column to column if it is turned.
    """

    def __init__(self, recipe: Recipe, *, direct: bool) -> None:
        self.recipe, self.direct = recipe, direct
        self.vector, self.w = recipe.vector, WholeNumberWriter()

    def text(self) -> tuple[str, set[str]]:
        """The function and the declarations that it needs."""
        w = self.w
        if not self.recipe.turned:
            # Stores that miss all caches wait for memory; sums of 64 steps take as long.
            for place in self._places():
                w.prefetch(place)
        sums = self._reduce()
        add, first = w.name("add"), w.name("first")
        w.emit(f"br i1 %add, label %{add}, label %{first}")
        w.open_block(add)
        self._write(sums, add=True)
        w.open_block(first)
        self._write(sums, add=False)
        name = "@tile_direct" if self.direct else "@tile_packed"
        parameters = (
            "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %lda, i64 %ldb, i64 %ldc, "
            "i64 %depth, i1 %add, i1 %last" + self.recipe.extra_parameters()
        )
        bits = 8 * self.vector.lanes * self.vector.item_bytes
        signature = f"void {name}({parameters})"
        whole = function(w, signature, bits, linkage="internal", attributes="noinline")
        return whole, w.declarations

    def _write(self, sums: list[str], *, add: bool) -> None:
        """Store, through the epilogue if this was the last block of K, and return."""
        w, recipe = self.w, self.recipe
        if recipe.turned:
            assert recipe.epilogue == Accumulator(), "a turned product has no epilogue"
            self._store_turned(sums, add=add)
            w.emit("ret void")
            return
        if add:
            sums = [
                w.value(f"fadd {self.vector.text} {w.load(self.vector, place)}, {total}")
                for place, total in zip(self._places(), sums, strict=True)
            ]
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

            done.append(evaluated(w, self.vector, recipe.epilogue, leaf_of(total, load)))
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

    def _store_turned(self, sums: list[str], *, add: bool) -> None:
        """Squares are turned in registers; columns follow each other in memory."""
        w, vector, lanes = self.w, self.vector, self.vector.lanes
        column = "%c"
        for part in range(self.recipe.vectors):
            own = sums[part :: self.recipe.vectors]
            pieces = [own[start : start + lanes] for start in range(0, len(own), lanes)]
            turned = [transpose(w, vector, piece) for piece in pieces]
            for lane in range(lanes):
                for number, piece in enumerate(pieces):
                    mask = constant_mask(lanes, len(piece))
                    place = w.advance(column, number * lanes * vector.item_bytes)
                    value = turned[number][lane]
                    if add:
                        before = w.load(vector, place, mask)
                        value = w.value(f"fadd {vector.text} {before}, {value}")
                    w.store(vector, value, place, mask)
                column = w.advance(column, "%ldc")

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
        self.next_tile = w.mul("%lda", self.recipe.rows)
        lda3 = w.add("%lda", self.lda2)
        bases = ["%a"]
        for _ in range(_BASE_EVERY, self.recipe.rows, _BASE_EVERY):
            bases.append(w.advance(bases[-1], lda3))
        return bases

    def _element(self, bases: list[str], row: int, number: int) -> str:
        """Where A's element of a row and a step of k is."""
        w, item = self.w, self.vector.item_bytes
        if not self.direct:
            return w.advance(self._later(bases[0], "%lda", number), row * item)
        offset = (0, "%lda", self.lda2)[row % _BASE_EVERY]
        return w.advance(w.advance(bases[row // _BASE_EVERY], offset), number * item)

    def _fetch_ahead(self, bases: list[str], b: str, number: int) -> None:
        """What the next tile reads in this step, of operands that are read in place.

        No stream of memory leads there: products of images that had left the second cache ran 5 to
        25 % faster for it. Rows of A often lie a multiple of a page apart, and those of two tiles
        would drive each other out of the first cache, so they wait in the second.
        """
        w, recipe = self.w, self.recipe
        line = recipe.vector.lanes * recipe.vector.item_bytes
        if not recipe.pack_b:
            for part in range(recipe.vectors, 2 * recipe.vectors):
                w.prefetch(w.advance(b, part * line))
        if self.direct and number == 0:
            for row in range(recipe.rows):
                w.prefetch(w.advance(self._element(bases, row, 0), self.next_tile), cache=2)
        elif not self.direct and not recipe.pack_a:
            w.prefetch(w.advance(self._later(bases[0], "%lda", number), _LINE))

    def _later(self, pointer: str, stride: str, number: int) -> str:
        """The pointer some steps on."""
        for _ in range(number):
            pointer = self.w.advance(pointer, stride)
        return pointer

    def _steps(self, steps: int, count: int) -> Callable[[str, list[str]], list[str]]:
        w, recipe, item = self.w, self.recipe, self.vector.item_bytes
        width = self.vector.lanes * item

        def body(_: str, state: list[str]) -> list[str]:
            bases, b, sums = state[: count - 1], state[count - 1], state[count:]
            for number in range(steps):
                here = self._later(b, "%ldb", number)
                self._fetch_ahead(bases, here, number)
                columns = [
                    w.load(self.vector, w.advance(here, part * width))
                    for part in range(recipe.vectors)
                ]
                after = []
                for row in range(recipe.rows):
                    element = w.broadcast(self.vector, self._element(bases, row, number))
                    for part, column in enumerate(columns):
                        before = sums[row * recipe.vectors + part]
                        after.append(w.call(self.vector, "fmuladd", [element, column, before]))
                sums = after
            if self.direct:
                moved = [w.advance(base, steps * item) for base in bases]
            else:
                moved = [self._later(base, "%lda", steps) for base in bases]
            return [*moved, self._later(b, "%ldb", steps), *sums]

        return body
