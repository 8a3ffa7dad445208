"""Few groups and many threads: every thread takes a piece of each group, sweep by sweep.

The kernel hands each sweep to the pool by itself. In between the calling thread adds up what the
others collected, each in records of its own, and works out what the next sweep needs.
"""

from __future__ import annotations

from functools import partial

from skipjack.core.program import RowProgram
from skipjack.native.ir import STREAM_METADATA, IRWriter, VectorType, function
from skipjack.solvers.loops.entry import KERNEL, run_task, share_with_tail, slot, task_signature
from skipjack.solvers.loops.rows_blocks import Blocks
from skipjack.solvers.loops.rows_plan import RowsPlan, divided
from skipjack.solvers.loops.rows_sweep import Sweeps
from skipjack.solvers.loops.rows_values import Row

_LINES = 128
"""Threads do not share a line, nor the neighbour that is fetched with it."""


class Pieces:
    """Writes the module."""

    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.rest = divided(program, plan.pieces, vector.lanes)
        self.plan, self.vector = plan, vector
        record = Blocks(Sweeps(self.program, plan, vector)).record
        self.scratch = -(-record.size * program.groups // _LINES) * _LINES
        """Bytes for each thread."""

    def module(self) -> str:
        """A function for each sweep, and the kernel that calls them."""
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
    """One function of the module, with what its slots hold."""

    def __init__(self, pieces: Pieces) -> None:
        self.p = pieces
        self.sweeps = Sweeps(pieces.program, pieces.plan, pieces.vector)
        self.w: IRWriter = self.sweeps.w
        self.blocks = Blocks(self.sweeps)
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
        """Prepare a sweep and have every thread do its share."""
        groups = self.p.program.groups
        if stage:
            self.blocks.each_group(self.bases, self.scratch, groups, partial(self._gather, stage))
        between = partial(self.blocks.between, stage)
        self.blocks.each_group(self.bases, self.scratch, groups, between)
        run_task(self.w, self.pool, self.threads, _name(stage))

    def _gather(self, stage: int, _: Row, at: str) -> None:
        """Add the other threads' accumulators of the sweep before to those of the first."""

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
