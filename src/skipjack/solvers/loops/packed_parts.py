"""Parts of a packed matrix product as LLVM IR: the register tile, packing, edges.

B is copied into panels as wide as the tile, so that the tile reads it front to back; A is copied in
the same way or read where it is. Sizes and strides are arguments. Strides are in bytes here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skipjack.core.nest import Accumulator, Call, Constant, Load, Scalar
from skipjack.native.ir import Carried, IRWriter, VectorType, function
from skipjack.solvers.loops.scalar import step

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


class PartsWriter(IRWriter):
    """An `IRWriter` with whole-number arithmetic."""

    def mul(self, left: str | int, right: str | int) -> str:
        """Product of two i64."""
        return self.value(f"mul i64 {left}, {right}")

    def add(self, left: str | int, right: str | int) -> str:
        """Sum of two i64."""
        return self.value(f"add i64 {left}, {right}")

    def sub(self, left: str | int, right: str | int) -> str:
        """Difference of two i64."""
        return self.value(f"sub i64 {left}, {right}")

    def least(self, left: str | int, right: str | int) -> str:
        """The smaller of two i64."""
        self.declarations.add("declare i64 @llvm.umin.i64(i64, i64)")
        return self.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {right})")

    def rounds(self, total: str | int, size: str | int) -> str:
        """How many pieces of a size cover a total."""
        return self.value(f"udiv i64 {self.sub(self.add(total, size), 1)}, {size}")

    def either(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """One of two bodies."""
        self.when(condition, yes)
        self.when(self.value(f"xor i1 {condition}, true"), no)


def finished(
    w: IRWriter, kind: VectorType, scalar: Scalar, total: str, load: Callable[[int], str]
) -> str:
    """The epilogue's value for a sum; `load(number)` gives a further operand."""
    match scalar:
        case Accumulator():
            return total
        case Constant(value):
            return kind.constant(value)
        case Load(operand):
            return load(operand - 2)
        case Call(name, arguments):
            given = [finished(w, kind, part, total, load) for part in arguments]
            return step(w, kind, name, given)


class TileFunction:
    """``C (+)= A B`` for one whole tile, all of it in registers; A is packed or not."""

    def __init__(self, recipe: Recipe, *, direct: bool) -> None:
        self.recipe, self.direct = recipe, direct
        self.vector, self.w = recipe.vector, PartsWriter()

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

            done.append(finished(w, self.vector, recipe.epilogue, total, load))
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


def pack_a(recipe: Recipe) -> tuple[str, set[str]]:
    """Rows of A into panels of the tile's height, k by k; rows that are missing are zero."""
    w, item, height = PartsWriter(), recipe.vector.item_bytes, recipe.rows
    scalar = VectorType(recipe.vector.dtype, 1)

    def copy_rows(count: int | str, source: str, target: str) -> None:
        def body(_: str, at: list[str]) -> list[str]:
            w.store(scalar, w.load(scalar, at[0]), at[1])
            return [w.advance(at[0], "%row"), w.advance(at[1], item)]

        w.loop(count, [("ptr", source), ("ptr", target)], body)

    def whole(at: list[str]) -> None:
        pointer = at[0]
        for row in range(height):
            w.store(scalar, w.load(scalar, pointer), w.advance(at[1], row * item))
            if row + 1 < height:
                pointer = w.advance(pointer, "%row")

    def panel(number: str, at: list[str]) -> list[str]:
        have = w.least(w.sub("%m", w.mul(number, height)), height)

        def each_k(fill: Callable[[list[str]], None]) -> None:
            def body(_: str, here: list[str]) -> list[str]:
                fill(here)
                return [w.advance(here[0], "%col"), w.advance(here[1], height * item)]

            w.loop("%depth", [("ptr", at[0]), ("ptr", at[1])], body)

        def part(here: list[str]) -> None:
            for row in range(height):
                w.store(scalar, scalar.constant(0.0), w.advance(here[1], row * item))
            copy_rows(have, here[0], here[1])

        full = w.value(f"icmp eq i64 {have}, {height}")
        w.either(full, lambda: each_k(whole), lambda: each_k(part))
        panel_bytes = w.mul("%depth", height * item)
        return [w.advance(at[0], w.mul("%row", height)), w.advance(at[1], panel_bytes)]

    w.loop(w.rounds("%m", height), [("ptr", "%from"), ("ptr", "%to")], panel)
    w.emit("ret void")
    parameters = "ptr noalias %from, ptr noalias %to, i64 %m, i64 %depth, i64 %row, i64 %col"
    signature = f"void @pack_a({parameters})"
    return function(w, signature, 64, linkage="internal", attributes="noinline"), w.declarations


