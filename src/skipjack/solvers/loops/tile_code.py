"""The innermost part of a nest: straight code over vectors, with its accumulators in registers.

Reduction loops that stand directly above the tile are part of it here: they carry the accumulators
from one round to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce as fold

from skipjack.core.nest import Access, Accumulator, Call, Constant, Load, Nest, Scalar
from skipjack.native.ir import IRWriter, VectorType, constant_mask
from skipjack.solvers.loops.scalar import combine, horizontal, identity, step
from skipjack.solvers.loops.schedule import Loop, Mark

Ranges = dict[str, int]
Flag = bool | str
"""Known now, or an i1 value."""
Sum = tuple[int, tuple[int, ...]]
"""An accumulator: offset of its output element, and which one of several by the `a` loops."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the generator is: a pointer for each access (output last) and what is left to cover."""

    pointers: tuple[str, ...]
    ranges: Ranges
    first: Flag = True
    """No earlier round of an outer reduction loop has written this output."""
    last: Flag = True


@dataclass(frozen=True, slots=True)
class Point:
    """One copy of the body inside of the tile."""

    offsets: tuple[tuple[str, int], ...]
    active: int
    """Lanes in use."""
    accumulator: tuple[int, ...]
    """Which of several accumulators of an output element, by position in the `a` loops."""


