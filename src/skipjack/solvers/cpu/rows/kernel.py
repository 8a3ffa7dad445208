"""From a row program to LLVM IR: a few rows at a time, one sweep over them for each pass.

A sweep takes `copies` vectors per iteration, then single ones, then a masked one. A reduction has
an accumulator for each copy, so that additions do not wait for each other. Threads share the rows
out. A long softmax row is read once: see `RowChunks`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import float_info

from skipjack.core import Accumulator, Call, Load, RowProgram, Scalar, Statistic, substituted
from skipjack.native import STREAM_METADATA, Carried, IRWriter, VectorType, function
from skipjack.solvers.cpu.ir import (
    KERNEL,
    exp_nonpositive,
    run_on_pool,
    share_with_tail,
    slot,
    task_signature,
)
from skipjack.solvers.cpu.rows.blocks import DividedGroups, GroupBlocks
from skipjack.solvers.cpu.rows.plan import OUTPUT, SCRATCH, RowsPlan, chunkable
from skipjack.solvers.cpu.rows.sweep import Step, Sweeps
from skipjack.solvers.cpu.rows.values import Row

# A long row in one sweep: exponentials are taken relative to the largest element so far.
#
# A softmax needs the largest element before the first exponential, which takes a sweep of its
# own. Instead, every chunk of a row (small enough for L1) uses the largest element up to its own
# end, lane by lane, and the sums so far are scaled when it grows. The last sweep scales the kept
# exponentials to the largest element of all, with a factor for each chunk.

_FACTOR = Accumulator("factor of a chunk")
_LEAST = {"f32": -3.4028234663852886e38, "f64": -float_info.max}
"""The initial maximum: unlike minus infinity it can be subtracted from itself."""


class RowChunks:
    """Writes the code of one row in chunks."""

    def __init__(self, sweeps: Sweeps) -> None:
        pair = chunkable(sweeps.program)
        assert pair is not None, "the plan must be fitted to the program"
        self._largest, self._total = pair
        self._s, self._w, self._vector = sweeps, sweeps.w, sweeps.vector
        self._columns = sweeps.plan.chunk * sweeps.vector.lanes
        self.count = -(-sweeps.program.columns // self._columns)
        """Number of chunks of a row; the last one may be shorter."""
        body = sweeps.program.body
        if sweeps.kept is not None:
            scaled: Scalar = Call("mul", (Load(sweeps.kept_at), _FACTOR))
            body = substituted(body, sweeps.kept, scaled)
        self._body = body

    def row(self, row: Row, maxima: str, stream: int) -> None:
        """Write a whole row; `maxima` has room for one vector per chunk."""
        least = self._vector.constant(_LEAST[self._vector.dtype])
        zero = self._vector.constant(0.0)
        ends = self._each(row, maxima, [(self._vector.text, v) for v in (least, zero)], self._add)
        top = self._s.reducing.total("max", ends[0])
        scaled = self._scaled(ends[1], ends[0], self._w.splat(self._vector, top))
        total = self._s.reducing.total("sum", scaled)
        row.known[Accumulator(self._largest.name)] = top
        known = {**row.known, Accumulator(): total}
        value = self._s.values.once(row, self._total.epilogue, known)
        row.known[Accumulator(self._total.name)] = value
        for part in self._s.values.fixed_parts(self._body):
            if part != _FACTOR:
                self._s.values.hoist(row, part)
        write = self._s.writing(self._body, stream)
        if self._s.kept is None:
            self._s.columns([row], [], write)
            return
        row.splats[Accumulator(self._largest.name)] = self._w.splat(self._vector, top)
        self._each(row, maxima, [], partial(self._write, write))

    def _each(
        self,
        row: Row,
        maxima: str,
        carried: Carried,
        do: Callable[[Row, str, list[str], int], list[str]],
    ) -> list[str]:
        """Loop over the chunks; `do(row from there, address of its maxima, state, columns)`."""
        width, step = self._columns * self._vector.item_bytes, self._s.bytes
        full, rest = divmod(self._s.program.columns, self._columns)
        kinds, state = [kind for kind, _ in carried], [value for _, value in carried]

        def chunk(_: str, inside: list[str]) -> list[str]:
            offset, at, *values = inside
            after = do(self._from(row, offset), at, values, self._columns)
            following = self._w.value(f"add nuw nsw i64 {offset}, {width}")
            return [following, self._w.advance(at, step), *after]

        if full:
            starts = [("i64", "0"), ("ptr", maxima), *zip(kinds, state, strict=True)]
            state = self._w.loop(full, starts, chunk)[2:]
        if rest:
            at = self._w.advance(maxima, full * step)
            state = do(self._from(row, full * width), at, state, rest)
        return state

    def _from(self, row: Row, offset: str | int) -> Row:
        pairs = zip(row.pointers, self._s.views, strict=True)
        pointers = [self._w.advance(p, offset) if view.column else p for p, view in pairs]
        return Row(row.number, pointers, row.known, dict(row.splats))

    def _add(self, row: Row, at: str, state: list[str], columns: int) -> list[str]:
        """Update the largest elements, then add exponentials relative to them."""
        before, total = state
        least = self._vector.constant(_LEAST[self._vector.dtype])
        largest = self._reduced(self._largest, row, before, least, columns)
        total = self._scaled(total, before, largest)
        row.splats[Accumulator(self._largest.name)] = largest
        total = self._reduced(self._total, row, total, self._vector.constant(0.0), columns)
        if self._s.kept is not None:
            self._w.store(self._vector, largest, at)
        return [largest, total]

    def _reduced(
        self, statistic: Statistic, row: Row, first: str, others: str, columns: int
    ) -> str:
        """A statistic over a chunk, lane by lane."""
        copies = self._s.plan.copies
        starts = [(self._vector.text, value) for value in (first, *[others] * (copies - 1))]
        do = self._s.adding((statistic,), [row], fetch=False)
        ends = self._s.columns([row], starts, do, columns)
        return self._s.reducing.together(statistic.reduction, ends)

    def _scaled(self, value: str, old: str, new: str) -> str:
        """Rescale a value from old maxima to new ones."""
        text = self._vector.text
        less = self._w.value(f"fsub {text} {old}, {new}")
        factor = exp_nonpositive(self._w, self._vector, less)
        return self._w.value(f"fmul {text} {value}, {factor}")

    def _write(self, write: Step, row: Row, at: str, state: list[str], columns: int) -> list[str]:
        one = self._vector.constant(1.0)
        top = row.splats[Accumulator(self._largest.name)]
        row.splats[_FACTOR] = self._scaled(one, self._w.load(self._vector, at), top)
        self._s.columns([row], [], write, columns)
        return state


# The module of a row program whose accumulators are in registers, and the choice of its kind.

_LINE = 64


def generate(program: RowProgram, plan: RowsPlan, dtype: str) -> str:
    """The module of a row program, with a function ``void @kernel(ptr slots)``.

    The slots are the program's arrays in order, then scratch memory if `scratch_bytes` is not 0; in
    a parallel plan, a pool of threads and their number follow.
    """
    return _writer(program, plan, dtype).module()


def scratch_bytes(program: RowProgram, plan: RowsPlan, dtype: str) -> int:
    """Scratch memory that each thread needs."""
    return _writer(program, plan, dtype).scratch


def _writer(program: RowProgram, plan: RowsPlan, dtype: str) -> _Generator | DividedGroups:
    kind = DividedGroups if plan.pieces else _Generator
    return kind(program, plan, VectorType(dtype, plan.lanes))


class _Generator:
    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.plan, self.vector = program, plan, vector
        self.sweeps = Sweeps(program, plan, vector)
        self.w, self.values = self.sweeps.w, self.sweeps.values
        self.blocks = GroupBlocks(self.sweeps) if plan.block else None
        vectors = -(-program.columns // vector.lanes) + plan.aligned
        self.kept_row = -(-vectors * self.sweeps.bytes // _LINE) * _LINE
        scratch = self.kept_row * plan.rows if plan.keep == SCRATCH else 0
        self.chunks = RowChunks(self.sweeps) if plan.chunk else None
        self.maxima_at = scratch
        if self.chunks:
            scratch += self.chunks.count * self.sweeps.bytes
        if self.blocks:
            scratch = self.blocks.record.size * plan.block
        self.sums_at = -(-scratch // _LINE) * _LINE
        if plan.parallel:
            scratch = self.sums_at + self.sweeps.sums.size
        # Threads do not share a cache line, nor the neighbouring line that is fetched with it.
        self.scratch = -(-scratch // (2 * _LINE)) * 2 * _LINE
        self.scratch_at = ""

    # Module

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
        """The entry, which runs the task on the pool and adds up the sums over all groups."""
        w, names, sums = IRWriter(), self.program.arrays, self.program.column_sums
        count = run_on_pool(w, len(names) + bool(self.scratch))
        if sums:
            outputs = [slot(w, names.index(one.view.tensor.name)) for one in sums]
            memory = w.advance(slot(w, len(names)), self.sums_at)
            self.sweeps.sums.gather(w, outputs, memory, self.scratch, count)
        w.emit("ret void")
        self.w.declarations |= w.declarations
        return function(w, KERNEL, bits)

    # Loops over groups

    def _all(self, bases: list[str], stream: int) -> None:
        """All groups, or the share of this thread: some at a time, then the remaining ones."""
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
        """Some groups from the first pass to the last, with accumulators in registers."""
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
            # Cache lines of the output are prefetched while the first sweep only reads.
            fetch = self.plan.ahead and number == 0 and not stream and self.plan.keep != OUTPUT
            self._collect(rows, statistics, fetch=fetch)
        for row in rows:
            self.sweeps.finish(row)
            self.values.hoist(row, self.sweeps.body)
            self.sweeps.sums.hoist(self.values, row)
        self.sweeps.segments(rows, [], self.sweeps.writing(self.sweeps.body, stream))

    def _collect(self, rows: list[Row], statistics: tuple[Statistic, ...], *, fetch: bool) -> None:
        """Sweep once for some statistics and store them in each row."""
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
