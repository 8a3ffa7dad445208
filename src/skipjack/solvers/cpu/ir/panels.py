"""Packing blocks of a matrix into panels, from either storage order, and transposing in registers.

A panel has `size` neighbours along one axis (rows of A, columns of B) for each step along the other
axis, over which products sum; it is written step by step. If the last panel has fewer neighbours,
the rest of it is uninitialized: results computed from it are never stored.
"""

from __future__ import annotations

from collections.abc import Callable

from skipjack.native import Carried, VectorType, constant_mask, function
from skipjack.solvers.cpu.ir.kernel import WholeNumberWriter

_PANELS_AT_ONCE = 4
"""Panels written in one pass: 1, 2 and 16 are up to 4 % slower for whole products."""
PARAMETERS = (
    "ptr noalias %from, ptr noalias %to, i64 %count, i64 %depth, i64 %along, i64 %down, i64 %panel"
)
"""Neighbours and steps of a block; the strides of both axes and from panel to panel, in bytes."""


def packing_function(name: str, size: int, vector: VectorType) -> tuple[str, set[str]]:
    """A function ``void @name(...)`` with `PARAMETERS`, and the declarations that it needs."""
    packer = _Packer(size, vector)
    packer.write()
    bits = 8 * vector.lanes * vector.item_bytes
    signature = f"void @{name}({PARAMETERS})"
    text = function(packer.w, signature, bits, linkage="internal", attributes="noinline")
    return text, packer.w.declarations