class TileCode:
    """Writes the tile of a schedule, once for each place that the outer loops reach."""

    def __init__(
        self,
        writer: IRWriter,
        nest: Nest,
        carrying: tuple[Loop, ...],
        tile: tuple[Loop, ...],
        vector: VectorType,
    ) -> None:
        self.w, self.nest, self.vector = writer, nest, vector
        self.carrying, self.tile = carrying, tile
        self.scalar = VectorType(vector.dtype, 1)
        self.reduced = frozenset(nest.reduction_loops)
        self.accesses: tuple[Access, ...] = (*nest.inputs, nest.output)
        vectorized = [loop.variable for loop in tile if loop.mark is Mark.VECTORIZE]
        self.vector_variable = vectorized[0] if vectorized else None

    def moved(self, pointers: tuple[str, ...], variable: str, count: int) -> list[str]:
        """The pointers after so many elements of a variable."""
        item = self.vector.item_bytes
        return [
            self.w.advance(pointer, access.stride(variable) * count * item)
            for pointer, access in zip(pointers, self.accesses, strict=True)
        ]

    def emit(self, spot: Spot) -> None:
        """The code for one place of the outer loops."""
        if not self.nest.reduction:
            self._map_tile(spot)
            return
        widest = dict(spot.ranges)
        for loop in self.carrying:
            widest[loop.variable] = min(widest[loop.variable], loop.step)
        names = {
            (self._out_offset(point), point.accumulator): point
            for point in self._points(0, widest, {}, ())
        }
        points = {offset: point for (offset, _), point in names.items()}
        accumulators = self._start(spot, list(names), points)
        keys = list(accumulators)
        values = self._carry(0, spot.pointers, spot.ranges, keys, list(accumulators.values()))
        self._finish(spot, dict(zip(keys, values, strict=True)), points)

    def _carry(
        self,
        position: int,
        pointers: tuple[str, ...],
        ranges: Ranges,
        keys: list[Sum],
        values: list[str],
    ) -> list[str]:
        """Run the carrying loops from `position` inwards; give the accumulators after them."""
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

        if full:
            carried = [("ptr", pointer) for pointer in pointers[:inputs]]
            carried += [(self.vector.text, value) for value in values]
            values = self.w.loop(full, carried, body)[inputs:]
        if tail:
            rest = tuple(self.moved(pointers, loop.variable, full * loop.step))
            values = self._carry(position + 1, rest, {**ranges, loop.variable: tail}, keys, values)
        return values

    def _points(
        self, position: int, ranges: Ranges, offsets: Ranges, accumulator: tuple[int, ...]
    ) -> Iterator[Point]:
        """The copies of the body that the tile consists of, in the order of its loops."""
        if position == len(self.tile):
            active = ranges[self.vector_variable] if self.vector_variable else 1
            yield Point(tuple(sorted(offsets.items())), active, accumulator)
            return
        loop = self.tile[position]
        covered = ranges[loop.variable]
        step_ = self.vector.lanes if loop.mark is Mark.VECTORIZE else loop.step
        for number, start in enumerate(range(0, covered, step_)):
            yield from self._points(
                position + 1,
                {**ranges, loop.variable: min(step_, covered - start)},
                {**offsets, loop.variable: offsets.get(loop.variable, 0) + start},
                (*accumulator, number) if loop.mark is Mark.ACCUMULATE else accumulator,
            )

    def _offset(self, access: Access, point: Point) -> int:
        return sum(access.stride(variable) * offset for variable, offset in point.offsets)

    def _out_offset(self, point: Point) -> int:
        return self._offset(self.nest.output, point)

    def _mask(self, active: int) -> str | None:
        return constant_mask(self.vector.lanes, active)

    def _loaded(
        self, operand: int, point: Point, pointers: tuple[str, ...], cache: dict[object, str]
    ) -> str:
        access = self.nest.inputs[operand]
        offset = self._offset(access, point)
        whole = self.vector_variable is not None and access.stride(self.vector_variable) == 1
        key = (access.tensor.name, operand, offset, point.active if whole else 0)
        if key not in cache:
            at = self.w.advance(pointers[operand], offset * self.vector.item_bytes)
            cache[key] = (
                self.w.load(self.vector, at, self._mask(point.active))
                if whole
                else self.w.broadcast(self.vector, at)
            )
        return cache[key]

    def _value(
        self, scalar: Scalar, point: Point, pointers: tuple[str, ...], cache: dict[object, str]
    ) -> str:
        match scalar:
            case Load(operand):
                return self._loaded(operand, point, pointers, cache)
            case Constant(value):
                return self.vector.constant(value)
            case Call(name, arguments):
                given = [self._value(part, point, pointers, cache) for part in arguments]
                return step(self.w, self.vector, name, given)
            case Accumulator():
                raise ValueError("an accumulator outside of an epilogue")

    def _map_tile(self, spot: Spot) -> None:
        cache: dict[object, str] = {}
        for point in self._points(0, spot.ranges, {}, ()):
            value = self._value(self.nest.body, point, spot.pointers, cache)
            at = self.w.advance(spot.pointers[-1], self._out_offset(point) * self.vector.item_bytes)
            self.w.store(self.vector, value, at, self._mask(point.active))

    def _accumulate(
        self,
        pointers: tuple[str, ...],
        ranges: Ranges,
        keys: list[Sum],
        values: list[str],
    ) -> list[str]:
        state = dict(zip(keys, values, strict=True))
        cache: dict[object, str] = {}
        body = self.nest.body
        fused = self.nest.reduction == "sum" and isinstance(body, Call) and body.function == "mul"
        for point in self._points(0, ranges, {}, ()):
            key = (self._out_offset(point), point.accumulator)
            whole = self._mask(point.active) is None or self.vector_variable not in self.reduced
            if fused and whole and isinstance(body, Call):
                factors = [self._value(part, point, pointers, cache) for part in body.arguments]
                state[key] = self.w.call(self.vector, "fma", [*factors, state[key]])
                continue
            value = self._value(body, point, pointers, cache)
            state[key] = combine(
                self.w, self.vector, self.nest.reduction, state[key], self._neutral(value, point)
            )
        return [state[key] for key in keys]

    def _neutral(self, value: str, point: Point) -> str:
        """The value with the reduction's identity in lanes that lie beyond the end."""
        mask = self._mask(point.active)
        if mask is None or self.vector_variable not in self.reduced:
            return value
        neutral = self.vector.constant(identity(self.nest.reduction))
        lanes = f"<{self.vector.lanes} x i1>"
        text = self.vector.text
        return self.w.value(f"select {lanes} {mask}, {text} {value}, {text} {neutral}")

    # where accumulators come from and go to

    def _start(self, spot: Spot, keys: list[Sum], points: dict[int, Point]) -> dict[Sum, str]:
        neutral = self.vector.constant(identity(self.nest.reduction))
        started = dict.fromkeys(keys, neutral)
        if spot.first is True or self.vector_variable in self.reduced:
            return started
        seen: set[int] = set()
        for offset, number in keys:
            if offset in seen:
                continue
            seen.add(offset)
            before = self._before(spot, offset, self.vector, self._mask(points[offset].active))
            started[offset, number] = self._unless_first(spot, self.vector, before, neutral)
        return started

    def _before(self, spot: Spot, offset: int, kind: VectorType, mask: str | None) -> str:
        at = self.w.advance(spot.pointers[-1], offset * kind.item_bytes)
        return self.w.load(kind, at, mask)

    def _unless_first(self, spot: Spot, kind: VectorType, before: str, neutral: str) -> str:
        if spot.first is False:
            return before
        return self.w.value(f"select i1 {spot.first}, {kind.text} {neutral}, {kind.text} {before}")

    def _finish(
        self,
        spot: Spot,
        accumulators: dict[Sum, str],
        points: dict[int, Point],
    ) -> None:
        by_offset: dict[int, list[str]] = {}
        for (offset, _), value in accumulators.items():
            by_offset.setdefault(offset, []).append(value)
        across = self.vector_variable in self.reduced
        kind = self.scalar if across else self.vector
        for offset, values in by_offset.items():
            total = _tree(self.w, self.vector, self.nest.reduction, values)
            if across:
                total = horizontal(self.w, self.vector, self.nest.reduction, total)
                if spot.first is not True:
                    neutral = kind.constant(identity(self.nest.reduction))
                    before = self._before(spot, offset, kind, None)
                    before = self._unless_first(spot, kind, before, neutral)
                    total = combine(self.w, kind, self.nest.reduction, before, total)
            total = self._epilogue(spot, kind, total, points[offset])
            at = self.w.advance(spot.pointers[-1], offset * kind.item_bytes)
            mask = None if across else self._mask(points[offset].active)
            self.w.store(kind, total, at, mask)

    def _epilogue(self, spot: Spot, kind: VectorType, total: str, point: Point) -> str:
        if self.nest.epilogue == Accumulator() or spot.last is False:
            return total
        done = self._after(self.nest.epilogue, kind, total, spot, point)
        if spot.last is True:
            return done
        return self.w.value(f"select i1 {spot.last}, {kind.text} {done}, {kind.text} {total}")

    def _after(self, scalar: Scalar, kind: VectorType, total: str, spot: Spot, point: Point) -> str:
        match scalar:
            case Accumulator():
                return total
            case Constant(value):
                return kind.constant(value)
            case Call(name, arguments):
                given = [self._after(part, kind, total, spot, point) for part in arguments]
                return step(self.w, kind, name, given)
            case Load(operand):
                return self._beside(operand, kind, spot, point)

    def _beside(self, operand: int, kind: VectorType, spot: Spot, point: Point) -> str:
        """An input of the epilogue, where the output element is."""
        access = self.nest.inputs[operand]
        offset = self._offset(access, point) * kind.item_bytes
        at = self.w.advance(spot.pointers[operand], offset)
        if kind.lanes == 1 or access.stride(self.vector_variable or "") == 0:
            return self.w.broadcast(kind, at)
        return self.w.load(kind, at, self._mask(point.active))


def _tree(writer: IRWriter, vector: VectorType, reduction: str, values: list[str]) -> str:
    """Combine accumulators pairwise, so that no long chain of roundings appears."""
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [
            fold(lambda left, right: combine(writer, vector, reduction, left, right), pair)
            for pair in pairs
        ]
    return values[0]
