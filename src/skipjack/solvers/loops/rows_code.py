"""From a row program to LLVM IR: some rows at a time, one sweep over them for each pass.

A sweep takes `copies` vectors in a round, then single ones and a masked last. A reduction has an
accumulator for each of them, so that additions need not wait for each other. Threads share the
rows out.
"""

from __future__ import annotations

from collections.abc import Callable

from skipjack.core.nest import Accumulator
from skipjack.core.program import RowProgram, Statistic
from skipjack.native.ir import STREAM_METADATA, Carried, IRWriter, VectorType, function
from skipjack.solvers.loops.rows_blocks import Blocks
from skipjack.solvers.loops.rows_chunks import Chunks
from skipjack.solvers.loops.rows_pieces import Pieces
from skipjack.solvers.loops.rows_plan import OUTPUT, SCRATCH, RowsPlan
from skipjack.solvers.loops.rows_sweep import Sweeps
from skipjack.solvers.loops.rows_values import Row

_KERNEL = "void @kernel(ptr noalias readonly %slots)"
_TASK = "void @task(ptr noalias readonly %slots, i64 %index, i64 %count)"
_LINE = 64


def generate(program: RowProgram, plan: RowsPlan, dtype: str) -> str:
    """A module with ``void @kernel(ptr slots)``.

    The slots are the program's arrays in order, then scratch memory where `scratch_bytes` asks for
    some. Of a parallel plan a pool of threads and their number follow.
    """
    return _writer(program, plan, dtype).module()


def scratch_bytes(program: RowProgram, plan: RowsPlan, dtype: str) -> int:
    """Memory that each thread needs for itself."""
    return _writer(program, plan, dtype).scratch


def _writer(program: RowProgram, plan: RowsPlan, dtype: str) -> _Generator | Pieces:
    kind = Pieces if plan.pieces else _Generator
    return kind(program, plan, VectorType(dtype, plan.lanes))


