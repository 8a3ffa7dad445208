"""From a row program to LLVM IR: some rows at a time, one sweep over them for each pass.

A sweep takes `copies` vectors in a round, then single ones and a masked last. A reduction has an
accumulator for each of them, so that additions need not wait for each other. Threads share the
rows out.
"""

from __future__ import annotations

from functools import partial

from skipjack.core.nest import Accumulator
from skipjack.core.program import RowProgram, Statistic
from skipjack.native.ir import STREAM_METADATA, Carried, IRWriter, VectorType, function
from skipjack.solvers.loops.entry import KERNEL, hand_out, share_with_tail, slot, task_signature
from skipjack.solvers.loops.rows_blocks import Blocks
from skipjack.solvers.loops.rows_chunks import Chunks
from skipjack.solvers.loops.rows_pieces import Pieces
from skipjack.solvers.loops.rows_plan import OUTPUT, SCRATCH, RowsPlan
from skipjack.solvers.loops.rows_sweep import Sweeps
from skipjack.solvers.loops.rows_values import Row

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
        self.sums_at = -(-scratch // _LINE) * _LINE
        if plan.parallel:
            scratch = self.sums_at + self.sweeps.sums.size
        # Threads do not share a line, nor the neighbour that is fetched with it.
        self.scratch = -(-scratch // (2 * _LINE)) * 2 * _LINE
        self.scratch_at = ""

    # the module

    def module(self) -> str:
        w, item = self.w, self.vector.item_bytes
        names = self.program.arrays
        arrays = {name: slot(w, number) for number, name in enumerate(names)}
        views = self.program.views
        bases = [w.advance(arrays[view.tensor.name], view.offset * item) for view in views]
        if self.scratch:
            self.scratch_at = slot(w, len(names))
            if self.plan.parallel:
                own = w.value(f"mul i64 %index, {self.scratch}")
                self.scratch_at = w.advance(self.scratch_at, own)
        if self.program.column_sums:
            if self.plan.parallel:
                memory = w.advance(self.scratch_at, self.sums_at)
                bases = self.sweeps.sums.own(w, bases, memory)
            self.sweeps.sums.start(w, bases)
        self.sweeps.streamed_if_possible(
            bases[self.sweeps.out], lambda stream: self._all(bases, stream)
        )
        w.emit("ret void")
        bits = max(128, 8 * self.sweeps.bytes)
        if self.plan.parallel:
            text = function(w, task_signature(), bits, linkage="internal") + self._launch(bits)
        else:
            text = function(w, KERNEL, bits)
        return "\n".join([*sorted(w.declarations), text, STREAM_METADATA])

    def _launch(self, bits: int) -> str:
        """The entry that hands the task to the pool, and adds up what is of all groups."""
        w, names, sums = IRWriter(), self.program.arrays, self.program.column_sums
        count = hand_out(w, len(names) + bool(self.scratch))
        if sums:
            outputs = [slot(w, names.index(one.view.tensor.name)) for one in sums]
            memory = w.advance(slot(w, len(names)), self.sums_at)
            self.sweeps.sums.gather(w, outputs, memory, self.scratch, count)
        w.emit("ret void")
        self.w.declarations |= w.declarations
        return function(w, KERNEL, bits)

    # loops over groups

    def _all(self, bases: list[str], stream: int) -> None:
        """All groups, or the share of this thread; so many at a time, then those left over."""
        w, together = self.w, self.plan.block or self.plan.rows
        full, rest = divmod(self.program.groups, together)
        moves = [view.group * self.vector.item_bytes for view in self.program.views]
        some = partial(self._block if self.blocks else self._rows, stream)

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
        own = share_with_tail(w, full, bool(rest))
        starts = [
            w.advance(base, w.value(f"mul i64 {own.begin}, {move * together}") if move else 0)
            for base, move in zip(bases, moves, strict=True)
        ]
        w.loop_or_skip(own.rounds, [("ptr", start) for start in starts], body)
        if rest:
            w.when(own.has_tail, remaining)

    def _block(self, stream: int, pointers: list[str], count: int) -> None:
        assert self.blocks is not None
        self.blocks.block(pointers, self.scratch_at, count, stream)

    def _rows(self, stream: int, pointers: list[str], count: int) -> None:
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
            maxima = self.w.advance(self.scratch_at, self.maxima_at)
            self.chunks.row(rows[0], maxima, stream)
            return
        for number, statistics in enumerate(self.program.passes()):
            # The output's lines are fetched while there is only reading to do.
            fetch = self.plan.ahead and number == 0 and not stream and self.plan.keep != OUTPUT
            self._collect(rows, statistics, fetch=fetch)
        for row in rows:
            self.sweeps.finish(row)
            self.values.hoist(row, self.sweeps.body)
            self.sweeps.sums.hoist(self.values, row)
        self.sweeps.segments(rows, [], self.sweeps.writing(self.sweeps.body, stream))

    def _collect(self, rows: list[Row], statistics: tuple[Statistic, ...], *, fetch: bool) -> None:
        """Sweep once for some statistics; each row knows them afterwards."""
        reducing = self.sweeps.reducing
        starts: Carried = []
        for row in rows:
            for statistic in statistics:
                self.values.hoist(row, statistic.body)
                start = reducing.start(statistic.reduction)
                starts += [(self.vector.text, start)] * self.plan.copies
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
