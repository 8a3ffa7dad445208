"""Groups whose rows lie in pieces, several groups at a time, with their accumulators in memory.

A channel of an NCHW array has a piece in every image. Reading the images channel by channel jumps
from piece to piece; reading all channels image by image does not, but then every channel has sums
in progress at once. They are kept in a scratch record for each group of the block, next to the
group's statistics and all other values that do not change along a row. If there are few groups and
many threads, each thread takes a part of every group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from skipjack.core import Accumulator, RowProgram, Scalar, Statistic
from skipjack.native import STREAM_METADATA, IRWriter, VectorType, function
from skipjack.solvers.cpu.ir import KERNEL, run_task, share_with_tail, slot, task_signature
from skipjack.solvers.cpu.rows.plan import RowsPlan, divided
from skipjack.solvers.cpu.rows.sweep import Step, Sweeps
from skipjack.solvers.cpu.rows.values import Row

# Blocks of groups.


class GroupRecord:
    """The layout of the scratch memory of a group, in bytes."""

    def __init__(self, program: RowProgram, vector: VectorType, fixed: list[Scalar]) -> None:
        width = vector.lanes * vector.item_bytes
        most = max((len(sweep) for sweep in program.passes()), default=0)
        self.accumulators = [width * at for at in range(most)]
        names: list[Scalar] = [Accumulator(statistic.name) for statistic in program.statistics]
        scalars = dict.fromkeys([*names, *fixed])
        self.scalars = {
            part: width * most + vector.item_bytes * at for at, part in enumerate(scalars)
        }
        size = width * most + vector.item_bytes * len(scalars)
        self.size = -(-size // max(width, 16)) * max(width, 16)


class GroupBlocks:
    def __init__(self, sweeps: Sweeps) -> None:
        self._s, self._w, self._values = sweeps, sweeps.w, sweeps.values
        self._passes = sweeps.program.passes()
        self._trees: list[list[Scalar]] = [
            *([statistic.body for statistic in sweep] for sweep in self._passes),
            [sweeps.body],
        ]
        fixed = [part for at in range(len(self._trees)) for part in self._fixed(at)]
        self.record = GroupRecord(sweeps.program, sweeps.vector, fixed)
        self.stages = len(self._trees)
        """Number of sweeps: one for each pass over the statistics, and the last one."""
        self.own = ""
        """Offset from a group's record to this thread's accumulators, if it has its own."""

    def _fixed(self, stage: int) -> list[Scalar]:
        """The expressions in a sweep that do not change along a row."""
        parts = (part for tree in self._trees[stage] for part in self._values.fixed_parts(tree))
        return list(dict.fromkeys(parts))

    def block(self, pointers: list[str], scratch: str, count: int, stream: int) -> None:
        """Write all passes over some groups; `pointers` are those of the first group."""
        for stage in range(self.stages):
            self.each_group(pointers, scratch, count, partial(self.between, stage))
            row = partial(self.row, stage, stream)
            self._sweep(pointers, scratch, count, row)

    def each_group(
        self, pointers: list[str], scratch: str, count: int, do: Callable[[Row, str], None]
    ) -> None:
        """Write a loop over some groups and their records."""
        moves = [view.group * self._s.vector.item_bytes for view in self._s.views]

        def group(_: str, inside: list[str]) -> list[str]:
            at, *here = inside
            do(Row(0, list(here)), at)
            after = (self._w.advance(p, move) for p, move in zip(here, moves, strict=True))
            return [self._w.advance(at, self.record.size), *after]

        self._w.loop(count, [("ptr", scratch), *(("ptr", pointer) for pointer in pointers)], group)

    def between(self, stage: int, row: Row, at: str) -> None:
        """Finish one sweep of a group and prepare the next."""
        vector, reducing = self._s.vector, self._s.reducing
        ended = self._passes[stage - 1] if stage else ()
        for sweep in self._passes[: max(0, stage - 1)]:
            for statistic in sweep:
                name = Accumulator(statistic.name)
                row.known[name] = self._w.load(self._values.scalar, self._at(at, name))
        for statistic, place in zip(ended, self.record.accumulators, strict=False):
            sums = self._w.load(vector, self._w.advance(at, place))
            known = {**row.known, Accumulator(): reducing.total(statistic.reduction, sums)}
            name = Accumulator(statistic.name)
            row.known[name] = self._values.once(row, statistic.epilogue, known)
            self._w.store(self._values.scalar, row.known[name], self._at(at, name))
        for part in self._fixed(stage):
            if not isinstance(part, Accumulator):
                value = self._values.once(row, part, row.known)
                self._w.store(self._values.scalar, value, self._at(at, part))
        if stage < len(self._passes):
            self.start(stage, at)
        else:
            self._s.finish(row)

    def start(self, stage: int, at: str) -> None:
        """Initialize the accumulators of a sweep."""
        for statistic, place in zip(self._passes[stage], self.record.accumulators, strict=False):
            start = self._s.reducing.start(statistic.reduction)
            self._w.store(self._s.vector, start, self._w.advance(at, place))

    def add(self, stage: int, at: str, other: str) -> None:
        """Add another thread's accumulators of a sweep to those of a record."""
        vector = self._s.vector
        for statistic, place in zip(self._passes[stage], self.record.accumulators, strict=False):
            here = self._w.advance(at, place)
            both = [self._w.load(vector, p) for p in (here, self._w.advance(other, place))]
            self._w.store(vector, self._s.reducing.together(statistic.reduction, both), here)

    def _at(self, record: str, part: Scalar) -> str:
        return self._w.advance(record, self.record.scalars[part])

    def _sweep(
        self, pointers: list[str], scratch: str, count: int, do: Callable[[Row, str], None]
    ) -> None:
        """Loop over the segments, and in each over the groups."""
        moves = [view.segment * self._s.vector.item_bytes for view in self._s.views]

        def segment(_: str, here: list[str]) -> list[str]:
            self.each_group(here, scratch, count, do)
            return [self._w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        starts = [("ptr", pointer) for pointer in pointers]
        self._w.loop(self._s.program.segments, starts, segment)

    def row(self, stage: int, stream: int, row: Row, at: str, columns: int | None = None) -> None:
        """One segment of one group, or its first `columns` columns."""
        vector, own = self._s.vector, self._w.advance(at, self.own or 0)
        for part in self._fixed(stage):
            row.splats[part] = self._w.broadcast(vector, self._at(at, part))
        if stage == len(self._passes):
            self._s.columns([row], [], self._s.writing(self._s.body, stream), columns)
            return
        statistics = self._passes[stage]
        do: Step = self._s.adding(statistics, [row], fetch=False)
        places = dict(zip((s.name for s in statistics), self.record.accumulators, strict=False))
        keys = self._s.accumulators(statistics, [row])
        started = [
            (vector.text, self._started(statistics, name, copy, self._w.advance(own, places[name])))
            for _, name, copy in keys
        ]
        sums = dict(zip(keys, self._s.columns([row], started, do, columns), strict=True))
        for statistic in statistics:
            several = [sums[key] for key in keys if key[1] == statistic.name]
            total = self._s.reducing.together(statistic.reduction, several)
            self._w.store(vector, total, self._w.advance(own, places[statistic.name]))

    def _started(self, statistics: tuple[Statistic, ...], name: str, copy: int, place: str) -> str:
        """The first accumulator continues from the previous segment."""
        if copy == 0:
            return self._w.load(self._s.vector, place)
        reduction = next(s.reduction for s in statistics if s.name == name)
        return self._s.reducing.start(reduction)


# Few groups and many threads: every thread takes a part of each group, sweep by sweep.
#
# The kernel runs each sweep on the pool separately. Between two sweeps the calling thread adds
# up the accumulators of all threads, which are in records of their own, and computes what the
# next sweep needs.

_LINE_PAIR = 128
"""Threads do not share a cache line, nor the neighbouring line that is fetched with it."""


class DividedGroups:
    """Writes the module of a program whose groups are divided among threads."""

    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.rest = divided(program, plan.pieces, vector.lanes)
        self.plan, self.vector = plan, vector
        record = GroupBlocks(Sweeps(self.program, plan, vector)).record
        self.scratch = -(-record.size * program.groups // _LINE_PAIR) * _LINE_PAIR
        """Scratch memory of each thread, in bytes."""

    def module(self) -> str:
        """The module: a function for each sweep, and the kernel that calls them."""
        kernel = _Function(self)
        sweeps = [_Function(self) for _ in range(kernel.blocks.stages)]
        for stage, sweep in enumerate(sweeps):
            sweep.task(stage)
            kernel.hand_out(stage)
        bits = max(128, 8 * kernel.sweeps.bytes)
        texts = [
            function(sweep.w, task_signature(_name(stage)), bits, linkage="internal")
            for stage, sweep in enumerate(sweeps)
        ]
        kernel.w.emit("ret void")
        texts.append(function(kernel.w, KERNEL, bits))
        declared = set().union(*(part.w.declarations for part in (kernel, *sweeps)))
        return "\n".join([*sorted(declared), *texts, STREAM_METADATA])


def _name(stage: int) -> str:
    return f"sweep{stage}"


class _Function:
    """One function of the module, with the values of its slots."""

    def __init__(self, pieces: DividedGroups) -> None:
        self.p = pieces
        self.sweeps = Sweeps(pieces.program, pieces.plan, pieces.vector)
        self.w: IRWriter = self.sweeps.w
        self.blocks = GroupBlocks(self.sweeps)
        w, item = self.w, pieces.vector.item_bytes
        names = pieces.program.arrays
        arrays = {name: slot(w, number) for number, name in enumerate(names)}
        self.bases = [
            w.advance(arrays[view.tensor.name], view.offset * item) for view in self.sweeps.views
        ]
        self.scratch, self.pool = (slot(w, len(names) + at) for at in (0, 1))
        self.threads = slot(w, len(names) + 2, "i64")

    # the kernel

    def hand_out(self, stage: int) -> None:
        """Prepare a sweep and run it on all threads."""
        groups = self.p.program.groups
        if stage:
            self.blocks.each_group(self.bases, self.scratch, groups, partial(self._gather, stage))
        between = partial(self.blocks.between, stage)
        self.blocks.each_group(self.bases, self.scratch, groups, between)
        run_task(self.w, self.pool, self.threads, _name(stage))

    def _gather(self, stage: int, _: Row, at: str) -> None:
        """Add the accumulators of the other threads in the previous sweep to those of the first
        thread."""

        def add(_: str, there: list[str]) -> list[str]:
            self.blocks.add(stage - 1, at, there[0])
            return [self.w.advance(there[0], self.p.scratch)]

        others = self.w.value(f"sub i64 {self.threads}, 1")
        second = self.w.advance(at, self.p.scratch)
        self.w.loop_or_skip(others, [("ptr", second)], add)

    # a sweep

    def task(self, stage: int) -> None:
        """The share of one thread in a sweep."""
        w = self.w
        self.blocks.own = w.value(f"mul i64 %index, {self.p.scratch}")
        if stage < self.blocks.stages - 1:
            own = w.advance(self.scratch, self.blocks.own)
            start = partial(self._start, stage)
            self.blocks.each_group(self.bases, own, self.p.program.groups, start)
            self._share(stage, 0)
        else:
            output = self.bases[self.sweeps.out]
            self.sweeps.streamed_if_possible(output, partial(self._share, stage))
        w.emit("ret void")

    def _start(self, stage: int, _: Row, at: str) -> None:
        self.blocks.start(stage, at)

    def _share(self, stage: int, stream: int) -> None:
        w, program = self.w, self.p.program
        moves = [view.segment * self.p.vector.item_bytes for view in self.sweeps.views]
        row = partial(self.blocks.row, stage, stream)
        own = share_with_tail(w, program.segments, bool(self.p.rest))

        def segment(_: str, here: list[str]) -> list[str]:
            self.blocks.each_group(here, self.scratch, program.groups, row)
            return [w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        starts = [
            w.advance(base, w.value(f"mul i64 {own.begin}, {move}") if move else 0)
            for base, move in zip(self.bases, moves, strict=True)
        ]

        def remaining() -> None:
            pairs = zip(self.bases, moves, strict=True)
            ends = [w.advance(base, move * program.segments) for base, move in pairs]
            last = partial(row, columns=self.p.rest)
            self.blocks.each_group(ends, self.scratch, program.groups, last)

        w.loop_or_skip(own.rounds, [("ptr", start) for start in starts], segment)
        if self.p.rest:
            w.when(own.has_tail, remaining)
