"""The register tile of an implicit matrix product, and what all its kernels share.

The places of a tile's rows in A and C are constants of the problem, so one pointer reaches them
all. The sums stay in registers through several loops over parts of the reduction; each loop may
leave rows out, namely those that would read padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from skipjack.native import Carried, VectorType, constant_mask, function
from skipjack.solvers.cpu.ir import KERNEL, WholeNumberWriter, run_or_call, slot

# The tile.

Inside = Callable[[str, str, list[str]], list[str]]
"""Writes a loop's body: from pointers into A and B and the sums, to the sums afterwards."""


@dataclass(frozen=True, slots=True)
class ImplicitTile:
    """Rows by columns; offsets of rows are in bytes from the tile's pointer."""

    a_rows: tuple[int, ...]
    c_rows: tuple[int, ...]
    columns: int
    vector: VectorType

    @property
    def vectors(self) -> int:
        """Vectors of a row."""
        return -(-self.columns // self.vector.lanes)

    @property
    def masks(self) -> list[str | None]:
        """For each vector, a mask of the lanes of B and C that exist."""
        lanes = self.vector.lanes
        starts = range(0, self.columns, lanes)
        return [constant_mask(lanes, min(lanes, self.columns - start)) for start in starts]

    @property
    def width(self) -> int:
        """Bytes of a vector."""
        return self.vector.lanes * self.vector.item_bytes


@dataclass(frozen=True, slots=True)
class ReductionLoop:
    """A loop of a reduction: iterations, and the bytes by which each moves A and B."""

    rounds: int | str
    a_move: int
    b_move: int | str


class TileWriter:
    """Writes the code of one tile; sums are a list of values, row by row."""

    def __init__(self, w: WholeNumberWriter, tile: ImplicitTile) -> None:
        self.w, self.tile = w, tile

    @property
    def row_sums(self) -> int:
        """Sums of a row, each of them a vector."""
        return self.tile.vectors

    def zeros(self) -> list[str]:
        """The initial sums."""
        return [self.tile.vector.constant(0.0)] * (len(self.tile.a_rows) * self.row_sums)

    def around(
        self, loop: ReductionLoop, a: str, b: str, sums: list[str], inside: Inside
    ) -> list[str]:
        """A loop around other loops."""
        w = self.w

        def body(_: str, state: list[str]) -> list[str]:
            done = inside(state[0], state[1], state[2:])
            return [w.advance(state[0], loop.a_move), w.advance(state[1], loop.b_move), *done]

        start: Carried = [("ptr", a), ("ptr", b), *((self.tile.vector.text, s) for s in sums)]
        if isinstance(loop.rounds, int):
            return w.loop(loop.rounds, start, body)[2:] if loop.rounds else sums
        return w.loop_or_skip(loop.rounds, start, body)[2:]

    def accumulate(
        self, rows: Sequence[int], loop: ReductionLoop, a: str, b: str, sums: list[str]
    ) -> list[str]:
        """The innermost loop: each iteration adds a product of an element and vectors to some
        rows."""
        if not rows:
            return sums
        count = self.row_sums
        places = [row * count + part for row in rows for part in range(count)]
        some = [sums[at] for at in places]
        done = self.around(loop, a, b, some, lambda *at: self.step(rows, *at))
        result = list(sums)
        for at, value in zip(places, done, strict=True):
            result[at] = value
        return result

    def step(self, rows: Sequence[int], a: str, b: str, sums: list[str]) -> list[str]:
        """One iteration of the innermost loop."""
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
        """Store the sums, or add them to the values there; an i1 value may decide."""
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


# Named slots, and the module of a kernel.

SHARED = ("parallel", "threads")
"""The first two slots of every such kernel: the pool, and how many threads it has."""


def slot_number(name: str, pointers: Sequence[str], numbers: Sequence[str] = ()) -> int:
    """The index of a named slot."""
    return (*SHARED, *pointers, *numbers).index(name)


class NamedSlots(WholeNumberWriter):
    """Reads slots by their names: after the shared ones pointers, then numbers."""

    def __init__(self, pointers: Sequence[str], numbers: Sequence[str] = ()) -> None:
        super().__init__()
        self._pointers, self._numbers = tuple(pointers), tuple(numbers)

    def given(self, name: str) -> str:
        """Load a slot."""
        kind = "ptr" if name in (SHARED[0], *self._pointers) else "i64"
        return slot(self, slot_number(name, self._pointers, self._numbers), kind)


@dataclass
class KernelModule:
    """A module under construction, for vectors of one type."""

    vector: VectorType
    texts: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def take(self, part: tuple[str, set[str]]) -> None:
        """Add a finished function and the declarations that it needs."""
        self.texts.append(part[0])
        self.declarations |= part[1]

    def close(self, w: WholeNumberWriter, signature: str, linkage: str = "internal") -> None:
        """Add a function whose body is complete except for the last return."""
        w.emit("ret void")
        bits = 8 * self.vector.lanes * self.vector.item_bytes
        attributes = "noinline" if linkage else ""
        text = function(w, signature, bits, linkage=linkage, attributes=attributes)
        self.take((text, w.declarations))

    def text(self) -> str:
        """The module, with an entry that runs ``@task`` on the pool."""
        w = NamedSlots(())
        run_or_call(w, w.given("parallel"), w.given("threads"))
        self.close(w, KERNEL, linkage="")
        return "\n".join([*sorted(self.declarations), *self.texts])
