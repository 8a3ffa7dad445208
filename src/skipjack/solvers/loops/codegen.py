"""From a nest and a schedule to LLVM IR.

Loops outside of the marked suffix become loops, each with a tail where its step does not divide its
range. The marked suffix becomes straight code over vectors (the *tile*, in `tile_code`). Reduction
loops that stand directly above the tile carry the accumulators in registers; a reduction loop
further out makes the tile start from what the output already holds.
"""

from __future__ import annotations

from dataclasses import replace

from skipjack.core.nest import Nest
from skipjack.native.ir import STREAM_METADATA, IRWriter, VectorType, function
from skipjack.solvers.cpu.nest import (
    Schedule,
    carrying_start,
    has_partials,
    is_aligned,
    is_parallel,
    is_streaming,
    shared_loops,
    vector_lanes,
)
from skipjack.solvers.loops.entry import KERNEL, hand_out, slot, task_signature
from skipjack.solvers.loops.partial_results import join, partial_bytes
from skipjack.solvers.loops.sharing import Sharing
from skipjack.solvers.loops.streaming import stream_alignments, streamed_if_aligned
from skipjack.solvers.loops.tile_code import TileCode
from skipjack.solvers.loops.tile_points import Flag, Spot


def generate(
    nest: Nest, schedule: Schedule, dtype: str, lanes: int, *, accumulate: bool = False
) -> str:
    """A module with a function ``void @kernel(ptr slots)``.

    The slots are the input pointers, then the output's. Where the outermost loop is marked
    parallel, a pool of threads and their number follow; where it reduces, a workspace of
    `partial_bytes` for each thread after these. With `accumulate` sums are added to what the
    output holds; threads cannot share a reduction out then.
    """
    return _Generator(nest, schedule, dtype, lanes, accumulate).module()


class _Generator:
    def __init__(
        self, nest: Nest, schedule: Schedule, dtype: str, lanes: int, accumulate: bool
    ) -> None:
        self.nest, self.accumulate = nest, accumulate
        self.reduced = frozenset(nest.reduction_loops)
        loops, start = schedule.loops, schedule.suffix_start
        carry = carrying_start(schedule, nest)
        self.outer = loops[:carry]
        self.shared = shared_loops(schedule)
        self.partial = has_partials(schedule, nest)
        self.w = IRWriter()
        self.vector = VectorType(dtype, vector_lanes(schedule, nest, lanes))
        self.widest = VectorType(dtype, lanes)
        self.tile = TileCode(self.w, nest, loops[carry:start], loops[start:], self.vector)
        self.streaming = is_streaming(schedule) and is_aligned(schedule, nest, lanes)
        self.parallel = is_parallel(schedule)

    def module(self) -> str:
        """The text of the whole module."""
        spot = Spot(self._bases(), dict(self.nest.loops), first=not self.accumulate)
        if self.streaming:
            streamed_if_aligned(
                self.w,
                spot.pointers[-1],
                stream_alignments(self.vector),
                lambda alignment: self._everything(replace(spot, stream=alignment)),
            )
        else:
            self._everything(spot)
        self.w.emit("ret void")
        declarations = self.w.declarations
        if self.parallel:
            launch = self._launch()
            declarations = declarations | launch.declarations
            text = function(self.w, task_signature(), _bits(self.vector), linkage="internal")
            text += function(launch, KERNEL, _bits(self.widest))
        else:
            text = function(self.w, KERNEL, _bits(self.vector))
        return "\n".join([*sorted(declarations), text, STREAM_METADATA])

    def _bases(self) -> tuple[str, ...]:
        """Where each access begins; a thread's own copy of the output, if it has one."""
        w, count = self.w, len(self.tile.accesses)
        pointers = [slot(w, number) for number in range(count)]
        if self.partial:
            own = w.value(f"mul i64 %index, {partial_bytes(self.nest, self.vector.dtype)}")
            pointers[-1] = w.advance(slot(w, count + 2), own)
        return tuple(
            w.advance(pointer, access.offset * self.vector.item_bytes)
            for pointer, access in zip(pointers, self.tile.accesses, strict=True)
        )

    def _everything(self, spot: Spot) -> None:
        if self.shared:
            inside = len(self.shared)
            sharing = Sharing(self.w, self.tile.accesses, self.shared, self.vector.item_bytes)
            sharing.emit(spot, self.partial, lambda here: self._outer(inside, here))
        else:
            self._outer(0, spot)

    def _launch(self) -> IRWriter:
        """The entry that hands the task to the pool and joins partial results."""
        w, after = IRWriter(), len(self.tile.accesses)
        if self.partial:
            # No thread may be without a round: its copy would hold anything.
            loop = self.shared[0]
            count = hand_out(w, after, -(-self.nest.extent(loop.variable) // loop.step))
            pointers = (slot(w, after - 1), slot(w, after + 2))
            join(w, self.nest, self.widest, pointers, count)
        else:
            hand_out(w, after)
        w.emit("ret void")
        return w

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


def _bits(vector: VectorType) -> int:
    return max(128, 8 * vector.item_bytes * vector.lanes)
