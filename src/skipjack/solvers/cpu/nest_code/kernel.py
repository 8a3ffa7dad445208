"""From a nest and a schedule to LLVM IR: the loops around the tile, shared out to threads.

Loops outside the marked suffix become loops, each with a tail if its step does not divide its
range. The marked suffix becomes straight-line code over vectors (the *tile*). Reduction loops
directly above the tile carry the accumulators in registers; a reduction loop further out makes the
tile start from the values that the output already holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from skipjack.core import Access, Accumulator, Load, Nest
from skipjack.native import (
    ITEM_BYTES,
    STREAM_METADATA,
    IRWriter,
    VectorType,
    constant_mask,
    function,
)
from skipjack.solvers.cpu.ir import (
    KERNEL,
    combine,
    evaluated,
    run_on_pool,
    share,
    share_with_tail,
    slot,
    stream_alignments,
    streamed_if_aligned,
    task_signature,
)
from skipjack.solvers.cpu.nest import (
    Loop,
    Schedule,
    carrying_start,
    has_partials,
    is_aligned,
    is_parallel,
    is_streaming,
    shared_loops,
    vector_lanes,
)
from skipjack.solvers.cpu.nest_code.accumulators import Flag, TilePosition
from skipjack.solvers.cpu.nest_code.tile import TileCode

# The loops that are shared out to threads.
#
# The iterations of all shared loops are numbered together, and every thread takes a range of
# consecutive numbers. A tail is an iteration like the others.

Inside = Callable[[TilePosition], None]
"""Writes the code of one iteration."""


class SharedLoops:
    """Writes one thread's share; ``%index`` is the number of the thread, ``%count`` of how many."""

    def __init__(
        self, writer: IRWriter, accesses: tuple[Access, ...], loops: tuple[Loop, ...], item: int
    ) -> None:
        self.w, self.accesses, self.loops, self.item = writer, accesses, loops, item

    def emit(self, tile_at: TilePosition, partial: bool, inside: Inside) -> None:
        """All iterations of this thread. With partial results, the first one initializes them."""
        if len(self.loops) == 1:
            self._one_loop(tile_at, partial, inside)
        else:
            self._several_loops(tile_at, inside)

    def _one_loop(self, tile_at: TilePosition, partial: bool, inside: Inside) -> None:
        """Pointers advance by one iteration; the thread with the last iteration also has the
        tail."""
        w, loop = self.w, self.loops[0]
        full, tail = divmod(tile_at.ranges[loop.variable], loop.step)
        own = share_with_tail(w, full, bool(tail))
        moves = [access.stride(loop.variable) * loop.step * self.item for access in self.accesses]
        starts = [
            w.advance(pointer, w.value(f"mul i64 {own.begin}, {move}") if move else 0)
            for pointer, move in zip(tile_at.pointers, moves, strict=True)
        ]

        def body(counter: str, pointers: list[str]) -> list[str]:
            here = replace(
                tile_at,
                pointers=tuple(pointers),
                ranges={**tile_at.ranges, loop.variable: loop.step},
                first=w.value(f"icmp eq i64 {counter}, 0") if partial else tile_at.first,
                last=tile_at.last if not partial else False,
            )
            inside(here)
            pairs = zip(pointers, moves, strict=True)
            return [w.advance(pointer, move) for pointer, move in pairs]

        def last_round() -> None:
            pairs = zip(tile_at.pointers, moves, strict=True)
            here = replace(
                tile_at,
                pointers=tuple(w.advance(pointer, full * move) for pointer, move in pairs),
                ranges={**tile_at.ranges, loop.variable: tail},
                first=w.value(f"icmp eq i64 {own.rounds}, 0") if partial else tile_at.first,
                last=tile_at.last if not partial else False,
            )
            inside(here)

        w.loop_or_skip(own.rounds, [("ptr", pointer) for pointer in starts], body)
        if tail:
            w.when(own.has_tail, last_round)

    def _several_loops(self, tile_at: TilePosition, inside: Inside) -> None:
        """The indices of every iteration are computed from its number."""
        w = self.w
        sizes = [-(-tile_at.ranges[loop.variable] // loop.step) for loop in self.loops]
        begin, end = share(w, prod(sizes))

        def body(counter: str, _: list[str]) -> list[str]:
            number = w.value(f"add i64 {begin}, {counter}")
            places: list[str] = []
            for size in reversed(sizes[1:]):
                places.insert(0, w.value(f"urem i64 {number}, {size}"))
                number = w.value(f"udiv i64 {number}, {size}")
            self._settle(0, [number, *places], tile_at, inside)
            return []

        w.loop_or_skip(w.value(f"sub i64 {end}, {begin}"), [], body)

    def _settle(
        self, position: int, places: list[str], tile_at: TilePosition, inside: Inside
    ) -> None:
        """Move the pointers to an iteration, loop by loop; tails have code of their own."""
        if position == len(self.loops):
            inside(tile_at)
            return
        w, loop, place = self.w, self.loops[position], places[position]
        full, tail = divmod(tile_at.ranges[loop.variable], loop.step)
        moves = [access.stride(loop.variable) * loop.step * self.item for access in self.accesses]
        pointers = tuple(
            w.advance(pointer, w.value(f"mul i64 {place}, {move}") if move else 0)
            for pointer, move in zip(tile_at.pointers, moves, strict=True)
        )

        def go(covered: int) -> None:
            ranges = {**tile_at.ranges, loop.variable: covered}
            here = replace(tile_at, pointers=pointers, ranges=ranges)
            self._settle(position + 1, places, here, inside)

        if not tail:
            go(loop.step)
            return
        w.when(w.value(f"icmp ult i64 {place}, {full}"), lambda: go(loop.step))
        w.when(w.value(f"icmp eq i64 {place}, {full}"), lambda: go(tail))


# Partial results of threads that share out a reduction, and how they are combined.
#
# Every thread has a copy of the whole output in the workspace, in the layout of the output. The
# calling thread combines the copies in order of the threads, and applies the epilogue.

_APART = 128
"""Alignment in bytes of each thread's copy, so that copies share no cache line."""


def partial_bytes(nest: Nest, dtype: str) -> int:
    """Size in bytes of one thread's copy of the output."""
    return -(-nest.output.tensor.size * ITEM_BYTES[dtype] // _APART) * _APART


def join_partial_results(
    w: IRWriter, nest: Nest, vector: VectorType, pointers: tuple[str, str], count: str
) -> None:
    """Write the output from the workspace of `count` threads; `pointers` are output and
    workspace."""
    output, workspace = pointers
    apart = partial_bytes(nest, vector.dtype)
    width = vector.lanes * vector.item_bytes
    full, rest = divmod(nest.output.tensor.size, vector.lanes)

    def vector_at(to: str, start: str, mask: str | None) -> None:
        first = w.load(vector, start, mask)

        def add(_: str, state: list[str]) -> list[str]:
            at, total = w.advance(state[0], apart), state[1]
            value = w.load(vector, at, mask)
            return [at, combine(w, vector, nest.reduction, total, value)]

        others = w.value(f"sub i64 {count}, 1")
        start_state = [("ptr", start), (vector.text, first)]
        total = w.loop_or_skip(others, start_state, add)[1]

        def leaf(scalar: Load | Accumulator) -> str:
            assert isinstance(scalar, Accumulator), "refused by the check of the schedule"
            return total

        w.store(vector, evaluated(w, vector, nest.epilogue, leaf), to, mask)

    def body(_: str, at: list[str]) -> list[str]:
        vector_at(at[0], at[1], None)
        return [w.advance(pointer, width) for pointer in at]

    if full:
        w.loop(full, [("ptr", output), ("ptr", workspace)], body)
    if rest:
        ends = [w.advance(pointer, full * width) for pointer in pointers]
        vector_at(ends[0], ends[1], constant_mask(vector.lanes, rest))


# The loops around a tile, from a nest and a schedule.


def generate(
    nest: Nest, schedule: Schedule, dtype: str, lanes: int, *, accumulate: bool = False
) -> str:
    """The module of a kernel, with a function ``void @kernel(ptr slots)``.

    The slots are the pointers to the inputs, then to the output. If the outermost loop is marked
    parallel, a pool of threads and their number follow; if it reduces, then a workspace with
    `partial_bytes` for each thread. With `accumulate` sums are added to the values in the output;
    then threads cannot share out a reduction.
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
        tile_at = TilePosition(self._bases(), dict(self.nest.loops), first=not self.accumulate)
        if self.streaming:
            streamed_if_aligned(
                self.w,
                tile_at.pointers[-1],
                stream_alignments(self.vector),
                lambda alignment: self._everything(replace(tile_at, stream=alignment)),
            )
        else:
            self._everything(tile_at)
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
        """The first address of each access; for the output the thread's own copy, if it has one."""
        w, count = self.w, len(self.tile.accesses)
        pointers = [slot(w, number) for number in range(count)]
        if self.partial:
            own = w.value(f"mul i64 %index, {partial_bytes(self.nest, self.vector.dtype)}")
            pointers[-1] = w.advance(slot(w, count + 2), own)
        return tuple(
            w.advance(pointer, access.offset * self.vector.item_bytes)
            for pointer, access in zip(pointers, self.tile.accesses, strict=True)
        )

    def _everything(self, tile_at: TilePosition) -> None:
        if self.shared:
            inside = len(self.shared)
            sharing = SharedLoops(self.w, self.tile.accesses, self.shared, self.vector.item_bytes)
            sharing.emit(tile_at, self.partial, lambda here: self._outer(inside, here))
        else:
            self._outer(0, tile_at)

    def _launch(self) -> IRWriter:
        """The entry that runs the task on the pool and combines partial results."""
        w, after = IRWriter(), len(self.tile.accesses)
        if self.partial:
            # Every thread must have an iteration: otherwise its copy would be uninitialized.
            loop = self.shared[0]
            count = run_on_pool(w, after, -(-self.nest.extent(loop.variable) // loop.step))
            pointers = (slot(w, after - 1), slot(w, after + 2))
            join_partial_results(w, self.nest, self.widest, pointers, count)
        else:
            run_on_pool(w, after)
        w.emit("ret void")
        return w

    def _outer(self, position: int, tile_at: TilePosition) -> None:
        if position == len(self.outer):
            self.tile.emit(tile_at)
            return
        loop = self.outer[position]
        full, tail = divmod(tile_at.ranges[loop.variable], loop.step)
        reduced = loop.variable in self.reduced

        if full:

            def body(counter: str, pointers: list[str]) -> list[str]:
                first, last = tile_at.first, tile_at.last
                if reduced and full + bool(tail) > 1:
                    first = self._both(first, self._is(counter, 0, full))
                    last = self._both(last, not tail and self._is(counter, full - 1, full))
                inner = replace(
                    tile_at,
                    pointers=tuple(pointers),
                    ranges={**tile_at.ranges, loop.variable: loop.step},
                    first=first,
                    last=last,
                )
                self._outer(position + 1, inner)
                return self.tile.moved(tuple(pointers), loop.variable, loop.step)

            self.w.loop(full, [("ptr", pointer) for pointer in tile_at.pointers], body)
        if tail:
            pointers = tuple(self.tile.moved(tile_at.pointers, loop.variable, full * loop.step))
            ranges = {**tile_at.ranges, loop.variable: tail}
            first = tile_at.first if not (reduced and full) else False
            self._outer(
                position + 1, replace(tile_at, pointers=pointers, ranges=ranges, first=first)
            )

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
