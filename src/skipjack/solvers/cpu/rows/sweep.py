"""Sweeps of a row program over columns and segments, with their stores and prefetches."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.core import Load, RowProgram, Scalar, Statistic, Tensor, View, substituted
from skipjack.native import Carried, IRWriter, VectorType, constant_mask
from skipjack.solvers.cpu.ir import store_or_stream, stream_alignments, streamed_if_aligned
from skipjack.solvers.cpu.rows.plan import AGAIN, SCRATCH, RowsPlan, kept_part, nonpositive_powers
from skipjack.solvers.cpu.rows.values import ColumnSums, Reductions, Row, RowPosition, RowValues

Step = Callable[[RowPosition, list[Row], list[str]], list[str]]
"""Writes the code for one position; takes and returns the values that the sweep carries."""

_PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
_SECOND_CACHE = 2
"""L2: a whole row prefetched into L1 might evict data that is needed earlier."""


class Sweeps:
    """What the generators of one kernel share: writer, values, reductions, loops."""

    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.plan, self.vector = program, plan, vector
        self.w = IRWriter()
        self.bytes = vector.item_bytes * vector.lanes
        self.out = len(program.inputs)
        """The index of the output's view."""
        self.kept = kept_part(program) if plan.keep != AGAIN else None
        self.kept_at = len(program.views) if plan.keep == SCRATCH else self.out
        kept = View(Tensor("kept", (program.columns,)), column=1)
        self.views = (*program.views, kept) if plan.keep == SCRATCH else program.views
        self.values = RowValues(self.w, self.views, vector, nonpositive_powers(program))
        self.reducing = Reductions(self.w, self.values, self.kept)
        self.sums = ColumnSums(program, vector)
        body = program.body
        if self.kept is not None:
            body = substituted(body, self.kept, Load(self.kept_at))
        self.body: Scalar = body

    # Code for one position

    def adding(self, statistics: tuple[Statistic, ...], rows: list[Row], fetch: bool) -> Step:
        """Adds to the accumulators, one for each row, statistic and copy."""
        keys = self.accumulators(statistics, rows)

        def add(place: RowPosition, here: list[Row], state: list[str]) -> list[str]:
            sums = dict(zip(keys, state, strict=True))
            for row in here:
                if fetch:
                    self._fetch(self.values.address(place, row, self.out), to_write=True)
                for statistic in statistics:
                    key = (row.number, statistic.name, place.copy)
                    sums[key] = self.reducing.added(place, row, statistic, sums[key])
                    if statistic.body == self.kept:
                        self._keep(place, row)
                        self._fetch_following(place, row)
            return list(sums.values())

        return add

    def accumulators(
        self, statistics: tuple[Statistic, ...], rows: list[Row]
    ) -> list[tuple[int, str, int]]:
        """Row, statistic and copy of each accumulator, in the order in which they are carried."""
        return [
            (row.number, statistic.name, copy)
            for row in rows
            for statistic in statistics
            for copy in range(self.plan.copies)
        ]

    def _keep(self, place: RowPosition, row: Row) -> None:
        assert self.kept is not None
        value = self.values.value(place, row, self.kept)
        at = self.values.address(place, row, self.kept_at)
        self.w.store(self.vector, value, at, place.mask)

    def writing(self, body: Scalar, stream: int) -> Step:
        """Writes the output; past the caches if it is aligned to `stream` bytes."""

        def write(place: RowPosition, here: list[Row], state: list[str]) -> list[str]:
            if self.kept is None:
                for row in here:
                    self._fetch_following(place, row)
            values = [self.values.value(place, row, body) for row in here]
            self.sums.add(self.values, place, here)
            for row, value in zip(here, values, strict=True):
                at = self.values.address(place, row, self.out)
                store_or_stream(self.w, self.vector, value, at, place.mask, stream)
            return state

        return write

    def streamed_if_possible(self, output: str, body: Callable[[int], None]) -> None:
        """Write `body(alignment)` as the plan and the output's alignment require; 0 does not
        stream."""
        if not self.plan.streaming:
            body(0)
        elif self.plan.aligned:
            # Rows start at aligned vectors, if their elements are aligned.
            item = self.vector.item_bytes
            streamed_if_aligned(self.w, output, [item], lambda even: body(even and self.bytes))
        else:
            streamed_if_aligned(self.w, output, stream_alignments(self.vector), body)

    def _fetch_following(self, place: RowPosition, row: Row) -> None:
        """Prefetch the inputs of the next rows, if the plan asks for it."""
        if not self.plan.ahead:
            return
        for number, view in enumerate(self.program.inputs):
            if view.column and view.group:
                at = self.values.address(place, row, number)
                distance = view.group * self.vector.item_bytes * self.plan.rows
                self._fetch(self.w.advance(at, distance), to_write=False)

    def _fetch(self, address: str, *, to_write: bool) -> None:
        self.w.declarations.add(_PREFETCH)
        how = f"i32 {int(to_write)}, i32 {_SECOND_CACHE}, i32 1"
        self.w.emit(f"call void @llvm.prefetch.p0(ptr {address}, {how})")

    def finish(self, row: Row) -> None:
        for at, result in enumerate(self.program.results, self.out + 1):
            value = self.values.once(row, result.value, row.known)
            self.w.store(self.values.scalar, value, row.pointers[at])

    # Loops

    def segments(self, rows: list[Row], carried: Carried, do: Step) -> list[str]:
        """All segments and columns of some rows; returns the carried values at the end."""
        moves = [view.segment * self.vector.item_bytes for view in self.views]
        kinds = [kind for kind, _ in carried]
        moving = [(row.number, view) for row in rows for view, move in enumerate(moves) if move]

        def segment(_: str, values: list[str]) -> list[str]:
            here = [Row(row.number, list(row.pointers), row.known, row.splats) for row in rows]
            pointers, state = values[: len(moving)], values[len(moving) :]
            for (number, view), pointer in zip(moving, pointers, strict=True):
                here[number].pointers[view] = pointer
            # Rows of several segments are visited one after the other, in the order of memory.
            apart = self.program.segments > 1 or self.plan.aligned
            for some in [[row] for row in here] if apart else [here]:
                state = self.columns(some, list(zip(kinds, state, strict=True)), do)
            ends = zip(pointers, moving, strict=True)
            return [*(self.w.advance(p, moves[view]) for p, (_, view) in ends), *state]

        starts = [("ptr", rows[number].pointers[view]) for number, view in moving]
        return self.w.loop(self.program.segments, [*starts, *carried], segment)[len(moving) :]

    def columns(
        self, rows: list[Row], carried: Carried, do: Step, count: int | None = None
    ) -> list[str]:
        """All columns of one segment: iterations of several vectors, single vectors, a masked last
        one."""
        if self.plan.aligned:
            return self._aligned(rows[0], carried, do, count or self.program.columns)
        lanes, copies = self.vector.lanes, self.plan.copies
        rounds, rest = divmod(self.program.columns if count is None else count, lanes * copies)
        values = self._rounds(rows, 0, rounds, carried, do)
        for copy in range(-(-rest // lanes)):
            mask = constant_mask(lanes, min(lanes, rest - copy * lanes))
            values = do(RowPosition(rounds * copies * self.bytes, copy, mask), rows, values)
        return values

    def _rounds(
        self, rows: list[Row], start: int, rounds: int, carried: Carried, do: Step
    ) -> list[str]:
        """A number of iterations of full vectors, starting at a byte offset of the row."""
        width = self.plan.copies * self.bytes

        def round_(_: str, inside: list[str]) -> list[str]:
            offset, *state = inside
            for copy in range(self.plan.copies):
                state = do(RowPosition(offset, copy, None), rows, state)
            return [self.w.value(f"add nuw nsw i64 {offset}, {width}"), *state]

        if not rounds:
            return [value for _, value in carried]
        return self.w.loop(rounds, [("i64", str(start)), *carried], round_)[1:]

    def _aligned(self, row: Row, carried: Carried, do: Step, count: int) -> list[str]:
        """The columns of an unaligned row: the first and the last two vectors are masked.

        The vectors between them are full, and the very last one may be empty.
        """
        w, lanes, copies = self.w, self.vector.lanes, self.plan.copies
        moved, missing = self._moved_back(row)
        here, kinds = [moved], [kind for kind, _ in carried]
        first = self._lanes_where("sge", missing)
        if count < lanes:
            ended = self._lanes_where("slt", w.value(f"add i64 {missing}, {count}"))
            first = w.value(f"and <{lanes} x i1> {first}, {ended}")
        values = do(RowPosition(0, 0, first), here, [value for _, value in carried])
        full = max(1, count // lanes)
        rounds, rest = divmod(full - 1, copies)
        inside = list(zip(kinds, values, strict=True))
        values = self._rounds(here, self.bytes, rounds, inside, do)
        for copy in range(rest):
            values = do(RowPosition((1 + rounds * copies) * self.bytes, copy, None), here, values)
        for number, vector in enumerate(range(full, -(-(count + lanes - 1) // lanes))):
            mask = self._lanes_where("slt", w.value(f"add i64 {missing}, {count - vector * lanes}"))
            copy = number % copies
            values = do(RowPosition((vector - copy) * self.bytes, copy, mask), here, values)
        return values

    def _moved_back(self, row: Row) -> tuple[Row, str]:
        """The row moved back to where the output is aligned, and by how many elements."""
        w = self.w
        address = w.value(f"ptrtoint ptr {row.pointers[self.out]} to i64")
        before = w.value(f"and i64 {address}, {self.bytes - 1}")
        back = w.value(f"sub i64 0, {before}")
        # Values in scratch memory are aligned already.
        pointers = [
            w.advance(pointer, back) if view.column and at < len(self.program.views) else pointer
            for at, (pointer, view) in enumerate(zip(row.pointers, self.views, strict=True))
        ]
        elements = w.value(f"udiv i64 {before}, {self.vector.item_bytes}")
        return Row(row.number, pointers, row.known, row.splats), elements

    def _lanes_where(self, how: str, bound: str) -> str:
        """A mask of the lanes whose index compares as `how` with an i64 value."""
        lanes = self.vector.lanes
        kind = f"<{lanes} x i32>"
        narrow = self.w.value(f"trunc i64 {bound} to i32")
        bounds = self.w.splat_text(kind, "i32", narrow, lanes)
        numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
        return self.w.value(f"icmp {how} {kind} <{numbers}>, {bounds}")