class _Generator:
    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.plan, self.vector = program, plan, vector
        self.sweeps = Sweeps(program, plan, vector)
        self.w, self.values = self.sweeps.w, self.sweeps.values
        self.blocks = Blocks(self.sweeps) if plan.block else None
        vectors = -(-program.columns // vector.lanes) + plan.aligned
        self.kept_row = -(-vectors * self.sweeps.bytes // _LINE) * _LINE
        scratch = self.kept_row * plan.rows if plan.keep == SCRATCH else 0
        self.chunks = Chunks(self.sweeps) if plan.chunk else None
        self.maxima_at = scratch
        if self.chunks:
            scratch += self.chunks.count * self.sweeps.bytes
        if self.blocks:
            scratch = self.blocks.record.size * plan.block
        # Threads do not share a line, nor the neighbour that is fetched with it.
        self.scratch = -(-scratch // (2 * _LINE)) * 2 * _LINE
        self.scratch_at = ""

    # the module

    def module(self) -> str:
        w, item = self.w, self.vector.item_bytes
        names = self.program.arrays
        arrays = {name: self._slot(slot) for slot, name in enumerate(names)}
        views = self.program.views
        bases = [w.advance(arrays[view.tensor.name], view.offset * item) for view in views]
        if self.scratch:
            self.scratch_at = self._slot(len(names))
            if self.plan.parallel:
                own = w.value(f"mul i64 %index, {self.scratch}")
                self.scratch_at = w.advance(self.scratch_at, own)
        if self.plan.streaming:
            address = w.value(f"ptrtoint ptr {bases[self.sweeps.out]} to i64")
            odd = w.value(f"and i64 {address}, {self.sweeps.odd_bytes}")
            w.when(w.value(f"icmp eq i64 {odd}, 0"), lambda: self._streamed(bases))
            w.when(w.value(f"icmp ne i64 {odd}, 0"), lambda: self._all(bases))
        else:
            self._all(bases)
        w.emit("ret void")
        bits = max(128, 8 * self.sweeps.bytes)
        if self.plan.parallel:
            text = function(w, _TASK, bits, linkage="internal") + self._launch(bits)
        else:
            text = function(w, _KERNEL, bits)
        return "\n".join([*sorted(w.declarations), text, STREAM_METADATA])

    def _slot(self, number: int) -> str:
        return self.w.value(f"load ptr, ptr {self.w.advance('%slots', 8 * number)}, align 8")

    def _launch(self, bits: int) -> str:
        """The entry that hands the task to the pool."""
        w, after = IRWriter(), len(self.program.arrays) + bool(self.scratch)
        pool = w.value(f"load ptr, ptr {w.advance('%slots', 8 * after)}, align 8")
        count = w.value(f"load i64, ptr {w.advance('%slots', 8 * (after + 1))}, align 8")
        w.emit(f"call void {pool}(ptr @task, ptr %slots, i64 {count})")
        w.emit("ret void")
        return function(w, _KERNEL, bits)

    def _streamed(self, bases: list[str]) -> None:
        self.sweeps.streaming = True
        self._all(bases)
        self.sweeps.streaming = False
        # Streamed stores are not ordered by themselves: whoever is told next must see them.
        self.w.emit("fence seq_cst")

    # loops over groups

    def _all(self, bases: list[str]) -> None:
        """All groups, or the share of this thread; so many at a time, then those left over."""
        w, together = self.w, self.plan.block or self.plan.rows
        full, rest = divmod(self.program.groups, together)
        moves = [view.group * self.vector.item_bytes for view in self.program.views]
        some: Callable[[list[str], int], None] = self._block if self.blocks else self._rows

        def body(_: str, pointers: list[str]) -> list[str]:
            some(pointers, together)
            return [w.advance(p, move * together) for p, move in zip(pointers, moves, strict=True)]

        def remaining() -> None:
            ends = zip(bases, moves, strict=True)
            some([w.advance(p, move * together * full) for p, move in ends], rest)

        if not self.plan.parallel:
            if full:
                w.loop(full, [("ptr", base) for base in bases], body)
            if rest:
                remaining()
            return
        first, following = self._share("%index", full), w.value("add i64 %index, 1")
        rounds = w.value(f"sub i64 {self._share(following, full)}, {first}")
        starts = [
            w.advance(base, w.value(f"mul i64 {first}, {move * together}") if move else 0)
            for base, move in zip(bases, moves, strict=True)
        ]
        w.loop_or_skip(rounds, [("ptr", start) for start in starts], body)
        if rest:
            w.when(w.value(f"icmp eq i64 {following}, %count"), remaining)

    def _share(self, index: str, total: int) -> str:
        """Where the share of a thread begins."""
        product = self.w.value(f"mul i64 {index}, {total}")
        return self.w.value(f"udiv i64 {product}, %count")

    def _block(self, pointers: list[str], count: int) -> None:
        assert self.blocks is not None
        self.blocks.block(pointers, self.scratch_at, count)

    def _rows(self, pointers: list[str], count: int) -> None:
        """Some groups from first pass to last, their accumulators in registers."""
        moves = [view.group * self.vector.item_bytes for view in self.program.views]
        if self.plan.keep == SCRATCH:
            pointers, moves = [*pointers, self.scratch_at], [*moves, self.kept_row]
        pairs = list(zip(pointers, moves, strict=True))
        rows = [
            Row(number, [self.w.advance(p, move * number) for p, move in pairs])
            for number in range(count)
        ]
        if self.chunks:
            self.chunks.row(rows[0], self.w.advance(self.scratch_at, self.maxima_at))
            return
        for number, statistics in enumerate(self.program.passes()):
            self._collect(rows, statistics, first=number == 0)
        for row in rows:
            self.sweeps.finish(row)
            self.values.hoist(row, self.sweeps.body)
        self.sweeps.segments(rows, [], self.sweeps.write)

    def _collect(self, rows: list[Row], statistics: tuple[Statistic, ...], *, first: bool) -> None:
        """Sweep once for some statistics; each row knows them afterwards."""
        reducing = self.sweeps.reducing
        starts: Carried = []
        for row in rows:
            for statistic in statistics:
                self.values.hoist(row, statistic.body)
                start = reducing.start(statistic.reduction)
                starts += [(self.vector.text, start)] * self.plan.copies
        # The output's lines are fetched while there is only reading to do.
        fetch = self.plan.ahead and first and not self.sweeps.streaming and self.plan.keep != OUTPUT
        ends = self.sweeps.segments(rows, starts, self.sweeps.adding(statistics, rows, fetch))
        sums = dict(zip(self.sweeps.accumulators(statistics, rows), ends, strict=True))
        for row in rows:
            for statistic in statistics:
                copies = range(self.plan.copies)
                own = [sums[row.number, statistic.name, copy] for copy in copies]
                together = reducing.together(statistic.reduction, own)
                total = reducing.total(statistic.reduction, together)
                known = {**row.known, Accumulator(): total}
                value = self.values.once(row, statistic.epilogue, known)
                row.known[Accumulator(statistic.name)] = value