class _Packer:
    def __init__(self, size: int, vector: VectorType) -> None:
        self.size, self.vector = size, vector
        self.scalar = VectorType(vector.dtype, 1)
        self.item, self.lanes = vector.item_bytes, vector.lanes
        self.w = WholeNumberWriter()

    def write(self) -> None:
        w = self.w
        dense = w.value(f"icmp eq i64 %along, {self.item}")
        w.either(dense, self._by_steps, self._by_panels)
        w.emit("ret void")

    # Neighbours lie side by side in memory

    def _by_steps(self) -> None:
        """Write a few panels at a time, step by step.

        If each step wrote to all panels, its lines would lie one panel apart, often at the same
        page offset, and evict each other from the first cache.
        """
        w, width = self.w, self.size * self.item
        full = w.value(f"udiv i64 %count, {self.size}")
        rest = w.value(f"urem i64 %count, {self.size}")
        whole = [
            constant_mask(self.lanes, min(self.lanes, self.size - start))
            for start in range(0, self.size, self.lanes)
        ]

        def panels(count: int, masks: list[str | None]) -> Callable[[str, list[str]], list[str]]:
            """All steps of `count` panels; returns the start of the next ones."""

            def step(_: str, at: list[str]) -> list[str]:
                source, target = at
                for number in range(count):
                    self._copy(w.advance(source, number * width), target, masks)
                    target = w.advance(target, "%panel")
                return [w.advance(at[0], "%down"), w.advance(at[1], width)]

            def body(_: str, at: list[str]) -> list[str]:
                w.loop("%depth", [("ptr", pointer) for pointer in at], step)
                return [w.advance(at[0], count * width), w.advance(at[1], w.mul("%panel", count))]

            return body

        at = ["%from", "%to"]
        for count, rounds in (
            (_PANELS_AT_ONCE, w.value(f"udiv i64 {full}, {_PANELS_AT_ONCE}")),
            (1, w.value(f"urem i64 {full}, {_PANELS_AT_ONCE}")),
        ):
            carried: Carried = [("ptr", pointer) for pointer in at]
            at = w.loop_or_skip(rounds, carried, panels(count, whole))
        last = panels(1, self._masks(rest))

        def part() -> None:
            last("0", at)

        w.when(w.value(f"icmp ne i64 {rest}, 0"), part)

    def _copy(self, source: str, target: str, masks: list[str | None]) -> None:
        for part, mask in enumerate(masks):
            offset = part * self.lanes * self.item
            value = self.w.load(self.vector, self.w.advance(source, offset), mask)
            self.w.store(self.vector, value, self.w.advance(target, offset), mask)

    def _masks(self, have: str) -> list[str | None]:
        """The masks of the vectors of a panel that has fewer neighbours."""
        return [
            self.w.first_lanes(self.lanes, self.w.without(have, start))
            for start in range(0, self.size, self.lanes)
        ]

    # Steps lie side by side in memory, or neither do

    def _by_panels(self) -> None:
        w, size = self.w, self.size
        dense = w.value(f"icmp eq i64 %down, {self.item}")
        full = w.value(f"udiv i64 %depth, {self.lanes}")
        blocks = w.value(f"select i1 {dense}, i64 {full}, i64 0")
        done = w.mul(blocks, self.lanes)

        def panel(number: str, at: list[str]) -> list[str]:
            have = w.least(w.sub("%count", w.mul(number, size)), size)
            last = w.sub(have, 1)
            for start in range(0, size, self.lanes):
                # Missing neighbours are read from the last one.
                rows = [
                    w.advance(at[0], w.mul(w.least(row, last), "%along"))
                    for row in range(start, min(start + self.lanes, size))
                ]
                self._transposed(rows, w.advance(at[1], start * self.item), blocks)
            self._one_by_one(at, have, done)
            return [w.advance(at[0], w.mul("%along", size)), w.advance(at[1], "%panel")]

        w.loop(w.rounds("%count", size), [("ptr", "%from"), ("ptr", "%to")], panel)

    def _transposed(self, rows: list[str], target: str, blocks: str) -> None:
        """Square tiles of as many steps as lanes, transposed in registers."""
        w, width = self.w, self.lanes * self.item
        mask = constant_mask(self.lanes, len(rows))

        def square(_: str, at: list[str]) -> list[str]:
            *sources, to = at
            values = transpose(w, self.vector, [w.load(self.vector, p) for p in sources])
            for number, value in enumerate(values):
                w.store(self.vector, value, w.advance(to, number * self.size * self.item), mask)
            moved = [w.advance(p, width) for p in sources]
            return [*moved, w.advance(to, self.lanes * self.size * self.item)]

        w.loop_or_skip(blocks, [("ptr", pointer) for pointer in [*rows, target]], square)

    def _one_by_one(self, at: list[str], have: str, done: str) -> None:
        """The steps left over by the transposed tiles."""
        w = self.w
        source = w.advance(at[0], w.mul(done, "%down"))
        target = w.advance(at[1], w.mul(done, self.size * self.item))

        def element(_: str, here: list[str]) -> list[str]:
            w.store(self.scalar, w.load(self.scalar, here[0]), here[1])
            return [w.advance(here[0], "%along"), w.advance(here[1], self.item)]

        def step(_: str, here: list[str]) -> list[str]:
            w.loop(have, [("ptr", here[0]), ("ptr", here[1])], element)
            return [w.advance(here[0], "%down"), w.advance(here[1], self.size * self.item)]

        w.loop_or_skip(w.sub("%depth", done), [("ptr", source), ("ptr", target)], step)


def transpose(w: WholeNumberWriter, vector: VectorType, rows: list[str]) -> list[str]:
    """Transpose rows: the first result has the first element of every row, and so on.

    With fewer rows than lanes, the remaining lanes are undefined. Each row exchanges elements with
    the row 1, 2, 4 ... after it.
    """
    lanes = vector.lanes
    values = [*rows, *["poison"] * (lanes - len(rows))]
    distance = 1
    while distance < lanes:
        low = [lane - distance + lanes if lane & distance else lane for lane in range(lanes)]
        high = [lane + lanes if lane & distance else lane + distance for lane in range(lanes)]
        for at in range(lanes):
            if at & distance:
                continue
            pair = values[at], values[at + distance]
            if pair == ("poison", "poison"):
                continue
            values[at], values[at + distance] = (
                w.shuffle(vector, pair, indices) for indices in (low, high)
            )
        distance *= 2
    return values
