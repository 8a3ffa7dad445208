"""The register tile of a matmul micro-kernel: ``C[rows, columns] (+)= A[rows, k] B[k, columns]``.

A tile is one LLVM function that keeps its part of C in registers. An edge tile covers up to its
number of rows or columns: vectors beyond the last column are masked, and rows beyond the last one
repeat it, which costs a few idle multiplications but needs no function for each height.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.native import Carried, IRWriter, VectorType, function
from skipjack.solvers.cpu.ir import slot

SLOTS = ("a", "b", "out", "m", "n", "k", "lda", "ldb", "ldc", "columns_first", "k_block")
"""Pointers, sizes and strides in elements; `columns_first` is 0 or 1; a `k_block` of 0 means K."""

# The fewest independent sums of an edge tile, to hide the latency of multiply-adds. An idle row
# costs less than an idle vector (which is loaded, too), so the right edge needs fewer.
_LOW_SUMS = 6
_RIGHT_SUMS = 4
_BASE_EVERY = 3


@dataclass(frozen=True, slots=True)
class MicrokernelTile:
    """The register tile, and how many steps of k each iteration of the loop takes."""

    rows: int
    vectors: int
    unroll: int
    vector: VectorType

    @property
    def columns(self) -> int:
        """Columns of the whole tile."""
        return self.vectors * self.vector.lanes

    @property
    def edge_rows(self) -> int:
        """Rows of a tile at the lower edge: few, but enough to keep the arithmetic units busy."""
        return min(self.rows, -(-_LOW_SUMS // self.vectors))

    @property
    def edge_vectors(self) -> int:
        """Vectors of a tile at the right edge."""
        return min(self.vectors, -(-_RIGHT_SUMS // self.rows))


PARAMETERS = (
    "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %depth, i1 %add, "
    "i64 %height, i64 %width, ptr %slots"
)
"""Parameters of tiles and panels: K of this block, whether to add to C, and the rows and columns
that edge tiles cover; everything else is in the slots."""


def call(writer: IRWriter, name: str, pointers: list[str], height: str, width: str) -> None:
    """Call a function with `PARAMETERS` from another one."""
    a, b, c = pointers
    writer.emit(
        f"call void {name}(ptr {a}, ptr {b}, ptr {c}, i64 %depth, i1 %add, "
        f"i64 {height}, i64 {width}, ptr %slots)"
    )


def number(writer: IRWriter, name: str) -> str:
    """Load a number from the slots."""
    return slot(writer, SLOTS.index(name), "i64")


def stride_bytes(writer: IRWriter, name: str, vector: VectorType) -> str:
    """Load a stride from the slots, in bytes."""
    return writer.value(f"mul i64 {number(writer, name)}, {vector.item_bytes}")


def tile_name(low: bool, right: bool) -> str:
    """The name of the function of a tile inside C, or at the lower or right edge or both."""
    return f"@tile_{'edge' if low else 'whole'}_{'edge' if right else 'whole'}"


def tile_function(tile: MicrokernelTile, declarations: set[str], *, low: bool, right: bool) -> str:
    """The text of one tile; the intrinsics that it needs are added to `declarations`."""
    return _TileFunction(tile, low, right).text(declarations)


class _TileFunction:
    def __init__(self, tile: MicrokernelTile, low: bool, right: bool) -> None:
        self.low, self.name = low, tile_name(low, right)
        self.rows = tile.edge_rows if low else tile.rows
        self.vectors = tile.edge_vectors if right else tile.vectors
        # Edges are a small part of the work: unrolling them would only make the build longer.
        self.unroll = 1 if low or right else tile.unroll
        self.vector = tile.vector
        self.w = IRWriter()
        self.masks = [self._mask(at) for at in range(self.vectors)] if right else None
        self.lda, self.ldb, self.ldc = (
            stride_bytes(self.w, name, self.vector) for name in ("lda", "ldb", "ldc")
        )

    def text(self, declarations: set[str]) -> str:
        w = self.w
        self._store(self._sums())
        w.emit("ret void")
        declarations |= w.declarations
        bits = 8 * self.vector.item_bytes * self.vector.lanes
        signature = f"void {self.name}({PARAMETERS})"
        return function(w, signature, bits, linkage="internal", attributes="noinline")

    def _mask(self, number: int) -> str:
        """A mask of the lanes of a vector that lie before the last column."""
        lanes = self.vector.lanes
        first = number * lanes
        numbers = "<" + ", ".join(f"i64 {first + lane}" for lane in range(lanes)) + ">"
        limit = self.w.splat_text(f"<{lanes} x i64>", "i64", "%width", lanes)
        return self.w.value(f"icmp ult <{lanes} x i64> {numbers}, {limit}")

    def _rows_from(self, start: str, stride: str) -> list[str]:
        """A pointer to each row; rows beyond the last one repeat it."""
        w, pointers = self.w, [start]
        for row in range(1, self.rows):
            after = w.advance(pointers[-1], stride)
            if self.low:
                inside = w.value(f"icmp ugt i64 %height, {row}")
                after = w.value(f"select i1 {inside}, ptr {after}, ptr {pointers[-1]}")
            pointers.append(after)
        return pointers

    def _bases(self) -> list[str]:
        """Pointers into A that move along k.

        In a whole tile every third row has a pointer, and the two between are reached by lda and 2
        lda: a pointer for each row would need more general registers than there are.
        """
        if self.low:
            return self._rows_from("%a", self.lda)
        w, bases = self.w, ["%a"]
        self.lda2 = w.value(f"shl i64 {self.lda}, 1")
        lda3 = w.value(f"add i64 {self.lda}, {self.lda2}")
        for _ in range(_BASE_EVERY, self.rows, _BASE_EVERY):
            bases.append(w.advance(bases[-1], lda3))
        return bases

    def _row(self, bases: list[str], row: int) -> str:
        if self.low:
            return bases[row]
        between = (0, self.lda, self.lda2)[row % _BASE_EVERY]
        return self.w.advance(bases[row // _BASE_EVERY], between)

    def _sums(self) -> list[str]:
        """The sums over all of K, row by row."""
        w = self.w
        pointers = [*self._bases(), "%b"]
        count = len(pointers)
        zeros = [self.vector.constant(0.0)] * (self.rows * self.vectors)
        carried: Carried = [("ptr", pointer) for pointer in pointers]
        carried += [(self.vector.text, zero) for zero in zeros]
        if self.unroll == 1:
            return w.loop("%depth", carried, self._round(count, 1))[count:]
        whole = w.value(f"udiv i64 %depth, {self.unroll}")
        rest = w.value(f"urem i64 %depth, {self.unroll}")
        state = w.loop_or_skip(whole, carried, self._round(count, self.unroll))
        kinds = [kind for kind, _ in carried]
        again = list(zip(kinds, state, strict=True))
        return w.loop_or_skip(rest, again, self._round(count, 1))[count:]

    def _round(self, count: int, steps: int) -> Callable[[str, list[str]], list[str]]:
        """The body of `steps` steps of k; the first `count` carried values are pointers."""
        w = self.w

        def body(_: str, state: list[str]) -> list[str]:
            bases, b, sums = state[: count - 1], state[count - 1], state[count:]
            for step in range(steps):
                sums = self._step(bases, b, sums, step)
                b = w.advance(b, self.ldb)
            return [*(w.advance(p, steps * self.vector.item_bytes) for p in bases), b, *sums]

        return body

    def _step(self, bases: list[str], b: str, sums: list[str], step: int) -> list[str]:
        w = self.w
        columns = [w.load(self.vector, at, mask) for at, mask in self._vectors_from(b)]
        after: list[str] = []
        for row in range(self.rows):
            place = w.advance(self._row(bases, row), step * self.vector.item_bytes)
            element = w.broadcast(self.vector, place)
            for column in columns:
                after.append(w.call(self.vector, "fmuladd", [element, column, sums[len(after)]]))
        return after

    def _vectors_from(self, start: str) -> list[tuple[str, str | None]]:
        """The addresses of the vectors of a row, and their masks."""
        bytes_ = self.vector.lanes * self.vector.item_bytes
        masks: Sequence[str | None] = self.masks or [None] * self.vectors
        return [(self.w.advance(start, at * bytes_), mask) for at, mask in enumerate(masks)]

    def _store(self, sums: list[str]) -> None:
        w, text = self.w, self.vector.text
        rows = self._rows_from("%c", self.ldc)
        places = [place for row in rows for place in self._vectors_from(row)]
        before, add, join = w.block, w.name("add"), w.name("join")
        w.emit(f"br i1 %add, label %{add}, label %{join}")
        w.open_block(add)
        # All of C is read before any of it is written: repeated rows must see the old values.
        old = [w.load(self.vector, at, mask) for at, mask in places]
        both = [w.value(f"fadd {text} {b}, {s}") for b, s in zip(old, sums, strict=True)]
        w.emit(f"br label %{join}")
        w.open_block(join)
        totals = [
            w.value(f"phi {text} [ {s}, %{before} ], [ {b}, %{add} ]")
            for s, b in zip(sums, both, strict=True)
        ]
        for (at, mask), total in zip(places, totals, strict=True):
            w.store(self.vector, total, at, mask)
