"""The register tile of a packed matrix product as LLVM IR.

Operands are copied into panels as wide as the tile, so that the tile reads them from front to
back, or are read where they are. Sizes and strides are arguments of the code. Strides are in
bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core import Accumulator, Load, Scalar
from skipjack.native import Carried, VectorType, constant_mask, function
from skipjack.solvers.cpu.ir import Leaf, WholeNumberWriter, evaluated, transpose

# A whole tile.

_LINE = 64
"""Bytes of a cache line."""
_BASE_EVERY = 3
"""Rows of A that share a pointer: the second and third are reached by one and two strides."""


@dataclass(frozen=True, slots=True)
class PackedRecipe:
    """Everything that decides the machine code."""

    rows: int
    vectors: int
    unroll: int
    pack_a: bool
    vector: VectorType
    epilogue: Scalar = field(default_factory=Accumulator)
    extras: int = 0
    """Number of further operands that the epilogue loads, as `Load(2)`, `Load(3)` and so on."""
    pack_b: bool = True
    a_by_columns: bool = False
    """If A is not packed: whether its rows lie side by side instead of the steps of a sum."""
    transposed: bool = False
    """Whether rows of C lie side by side instead of columns; then there are no further operands."""

    @property
    def direct(self) -> bool:
        """Whether A is read in place, row by row."""
        return not self.pack_a and not self.a_by_columns

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.vector.lanes

    @property
    def line(self) -> int:
        """Elements of a tile that lie side by side: a row, or a column of a transposed tile."""
        return self.rows if self.transposed else self.columns

    @property
    def tile_bytes(self) -> int:
        """Size of one tile."""
        return self.rows * self.columns * self.vector.item_bytes

    def extra_parameters(self) -> str:
        """Parameters of functions that write C: a pointer and a row stride for each further
        operand."""
        return "".join(f", ptr %e{number}, i64 %s{number}" for number in range(self.extras))

    def extra_arguments(self, pointers: list[str], strides: list[str]) -> str:
        """The arguments for `extra_parameters`."""
        pairs = zip(pointers, strides, strict=True)
        return "".join(f", ptr {pointer}, i64 {stride}" for pointer, stride in pairs)


def epilogue_leaf(total: str, load: Callable[[int], str]) -> Leaf:
    """The leaves of an epilogue: the sum is `total`, and `load(number)` loads a further operand."""

    def leaf(scalar: Load | Accumulator) -> str:
        return total if isinstance(scalar, Accumulator) else load(scalar.operand - 2)

    return leaf


class TileFunction:
    """``C (+)= A B`` for one whole tile, with all sums in registers.

    `%lda` is the stride between rows of a `direct` A, whose steps lie side by side; otherwise the
    stride between steps, and the rows lie side by side as in panels. `%ldb` is the stride between
    steps of B; `%ldc` the stride between rows of C, or between columns if it is transposed.
    """

    def __init__(self, recipe: PackedRecipe, *, direct: bool) -> None:
        self.recipe, self.direct = recipe, direct
        self.vector, self.w = recipe.vector, WholeNumberWriter()

    def text(self) -> tuple[str, set[str]]:
        """The function and the declarations that it needs."""
        w = self.w
        if not self.recipe.transposed:
            # A store that misses all caches waits for memory as long as 64 steps of the sums take.
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
        if recipe.transposed:
            assert recipe.epilogue == Accumulator(), "a transposed product has no epilogue"
            self._store_transposed(sums, add=add)
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

            done.append(evaluated(w, self.vector, recipe.epilogue, epilogue_leaf(total, load)))
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

    def _store_transposed(self, sums: list[str], *, add: bool) -> None:
        """Transpose square tiles in registers; columns follow each other in memory."""
        w, vector, lanes = self.w, self.vector, self.vector.lanes
        column = "%c"
        for part in range(self.recipe.vectors):
            own = sums[part :: self.recipe.vectors]
            pieces = [own[start : start + lanes] for start in range(0, len(own), lanes)]
            transposed = [transpose(w, vector, piece) for piece in pieces]
            for lane in range(lanes):
                for number, piece in enumerate(pieces):
                    mask = constant_mask(lanes, len(piece))
                    place = w.advance(column, number * lanes * vector.item_bytes)
                    value = transposed[number][lane]
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
        """The address of A's element of a row and a step of k."""
        w, item = self.w, self.vector.item_bytes
        if not self.direct:
            return w.advance(self._later(bases[0], "%lda", number), row * item)
        offset = (0, "%lda", self.lda2)[row % _BASE_EVERY]
        return w.advance(w.advance(bases[row // _BASE_EVERY], offset), number * item)

    def _fetch_ahead(self, bases: list[str], b: str, number: int) -> None:
        """Prefetch what the next tile reads in this step, of operands that are read in place.

        The hardware does not prefetch there: products of images outside L2 ran 5 to 25 % faster
        with it. Rows of A often lie a multiple of a page apart, and those of two tiles would evict
        each other from L1, so they are fetched into L2.
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
        """The pointer after a number of strides."""
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


# Tiles that cross the edge of C.


def edge_function(recipe: PackedRecipe) -> tuple[str, set[str]]:
    """A function that writes the part of a tile inside C, as a whole tile would; the rest stays."""
    w, vector = WholeNumberWriter(), recipe.vector
    lanes, width = vector.lanes, vector.lanes * vector.item_bytes
    extras = [f"%e{number}" for number in range(recipe.extras)]
    # The lines of a transposed tile are its columns.
    lines, along = ("%n", "%m") if recipe.transposed else ("%m", "%n")
    masks = [
        w.first_lanes(lanes, w.without(along, start)) for start in range(0, recipe.line, lanes)
    ]

    def piece(at: list[str], mask: str) -> None:
        total = w.load(vector, at[0], mask)
        both = w.value(f"fadd {vector.text} {total}, {w.load(vector, at[1], mask)}")
        total = w.value(f"select i1 %add, {vector.text} {both}, {vector.text} {total}")
        leaf = epilogue_leaf(total, lambda number: w.load(vector, at[2 + number], mask))
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
