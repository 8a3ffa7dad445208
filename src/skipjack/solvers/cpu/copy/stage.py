"""Strided copies with bounds as a stage of a kernel, and their loops.

A bound limits the range of the last of its loops as soon as the indices of the others are known,
so that nothing is compared inside the loops. Elements outside the range are filled with zeros,
whole boxes at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from skipjack.core import Device
from skipjack.native import ITEM_BYTES, IRWriter, VectorType, function, parallel_slot
from skipjack.solvers.cpu.copy.description import Bound, Copy, CopyLoop
from skipjack.solvers.cpu.copy.inner import (
    ElementCopy,
    InnerCopy,
    InterleavedCopy,
    RowCopy,
    TransposedCopy,
    TransposeSettings,
)
from skipjack.solvers.cpu.copy.loads import Masks, Number, NumberWriter, Range
from skipjack.solvers.cpu.copy.plan import CopyPlan, InnerCopyKind, is_empty, plan_of
from skipjack.solvers.cpu.copy.runs import CopyFunctions
from skipjack.solvers.cpu.ir import KERNEL, IRStage, run_on_pool, share, slot, task_signature
from skipjack.solvers.solver import Slot

# The loops of a copy.

_ROUNDS_PER_THREAD = 4
"""With fewer iterations to share out, further loops are included."""


@dataclass(frozen=True)
class CopyPosition:
    """A position in the loops: the first element there, and what is known of the bounds."""

    out: str
    source: str
    settled: frozenset[str]
    sums: tuple[Number, ...]
    """The sum of each bound over the loops whose index is known."""
    ranges: dict[str, Range]
    masks: Masks | None = None
    """The masks that the inner copy prepared, once its ranges are known."""


class CopyNest:
    def __init__(
        self, plan: CopyPlan, vector: VectorType, transpose_settings: TransposeSettings
    ) -> None:
        self.plan, self.vector = plan, vector
        self.item = vector.item_bytes
        self.w = NumberWriter()
        self.library = CopyFunctions(vector)
        self.inner = self._inner_copy(transpose_settings)

    def _inner_copy(self, transpose_settings: TransposeSettings) -> InnerCopy:
        w, plan, vector = self.w, self.plan, self.vector
        match plan.inner_kind:
            case InnerCopyKind.ROW:
                (loop,) = plan.inner
                bounded = any(bound.coefficient(loop.name) for bound in plan.bounds)
                return RowCopy(w, loop, self.library, bounded=bounded, only_zeros=plan.only_zeros)
            case InnerCopyKind.TRANSPOSED:
                writer, reader = plan.inner
                return TransposedCopy(w, writer, reader, vector, transpose_settings)
            case InnerCopyKind.INTERLEAVED:
                *writers, reader = plan.inner
                return InterleavedCopy(w, writers[0] if writers else None, reader, vector)
            case InnerCopyKind.ELEMENT:
                return ElementCopy(w, vector.dtype, only_zeros=plan.only_zeros)

    # Entry

    def write(self, out: str, source: str) -> None:
        """Write the whole copy."""
        self._level(0, self._start(out, source))

    def write_share(self, out: str, source: str, threads: int) -> None:
        """Write the share of one thread: iterations are numbered through the outermost loops."""
        w, position = self.w, self._start(out, source)
        count = self._shared(threads)
        loops = self.plan.outer[:count]
        extents = [loop.extent for loop in loops]
        blocks = self.inner.blocks if prod(extents) < _ROUNDS_PER_THREAD * threads else 1
        begin, end = share(w, prod(extents) * blocks)

        def one(counter: str, _: list[str]) -> list[str]:
            *places, block = self._places(w.add(begin, counter), [*extents, blocks])
            self._round(loops, places, position, block if blocks > 1 else None)
            return []

        w.loop_or_skip(w.sub(end, begin), [], one)

    def _places(self, number: str, sizes: list[int]) -> list[Number]:
        """The indices of an iteration, from its number."""
        places: list[Number] = []
        for size in reversed(sizes[1:]):
            if size == 1:
                places.insert(0, 0)
            else:
                number, place = self.w.divided(number, size)
                places.insert(0, place)
        return [number, *places]

    def _shared(self, threads: int) -> int:
        """How many of the outermost loops threads share out together."""
        rounds = 1
        for count, loop in enumerate(self.plan.outer):
            if rounds >= _ROUNDS_PER_THREAD * threads:
                return count
            rounds *= loop.extent
        return len(self.plan.outer)

    def _round(
        self,
        loops: tuple[CopyLoop, ...],
        places: list[Number],
        position: CopyPosition,
        block: Number | None,
    ) -> None:
        """One iteration of the shared loops, if no bound excludes it."""
        w = self.w
        holds: list[str] = []
        for loop, place in zip(loops, places, strict=True):
            low, high = position.ranges[loop.name]
            if (low, high) != (0, loop.extent):
                holds.append(w.value(f"icmp sge i64 {place}, {low}"))
                holds.append(w.value(f"icmp slt i64 {place}, {high}"))
            position = self._settle(position, loop, place)
        inside = len(loops)
        if not holds:
            self._level(inside, position, block)
            return
        valid = holds[0]
        for each in holds[1:]:
            valid = w.value(f"and i1 {valid}, {each}")
        w.either(
            valid,
            lambda: self._level(inside, position, block),
            lambda: self._zero_all(inside, position.out, block),
        )

    def _start(self, out: str, source: str) -> CopyPosition:
        plan = self.plan
        out = self.w.advance(out, plan.out_offset * self.item)
        source = self.w.advance(source, plan.source_offset * self.item)
        ranges: dict[str, Range] = {loop.name: (0, loop.extent) for loop in plan.loops}
        sums = tuple(bound.constant for bound in plan.bounds)
        return self._known(CopyPosition(out, source, frozenset(), sums, ranges), plan.bounds)

    # Bounds

    def _settle(self, position: CopyPosition, loop: CopyLoop, index: Number) -> CopyPosition:
        """Move to an index of a loop."""
        w = self.w
        concerned = [bound for bound in self.plan.bounds if bound.coefficient(loop.name)]
        sums = tuple(
            w.plus(total, w.times(index, bound.coefficient(loop.name)))
            if bound in concerned
            and {name for name, _ in bound.terms} - position.settled - {loop.name}
            else total
            for bound, total in zip(self.plan.bounds, position.sums, strict=True)
        )
        position = replace(
            position,
            out=w.moved(position.out, index, loop.out * self.item),
            source=w.moved(position.source, index, loop.source * self.item),
            settled=position.settled | {loop.name},
            sums=sums,
        )
        return self._known(position, concerned)

    def _known(
        self, position: CopyPosition, bounds: tuple[Bound, ...] | list[Bound]
    ) -> CopyPosition:
        """Compute the ranges of loops that are the last unknown ones of these bounds, and the
        masks."""
        ranges = dict(position.ranges)
        for bound, total in zip(self.plan.bounds, position.sums, strict=True):
            left = [term for term in bound.terms if term[0] not in position.settled]
            if bound in bounds and len(left) == 1:
                name, coefficient = left[0]
                ranges[name] = self._narrowed(ranges[name], coefficient, total, bound.size)
        position = replace(position, ranges=ranges)
        if position.masks is None and self._inner_is_known(position):
            position = replace(position, masks=self.inner.prepared(ranges))
        return position

    def _inner_is_known(self, position: CopyPosition) -> bool:
        """Whether the ranges of the innermost loops are final."""
        own = {loop.name for loop in self.plan.inner}
        return all(
            names <= position.settled | own
            for names in ({name for name, _ in bound.terms} for bound in self.plan.bounds)
            if names & own
        )

    def _narrowed(self, old: Range, coefficient: int, total: Number, size: int) -> Range:
        """The part of a range that satisfies ``0 <= coefficient * index + total < size``."""
        w, by = self.w, abs(coefficient)
        below = w.floor_divided(total, by)
        above = w.floor_divided(w.minus(size - 1, total), by)
        if coefficient > 0:
            low, high = w.minus(0, below), w.plus(above, 1)
        else:
            low, high = w.minus(0, above), w.plus(below, 1)
        low = w.smaller(w.larger(low, old[0]), old[1])
        return low, w.larger(w.smaller(high, old[1]), low)

    # Loops

    def _level(self, depth: int, position: CopyPosition, block: Number | None = None) -> None:
        w = self.w
        if depth == len(self.plan.outer):
            assert position.masks is not None
            self.inner.write(position.out, position.source, position.ranges, position.masks, block)
            return
        loop = self.plan.outer[depth]
        low, high = position.ranges[loop.name]

        def inside(first: Number, rounds: Number) -> None:
            def body(counter: str, at: list[str]) -> list[str]:
                index = w.plus(0 if counter == "0" else counter, first)
                here = self._settle(replace(position, out=at[0], source=at[1]), still, index)
                self._level(depth + 1, here)
                return [w.advance(p, m) for p, m in zip(at, moves, strict=True)]

            # The loop moves the pointers, so `_settle` must not move them again.
            still = replace(loop, out=0, source=0)
            moves = [loop.out * self.item, loop.source * self.item]
            starts = [
                ("ptr", w.moved(pointer, first, move))
                for pointer, move in zip((position.out, position.source), moves, strict=True)
            ]
            self._loop(rounds, starts, body)

        if low != 0:
            self._zero(depth, position.out, low)
        inside(low, w.minus(high, low))
        if high != loop.extent:
            behind = w.moved(position.out, high, loop.out * self.item)
            self._zero(depth, behind, w.minus(loop.extent, high))

    def _loop(
        self,
        rounds: Number,
        carried: list[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> None:
        if isinstance(rounds, str):
            self.w.loop_or_skip(rounds, carried, body)
        elif rounds:
            self.w.loop(rounds, carried, body)

    def _zero(self, depth: int, out: str, count: Number) -> None:
        """Write zeros in `count` steps of the loop at this depth."""
        loops = self.plan.loops
        inner = [(loop.extent, loop.out) for loop in loops[depth + 1 :]]
        self.library.boxes(self.w, out, count, loops[depth].out, inner)

    def _zero_all(self, depth: int, out: str, block: Number | None = None) -> None:
        """Write zeros in all inner loops; if blocks are shared out, only with the first block."""
        loops, w = self.plan.loops, self.w
        if isinstance(block, str):
            first = w.value(f"icmp eq i64 {block}, 0")
            w.when(first, lambda: self._zero_all(depth, out))
        elif depth < len(loops):
            self._zero(depth, out, loops[depth].extent)
        else:
            element = VectorType(self.vector.dtype, 1)
            w.store(element, element.constant(0.0), out)


# The stage.

SOURCE_SLOT, OUT_SLOT = 0, 1
"""Slots of the stage, for `IRStage.moves`; with several threads the pool follows."""
_STRIP = 8
"""Transposed tiles in a row along the source: 1.4 times faster for 10 MB, slower for 2 MB."""


def copy_stage(
    copy: Copy, source: Slot, out: Slot, dtype: str, device: Device, threads: int | None = None
) -> IRStage:
    """The stage; by default with as many threads as the device has units."""
    threads = threads or device.units
    vector = VectorType(dtype, device.vector_bytes // ITEM_BYTES[dtype])
    pool: tuple[Slot, ...] = (parallel_slot(threads), threads) if threads > 1 else ()
    return IRStage(
        lambda: copy_module(copy, vector, threads, _transpose_settings(copy, vector, device)),
        (source, out, *pool),
    )


def _transpose_settings(copy: Copy, vector: VectorType, device: Device) -> TransposeSettings:
    """The settings of transposes: arrays that fit L2 need no prefetching and no strips."""
    size = 2 * prod(loop.extent for loop in copy.loops) * vector.item_bytes
    far = size > device.cache_bytes("L3") // 2
    return TransposeSettings(size > device.cache_bytes("L2"), _STRIP if far else 1)


def copy_module(
    copy: Copy, vector: VectorType, threads: int, transpose_settings: TransposeSettings
) -> str:
    """The module of a copy; the slots are source and target, and the pool for several threads."""
    nest = CopyNest(plan_of(copy), vector, transpose_settings)
    w = nest.w
    pointers = slot(w, OUT_SLOT), slot(w, SOURCE_SLOT)
    if is_empty(copy):
        threads = 1
    elif threads == 1:
        nest.write(*pointers)
    else:
        nest.write_share(*pointers, threads)
    w.emit("ret void")
    bits = 8 * vector.lanes * vector.item_bytes
    functions = nest.library.functions.values()
    declared = w.declarations.union(*(declarations for _, declarations in functions))
    texts = [text for text, _ in functions]
    if threads == 1:
        texts.append(function(w, KERNEL, bits))
    else:
        kernel = IRWriter()
        run_on_pool(kernel, OUT_SLOT + 1)
        kernel.emit("ret void")
        texts.append(function(w, task_signature(), bits, linkage="internal"))
        texts.append(function(kernel, KERNEL, bits))
    return "\n".join([*sorted(declared), *texts])
