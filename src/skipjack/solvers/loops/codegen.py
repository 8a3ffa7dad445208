"""From a nest and a schedule to LLVM IR.

Loops outside of the marked suffix become loops, each with a tail where its step does not divide its
range. The marked suffix becomes straight code over vectors (the *tile*, in `tile_code`). Reduction
loops that stand directly above the tile carry the accumulators in registers; a reduction loop
further out makes the tile start from what the output already holds.
"""

from __future__ import annotations

from dataclasses import replace

from skipjack.core.nest import Nest
from skipjack.native.ir import IRWriter, VectorType, function
from skipjack.solvers.loops.schedule import Mark, Schedule, ranges
from skipjack.solvers.loops.tile_code import Flag, Spot, TileCode


def generate(nest: Nest, schedule: Schedule, dtype: str, lanes: int) -> str:
    """A module with a function ``void @kernel(ptr slots)``.

    The slots are the input pointers, then the output's. Where the outermost loop is marked
    parallel, a pool of threads and their number follow.
    """
    return _Generator(nest, schedule, dtype, lanes).module()


def is_parallel(schedule: Schedule) -> bool:
    """Whether threads share the outermost loop out."""
    return bool(schedule.loops) and schedule.loops[0].mark is Mark.PARALLEL


class _Generator:
    def __init__(self, nest: Nest, schedule: Schedule, dtype: str, lanes: int) -> None:
        self.nest = nest
        self.reduced = frozenset(nest.reduction_loops)
        loops, start = schedule.loops, schedule.suffix_start
        carry = start
        while nest.reduction and carry and loops[carry - 1].variable in self.reduced:
            carry -= 1
        self.outer = loops[:carry]
        self.parallel = is_parallel(schedule)
        self.w = IRWriter()
        self.vector = VectorType(dtype, _lanes(nest, schedule, lanes))
        self.tile = TileCode(self.w, nest, loops[carry:start], loops[start:], self.vector)

    def module(self) -> str:
        """The text of the whole module."""
        bases = []
        for slot, access in enumerate(self.tile.accesses):
            at = self.w.advance("%slots", 8 * slot)
            pointer = self.w.value(f"load ptr, ptr {at}, align 8")
            bases.append(self.w.advance(pointer, access.offset * self.vector.item_bytes))
        spot = Spot(tuple(bases), dict(self.nest.loops))
        bits = max(128, 8 * self.vector.item_bytes * self.vector.lanes)
        if self.parallel:
            self._share(spot)
            self.w.emit("ret void")
            signature = "void @task(ptr noalias readonly %slots, i64 %index, i64 %count)"
            text = function(self.w, signature, bits, linkage="internal") + self._launch()
        else:
            self._outer(0, spot)
            self.w.emit("ret void")
            text = function(self.w, "void @kernel(ptr noalias readonly %slots)", bits)
        return "\n".join([*sorted(self.w.declarations), text])

    def _launch(self) -> str:
        """The entry that hands the task to the pool."""
        w, after = IRWriter(), len(self.tile.accesses)
        pool = w.value(f"load ptr, ptr {w.advance('%slots', 8 * after)}, align 8")
        count = w.value(f"load i64, ptr {w.advance('%slots', 8 * (after + 1))}, align 8")
        w.emit(f"call void {pool}(ptr @task, ptr %slots, i64 {count})")
        w.emit("ret void")
        return function(w, "void @kernel(ptr %slots)", 128)

    def _share(self, spot: Spot) -> None:
        """A thread's rounds of the outermost loop; the last thread also does its tail."""
        w, loop = self.w, self.outer[0]
        full, tail = divmod(spot.ranges[loop.variable], loop.step)
        before = w.value(f"udiv i64 {w.value(f'mul i64 %index, {full}')}, %count")
        following = w.value("add i64 %index, 1")
        end = w.value(f"udiv i64 {w.value(f'mul i64 {following}, {full}')}, %count")
        rounds = w.value(f"sub i64 {end}, {before}")
        item = self.vector.item_bytes
        starts = []
        for pointer, access in zip(spot.pointers, self.tile.accesses, strict=True):
            step = access.stride(loop.variable) * loop.step * item
            starts.append(w.advance(pointer, w.value(f"mul i64 {before}, {step}")))

        def body(_: str, pointers: list[str]) -> list[str]:
            ranges = {**spot.ranges, loop.variable: loop.step}
            self._outer(1, replace(spot, pointers=tuple(pointers), ranges=ranges))
            return self.tile.moved(tuple(pointers), loop.variable, loop.step)

        w.loop_or_skip(rounds, [("ptr", pointer) for pointer in starts], body)
        if tail:
            last = w.value(f"icmp eq i64 {following}, %count")
            w.when(last, lambda: self._tail(spot, full, tail))

    def _tail(self, spot: Spot, full: int, tail: int) -> None:
        loop = self.outer[0]
        pointers = tuple(self.tile.moved(spot.pointers, loop.variable, full * loop.step))
        ranges = {**spot.ranges, loop.variable: tail}
        self._outer(1, replace(spot, pointers=pointers, ranges=ranges))

    def _outer(self, position: int, spot: Spot) -> None:
        if position == len(self.outer):
            self.tile.emit(spot)
            return
        loop = self.outer[position]
        full, tail = divmod(spot.ranges[loop.variable], loop.step)
        reduced = loop.variable in self.reduced

        if full:

            def body(counter: str, pointers: list[str]) -> list[str]:
                first, last = spot.first, spot.last
                if reduced and full + bool(tail) > 1:
                    first = self._both(first, self._is(counter, 0, full))
                    last = self._both(last, not tail and self._is(counter, full - 1, full))
                inner = replace(
                    spot,
                    pointers=tuple(pointers),
                    ranges={**spot.ranges, loop.variable: loop.step},
                    first=first,
                    last=last,
                )
                self._outer(position + 1, inner)
                return self.tile.moved(tuple(pointers), loop.variable, loop.step)

            self.w.loop(full, [("ptr", pointer) for pointer in spot.pointers], body)
        if tail:
            pointers = tuple(self.tile.moved(spot.pointers, loop.variable, full * loop.step))
            ranges = {**spot.ranges, loop.variable: tail}
            first = spot.first if not (reduced and full) else False
            self._outer(position + 1, replace(spot, pointers=pointers, ranges=ranges, first=first))

    def _is(self, counter: str, value: int, rounds: int) -> Flag:
        if rounds == 1:
            return True
        return self.w.value(f"icmp eq i64 {counter}, {value}")

    def _both(self, left: Flag, right: Flag) -> Flag:
        if isinstance(left, bool):
            return right if left else False
        if isinstance(right, bool):
            return left if right else False
        return self.w.value(f"and i1 {left}, {right}")


def _lanes(nest: Nest, schedule: Schedule, lanes: int) -> int:
    """Lanes of a vector: a range that half a vector covers gets a half, not a mask."""
    for loop, covered in zip(schedule.loops, ranges(schedule, nest), strict=True):
        if loop.mark is Mark.VECTORIZE:
            return min(lanes, 1 << (covered - 1).bit_length())
    return 1
