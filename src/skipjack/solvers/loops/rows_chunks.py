"""A long row in one sweep: exponentials are taken relative to the largest element so far.

A softmax needs the largest element before the first exponential, which costs a sweep of its own.
Instead every chunk of a row, which the first cache holds, uses the largest element up to its own
end, lane by lane, and what was summed before is scaled when that grows. In the last sweep
the exponentials that were kept are scaled to the largest element of all, a factor for each chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import float_info

from skipjack.core.nest import Accumulator, Call, Load, Scalar
from skipjack.core.program import Statistic, replaced
from skipjack.native.ir import Carried
from skipjack.solvers.loops.exp_nonpositive import exp_nonpositive
from skipjack.solvers.loops.rows_plan import chunkable
from skipjack.solvers.loops.rows_sweep import Step, Sweeps
from skipjack.solvers.loops.rows_values import Row

_FACTOR = Accumulator("factor of a chunk")
_LEAST = {"f32": -3.4028234663852886e38, "f64": -float_info.max}
"""Where maxima start: unlike minus infinity it may be subtracted from itself."""


class Chunks:
    """Writes the code of one row."""

    def __init__(self, sweeps: Sweeps) -> None:
        pair = chunkable(sweeps.program)
        assert pair is not None, "the plan was fitted to the program"
        self._largest, self._total = pair
        self._s, self._w, self._vector = sweeps, sweeps.w, sweeps.vector
        self._columns = sweeps.plan.chunk * sweeps.vector.lanes
        self.count = -(-sweeps.program.columns // self._columns)
        """Chunks of a row, the last one perhaps shorter."""
        body = sweeps.program.body
        if sweeps.kept is not None:
            scaled: Scalar = Call("mul", (Load(sweeps.kept_at), _FACTOR))
            body = replaced(body, sweeps.kept, scaled)
        self._body = body

    def row(self, row: Row, maxima: str, stream: int) -> None:
        """All of a row; `maxima` has room for a vector for each chunk."""
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
        """Go through the chunks; `do(row from there, place of its maxima, state, columns)`."""
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
        """Largest elements so far, then exponentials relative to them."""
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
        """What is relative to old maxima, relative to new ones."""
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