def pack_b(recipe: Recipe) -> tuple[str, set[str]]:
    """Columns of B into panels of the tile's width, k by k; columns that are missing are zero."""
    w, vector, width = PartsWriter(), recipe.vector, recipe.columns
    item, lanes = vector.item_bytes, vector.lanes
    scalar = VectorType(vector.dtype, 1)

    def vectors(masks: list[str | None]) -> Callable[[list[str]], None]:
        def fill(here: list[str]) -> None:
            for part, mask in enumerate(masks):
                offset = part * lanes * item
                value = w.load(vector, w.advance(here[0], offset), mask)
                w.store(vector, value, w.advance(here[1], offset))

        return fill

    def strided(have: str) -> Callable[[list[str]], None]:
        def fill(here: list[str]) -> None:
            for part in range(recipe.vectors):
                at = w.advance(here[1], part * lanes * item)
                w.store(vector, vector.constant(0.0), at)

            def body(_: str, at: list[str]) -> list[str]:
                w.store(scalar, w.load(scalar, at[0]), at[1])
                return [w.advance(at[0], "%col"), w.advance(at[1], item)]

            w.loop(have, [("ptr", here[0]), ("ptr", here[1])], body)

        return fill

    def panel(number: str, at: list[str]) -> list[str]:
        have = w.least(w.sub("%n", w.mul(number, width)), width)

        def each_k(fill: Callable[[list[str]], None]) -> None:
            def body(_: str, here: list[str]) -> list[str]:
                fill(here)
                return [w.advance(here[0], "%row"), w.advance(here[1], width * item)]

            w.loop("%depth", [("ptr", at[0]), ("ptr", at[1])], body)

        def contiguous() -> None:
            full = w.value(f"icmp eq i64 {have}, {width}")
            w.either(
                full,
                lambda: each_k(vectors([None] * recipe.vectors)),
                lambda: each_k(vectors(_masks(w, recipe, have))),
            )

        dense = w.value(f"icmp eq i64 %col, {item}")
        w.either(dense, contiguous, lambda: each_k(strided(have)))
        panel_bytes = w.mul("%depth", width * item)
        return [w.advance(at[0], w.mul("%col", width)), w.advance(at[1], panel_bytes)]

    w.loop(w.rounds("%n", width), [("ptr", "%from"), ("ptr", "%to")], panel)
    w.emit("ret void")
    parameters = "ptr noalias %from, ptr noalias %to, i64 %n, i64 %depth, i64 %row, i64 %col"
    bits = 8 * lanes * item
    signature = f"void @pack_b({parameters})"
    return function(w, signature, bits, linkage="internal", attributes="noinline"), w.declarations


def _masks(w: PartsWriter, recipe: Recipe, have: str) -> list[str | None]:
    """One mask for each vector of a panel that has fewer columns."""
    lanes = recipe.vector.lanes
    w.declarations.add("declare i64 @llvm.usub.sat.i64(i64, i64)")
    numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
    masks: list[str | None] = []
    for part in range(recipe.vectors):
        left = w.value(f"call i64 @llvm.usub.sat.i64(i64 {have}, i64 {part * lanes})")
        limit = w.splat_text(f"<{lanes} x i64>", "i64", left, lanes)
        masks.append(w.value(f"icmp ult <{lanes} x i64> {numbers}, {limit}"))
    return masks


def edge(recipe: Recipe) -> tuple[str, set[str]]:
    """Write the part of a tile that lies inside of C, element by element, like a tile would."""
    w, item = PartsWriter(), recipe.vector.item_bytes
    scalar = VectorType(recipe.vector.dtype, 1)
    extras = [f"%e{number}" for number in range(recipe.extras)]

    def column(_: str, at: list[str]) -> list[str]:
        total = w.load(scalar, at[0])
        both = w.value(f"fadd {scalar.text} {total}, {w.load(scalar, at[1])}")
        total = w.value(f"select i1 %add, {scalar.text} {both}, {scalar.text} {total}")
        done = finished(
            w, scalar, recipe.epilogue, total, lambda number: w.load(scalar, at[2 + number])
        )
        if done != total:
            total = w.value(f"select i1 %last, {scalar.text} {done}, {scalar.text} {total}")
        w.store(scalar, total, at[1])
        return [w.advance(pointer, item) for pointer in at]

    def row(_: str, at: list[str]) -> list[str]:
        w.loop("%n", [("ptr", pointer) for pointer in at], column)
        strides: list[int | str] = [recipe.columns * item, "%ldc"]
        strides += [f"%s{number}" for number in range(recipe.extras)]
        return [w.advance(p, stride) for p, stride in zip(at, strides, strict=True)]

    w.loop("%m", [("ptr", pointer) for pointer in ("%tile", "%c", *extras)], row)
    w.emit("ret void")
    parameters = (
        "ptr noalias %tile, ptr noalias %c, i64 %ldc, i64 %m, i64 %n, i1 %add, i1 %last"
        + recipe.extra_parameters()
    )
    signature = f"void @edge({parameters})"
    return function(w, signature, 64, linkage="internal", attributes="noinline"), w.declarations
