"""The innermost part of a nest: straight-line code over vectors, with accumulators in registers.

Reduction loops directly above the tile belong to it here: they carry the accumulators from one
iteration to the next. A sum of many iterations is taken in blocks of about the square root of their
number (for very many, in blocks of blocks), so that rounding errors do not add up in one long
chain: in eps, the error is at most about twice the square root (three times the cube root) of the
number of iterations.
"""

from __future__ import annotations

from math import cbrt, isqrt

from skipjack.core import Access, Accumulator, Call, Load, Nest
from skipjack.native import Carried, IRWriter, VectorType
from skipjack.solvers.cpu.ir import Leaf, evaluated, store_or_stream
from skipjack.solvers.cpu.nest import Loop
from skipjack.solvers.cpu.nest_code.accumulators import (
    AccumulatorKey,
    Point,
    Ranges,
    TileAccumulators,
    TilePosition,
    TileShape,
)

_LONG = 256
"""Additions to one accumulator above which they are taken in blocks."""
_VERY_LONG = 1 << 15
"""Additions above which there are blocks of blocks."""
_LEAST = 64
"""The shortest block: adding up the sums of a block takes about as long as an iteration."""
_FEW = 8
"""As many accumulators fit twice into the registers."""


class TileCode:
    """Writes the tile of a schedule, once for each position that the outer loops reach."""

    def __init__(
        self,
        writer: IRWriter,
        nest: Nest,
        carrying: tuple[Loop, ...],
        tile: tuple[Loop, ...],
        vector: VectorType,
    ) -> None:
        self.w, self.nest, self.vector = writer, nest, vector
        self.carrying = carrying
        self.shape = TileShape(nest, tile, vector.lanes)
        self.accesses: tuple[Access, ...] = (*nest.inputs, nest.output)
        self.sums = TileAccumulators(writer, self.shape, vector)

    def moved(self, pointers: tuple[str, ...], variable: str, count: int) -> list[str]:
        """The pointers moved by `count` elements of a variable."""
        item = self.vector.item_bytes
        return [
            self.w.advance(pointer, access.stride(variable) * count * item)
            for pointer, access in zip(pointers, self.accesses, strict=True)
        ]

    def emit(self, tile_at: TilePosition) -> None:
        """The code for one position of the outer loops."""
        if not self.nest.reduction:
            self._map_tile(tile_at)
            return
        widest = dict(tile_at.ranges)
        for loop in self.carrying:
            widest[loop.variable] = min(widest[loop.variable], loop.step)
        copies = list(self.shape.points(widest))
        points = {point.offset(self.nest.output): point for point in copies}
        keys = self.sums.keys(copies)
        started = self.sums.start(tile_at, keys, points)
        values = self._carry(0, tile_at.pointers, tile_at.ranges, keys, started)
        self.sums.finish(tile_at, keys, values, points)

    # Loops that carry accumulators

    def _carry(
        self,
        position: int,
        pointers: tuple[str, ...],
        ranges: Ranges,
        keys: list[AccumulatorKey],
        values: list[str],
    ) -> list[str]:
        """Write the carrying loops from `position` inwards; returns the accumulators after them."""
        if position == len(self.carrying):
            return self._accumulate(pointers, ranges, keys, values)
        loop: Loop = self.carrying[position]
        full, tail = divmod(ranges[loop.variable], loop.step)
        inputs = len(pointers) - 1

        def body(_: str, state: list[str]) -> list[str]:
            here = (*state[:inputs], pointers[-1])
            inner = {**ranges, loop.variable: loop.step}
            after = self._carry(position + 1, here, inner, keys, state[inputs:])
            return [*self.moved(here, loop.variable, loop.step)[:inputs], *after]

        def carried(state: list[str]) -> Carried:
            kinds = ["ptr"] * inputs + [self.vector.text] * len(keys)
            return list(zip(kinds, state, strict=True))

        def rounds(count: int | str, state: list[str]) -> list[str]:
            return self.w.loop(count, carried(state), body)

        def blocks(count: int | str, sizes: list[int], state: list[str]) -> list[str]:
            if not sizes:
                return rounds(count, state)

            def block(number: str, state: list[str]) -> list[str]:
                left = self._block_rounds(number, sizes[0], count)
                fresh = [self.sums.fresh(key) for key in keys]
                after = blocks(left, sizes[1:], [*state[:inputs], *fresh])
                return [*after[:inputs], *self.sums.folded(state[inputs:], after[inputs:])]

            return self.w.loop(self._block_count(count, sizes[0]), carried(state), block)

        if full:
            sizes = self._block_sizes(position, full, ranges, len(keys))
            values = blocks(full, sizes, [*pointers[:inputs], *values])[inputs:]
        if tail:
            rest = tuple(self.moved(pointers, loop.variable, full * loop.step))
            values = self._carry(position + 1, rest, {**ranges, loop.variable: tail}, keys, values)
        return values

    def _block_sizes(self, position: int, full: int, ranges: Ranges, sums: int) -> list[int]:
        """Iterations of each block of a loop, and of the blocks inside them.

        Short loops have no blocks; with many accumulators only much longer ones do.
        """
        left = {**ranges, self.carrying[position].variable: self.carrying[position].step}
        inside = 1
        for loop in self.carrying[position + 1 :]:
            inside *= max(1, left[loop.variable] // loop.step)
            left[loop.variable] = loop.step
        length = full * inside
        if self.nest.reduction != "sum" or length <= (_LONG if sums <= _FEW else 4 * _LONG):
            return []
        sizes = [isqrt(length)] if length <= _VERY_LONG else [cbrt(length) ** 2, cbrt(length)]
        wanted = [max(_LEAST, int(size)) // inside for size in sizes]
        return [size for size in wanted if 1 <= size < full]

    def _block_count(self, count: int | str, size: int) -> int | str:
        if isinstance(count, int):
            return -(-count // size)
        more = self.w.value(f"add nuw nsw i64 {count}, {size - 1}")
        return self.w.value(f"udiv i64 {more}, {size}")

    def _block_rounds(self, number: str, size: int, count: int | str) -> int | str:
        """Iterations of a block: the last one may have fewer."""
        if isinstance(count, int) and count % size == 0:
            return size
        done = self.w.value(f"mul nuw nsw i64 {number}, {size}")
        left = self.w.value(f"sub nuw nsw i64 {count}, {done}")
        short = self.w.value(f"icmp ult i64 {left}, {size}")
        return self.w.value(f"select i1 {short}, i64 {left}, i64 {size}")

    # Copies of the body

    def _accumulate(
        self,
        pointers: tuple[str, ...],
        ranges: Ranges,
        keys: list[AccumulatorKey],
        values: list[str],
    ) -> list[str]:
        state = dict(zip(keys, values, strict=True))
        cache: dict[object, str] = {}
        body = self.nest.body
        fused = self.nest.reduction == "sum" and isinstance(body, Call) and body.function == "mul"
        waiting: dict[int, str] = {}
        for point in self.shape.points(ranges):
            offset = point.offset(self.nest.output)
            key = (offset, point.accumulator)
            whole = self.shape.mask(point) is None or not self.shape.across
            if fused and whole and isinstance(body, Call):
                leaves = self._leaves(point, pointers, cache)
                factors = [evaluated(self.w, self.vector, part, leaves) for part in body.arguments]
                state[key] = self.w.call(self.vector, "fmuladd", [*factors, state[key]])
                continue
            value = self.sums.neutral(self._value(point, pointers, cache), point)
            self.sums.take(state, key, value)
            if self.nest.reduction == "max":
                other = waiting.pop(offset, None)
                if other is None:
                    waiting[offset] = value
                else:
                    self.sums.mark_nan(state, offset, other, value)
        for offset, value in waiting.items():
            self.sums.mark_nan(state, offset, value, value)
        return [state[key] for key in keys]

    def _map_tile(self, tile_at: TilePosition) -> None:
        """All loads come before the first store: a load after a store to the same page offset waits
        for it."""
        cache: dict[object, str] = {}
        points = list(self.shape.points(tile_at.ranges))
        values = [self._value(point, tile_at.pointers, cache) for point in points]
        for point, value in zip(points, values, strict=True):
            offset = point.offset(self.nest.output) * self.vector.item_bytes
            at = self.w.advance(tile_at.pointers[-1], offset)
            store_or_stream(self.w, self.vector, value, at, self.shape.mask(point), tile_at.stream)

    def _value(self, point: Point, pointers: tuple[str, ...], cache: dict[object, str]) -> str:
        leaves = self._leaves(point, pointers, cache)
        return evaluated(self.w, self.vector, self.nest.body, leaves)

    def _leaves(self, point: Point, pointers: tuple[str, ...], cache: dict[object, str]) -> Leaf:
        def leaf(scalar: Load | Accumulator) -> str:
            if isinstance(scalar, Accumulator):
                raise ValueError("a body cannot use an accumulator; only an epilogue can")
            return self._loaded(scalar.operand, point, pointers, cache)

        return leaf

    def _loaded(
        self, operand: int, point: Point, pointers: tuple[str, ...], cache: dict[object, str]
    ) -> str:
        access = self.nest.inputs[operand]
        offset = point.offset(access)
        variable = self.shape.vector_variable
        whole = variable is not None and access.stride(variable) == 1
        key = (access.tensor.name, operand, offset, point.active if whole else 0)
        if key not in cache:
            at = self.w.advance(pointers[operand], offset * self.vector.item_bytes)
            cache[key] = (
                self.w.load(self.vector, at, self.shape.mask(point))
                if whole
                else self.w.broadcast(self.vector, at)
            )
        return cache[key]
