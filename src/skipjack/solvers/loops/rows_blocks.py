"""Groups that lie in pieces, some at a time, in the order of memory: accumulators wait there too.

A channel of an NCHW array has a piece in every image. Going through the images channel by channel
jumps from piece to piece; going through the channels image by image does not, but then every
channel's sums are under way at once. They stand in a scratch record for each group of the block,
beside its statistics and whatever else does not change along a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from skipjack.core.nest import Accumulator, Scalar
from skipjack.core.program import RowProgram, Statistic
from skipjack.native.ir import VectorType
from skipjack.solvers.loops.rows_sweep import Step, Sweeps
from skipjack.solvers.loops.rows_values import Row


class Record:
    """Where things stand in the scratch memory of a group, in bytes."""

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


class Blocks:
    """Writes the code of a block of groups."""

    def __init__(self, sweeps: Sweeps) -> None:
        self._s, self._w, self._values = sweeps, sweeps.w, sweeps.values
        self._passes = sweeps.program.passes()
        self._trees: list[list[Scalar]] = [
            *([statistic.body for statistic in sweep] for sweep in self._passes),
            [sweeps.body],
        ]
        fixed = [part for at in range(len(self._trees)) for part in self._fixed(at)]
        self.record = Record(sweeps.program, sweeps.vector, fixed)
        self.stages = len(self._trees)
        """Sweeps: one for each pass over the statistics, and the last."""
        self.own = ""
        """How far from a group's record this thread's accumulators are, if it has its own."""

    def _fixed(self, stage: int) -> list[Scalar]:
        """What a sweep needs that does not change along a row."""
        parts = (part for tree in self._trees[stage] for part in self._values.fixed_parts(tree))
        return list(dict.fromkeys(parts))

    def block(self, pointers: list[str], scratch: str, count: int, stream: int) -> None:
        """All passes over some groups; `pointers` are those of the first."""
        for stage in range(self.stages):
            self.each_group(pointers, scratch, count, partial(self.between, stage))
            row = partial(self.row, stage, stream)
            self._sweep(pointers, scratch, count, row)

    def each_group(
        self, pointers: list[str], scratch: str, count: int, do: Callable[[Row, str], None]
    ) -> None:
        """Go through some groups and their records."""
        moves = [view.group * self._s.vector.item_bytes for view in self._s.views]

        def group(_: str, inside: list[str]) -> list[str]:
            at, *here = inside
            do(Row(0, list(here)), at)
            after = (self._w.advance(p, move) for p, move in zip(here, moves, strict=True))
            return [self._w.advance(at, self.record.size), *after]

        self._w.loop(count, [("ptr", scratch), *(("ptr", pointer) for pointer in pointers)], group)

    def between(self, stage: int, row: Row, at: str) -> None:
        """End one sweep of a group and prepare the next."""
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
        """Set the accumulators of a sweep to where they begin."""
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
        """Segment by segment, and in it group by group."""
        moves = [view.segment * self._s.vector.item_bytes for view in self._s.views]

        def segment(_: str, here: list[str]) -> list[str]:
            self.each_group(here, scratch, count, do)
            return [self._w.advance(p, move) for p, move in zip(here, moves, strict=True)]

        starts = [("ptr", pointer) for pointer in pointers]
        self._w.loop(self._s.program.segments, starts, segment)

    def row(self, stage: int, stream: int, row: Row, at: str, columns: int | None = None) -> None:
        """One segment of one group, or some first columns of it."""
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
        """The first accumulator goes on from where the segment before left it."""
        if copy == 0:
            return self._w.load(self._s.vector, place)
        reduction = next(s.reduction for s in statistics if s.name == name)
        return self._s.reducing.start(reduction)
