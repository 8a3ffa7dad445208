"""From a row program to LLVM IR: some rows at a time, one sweep over them for each pass.

A sweep takes `copies` vectors in a round, then single ones and a masked last. A reduction has an
accumulator for each of them, so that additions need not wait for each other. Threads share the
rows out.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from skipjack.core.nest import Accumulator, Call, Load
from skipjack.core.program import RowProgram, Statistic, replaced
from skipjack.native.ir import Carried, IRWriter, VectorType, constant_mask, function
from skipjack.solvers.loops.rows_plan import RowsPlan, kept_part
from skipjack.solvers.loops.rows_values import Place, Row, RowValues

_STARTS = {"sum": 0.0, "max": -inf}
_KERNEL = "void @kernel(ptr noalias readonly %slots)"
_TASK = "void @task(ptr noalias readonly %slots, i64 %index, i64 %count)"

_Step = Callable[[Place, list[Row], list[str]], list[str]]
"""Code for one place; takes and gives what the sweep carries."""


def generate(program: RowProgram, plan: RowsPlan, dtype: str) -> str:
    """A module with ``void @kernel(ptr slots)``.

    The slots are the program's arrays in order. Of a parallel plan a pool of threads and their
    number follow.
    """
    return _Generator(program, plan, VectorType(dtype, plan.lanes)).module()


class _Generator:
    def __init__(self, program: RowProgram, plan: RowsPlan, vector: VectorType) -> None:
        self.program, self.plan, self.vector = program, plan, vector
        self.views = (*program.inputs, program.output)
        self.w = IRWriter()
        self.values = RowValues(self.w, self.views, vector)
        self.kept = kept_part(program) if plan.keep else None
        self.streaming = False
        self.bytes = vector.item_bytes * vector.lanes

    # the module

    def module(self) -> str:
        w, item = self.w, self.vector.item_bytes
        arrays = {
            name: w.value(f"load ptr, ptr {w.advance('%slots', 8 * slot)}, align 8")
            for slot, name in enumerate(self.program.arrays)
        }
        bases = [w.advance(arrays[view.tensor.name], view.offset * item) for view in self.views]
        if self.plan.streaming:
            address = w.value(f"ptrtoint ptr {bases[-1]} to i64")
            odd = w.value(f"and i64 {address}, {self.bytes - 1}")
            w.when(w.value(f"icmp eq i64 {odd}, 0"), lambda: self._streamed(bases))
            w.when(w.value(f"icmp ne i64 {odd}, 0"), lambda: self._all(bases))
        else:
            self._all(bases)
        w.emit("ret void")
        bits = max(128, 8 * self.bytes)
        if self.plan.parallel:
            text = function(w, _TASK, bits, linkage="internal") + self._launch(bits)
        else:
            text = function(w, _KERNEL, bits)
        return "\n".join([*sorted(w.declarations), text, "!0 = !{i32 1}\n"])

    def _launch(self, bits: int) -> str:
        """The entry that hands the task to the pool."""
        w, after = IRWriter(), len(self.program.arrays)
        pool = w.value(f"load ptr, ptr {w.advance('%slots', 8 * after)}, align 8")
        count = w.value(f"load i64, ptr {w.advance('%slots', 8 * (after + 1))}, align 8")
        w.emit(f"call void {pool}(ptr @task, ptr %slots, i64 {count})")
        w.emit("ret void")
        return function(w, _KERNEL, bits)

    def _streamed(self, bases: list[str]) -> None:
        self.streaming = True
        self._all(bases)
        self.streaming = False
        # Streamed stores are not ordered by themselves: whoever is told next must see them.
        self.w.emit("fence seq_cst")

    # loops over groups

    def _all(self, bases: list[str]) -> None:
        """All groups, or the share of this thread."""
        w, rows = self.w, self.plan.rows
        full, rest = divmod(self.program.groups, rows)
        moves = [view.group * self.vector.item_bytes for view in self.views]

        def body(_: str, pointers: list[str]) -> list[str]:
            self._groups(pointers, moves, rows)
            return [w.advance(p, move * rows) for p, move in zip(pointers, moves, strict=True)]

        def remaining() -> None:
            ends = zip(bases, moves, strict=True)
            self._groups([w.advance(p, move * rows * full) for p, move in ends], moves, rest)

        if not self.plan.parallel:
            if full:
                w.loop(full, [("ptr", base) for base in bases], body)
            if rest:
                remaining()
            return
        first, following = self._share("%index", full), w.value("add i64 %index, 1")
        rounds = w.value(f"sub i64 {self._share(following, full)}, {first}")
        starts = [
            w.advance(base, w.value(f"mul i64 {first}, {move * rows}") if move else 0)
            for base, move in zip(bases, moves, strict=True)
        ]
        w.loop_or_skip(rounds, [("ptr", start) for start in starts], body)
        if rest:
            w.when(w.value(f"icmp eq i64 {following}, %count"), remaining)

    def _share(self, index: str, total: int) -> str:
        """Where the share of a thread begins."""
        product = self.w.value(f"mul i64 {index}, {total}")
        return self.w.value(f"udiv i64 {product}, %count")

    def _groups(self, pointers: list[str], moves: list[int], count: int) -> None:
        pairs = list(zip(pointers, moves, strict=True))
        rows = [
            Row(number, [self.w.advance(p, move * number) for p, move in pairs])
            for number in range(count)
        ]
        for statistics in self.program.passes():
            self._collect(rows, statistics)
        self._write(rows)

    # passes

    def _collect(self, rows: list[Row], statistics: tuple[Statistic, ...]) -> None:
        """Sweep once for some statistics; each row knows them afterwards."""
        copies = self.plan.copies
        keys = [
            (row.number, statistic.name, copy)
            for row in rows
            for statistic in statistics
            for copy in range(copies)
        ]
        starts: Carried = []
        for row in rows:
            for statistic in statistics:
                self.values.hoist(row, statistic.body)
                start = self.vector.constant(_STARTS[statistic.reduction])
                starts += [(self.vector.text, start)] * copies

        def add(place: Place, here: list[Row], state: list[str]) -> list[str]:
            sums = dict(zip(keys, state, strict=True))
            for row in here:
                for statistic in statistics:
                    key = (row.number, statistic.name, place.copy)
                    sums[key] = self._reduced(place, row, statistic, sums[key])
            return list(sums.values())

        sums = dict(zip(keys, self._sweep(rows, starts, add), strict=True))
        for row in rows:
            for statistic in statistics:
                own = [sums[row.number, statistic.name, copy] for copy in range(copies)]
                known = {**row.known, Accumulator(): self._total(statistic.reduction, own)}
                value = self.values.once(row, statistic.epilogue, known)
                row.known[Accumulator(statistic.name)] = value

    def _reduced(self, place: Place, row: Row, statistic: Statistic, before: str) -> str:
        """An accumulator after one more vector."""
        body, text = statistic.body, self.vector.text
        if statistic.reduction == "max":
            after = self._larger(self.values.value(place, row, body), before)
        elif isinstance(body, Call) and body.function in ("mul", "square") and body != self.kept:
            factors = [self.values.value(place, row, part) for part in body.arguments]
            after = self.w.call(self.vector, "fmuladd", [factors[0], factors[-1], before])
        else:
            value = self.values.value(place, row, body)
            after = self.w.value(f"fadd {text} {before}, {value}")
            if body == self.kept:
                self._store(place, row, value)
        if place.mask is None:
            return after
        lanes = f"<{self.vector.lanes} x i1>"
        return self.w.value(f"select {lanes} {place.mask}, {text} {after}, {text} {before}")

    def _write(self, rows: list[Row]) -> None:
        """The last sweep."""
        body = self.program.body
        if self.kept is not None:
            body = replaced(body, self.kept, Load(len(self.program.inputs)))
        for row in rows:
            self.values.hoist(row, body)

        def write(place: Place, here: list[Row], state: list[str]) -> list[str]:
            values = [self.values.value(place, row, body) for row in here]
            for row, value in zip(here, values, strict=True):
                self._store(place, row, value)
            return state

        self._sweep(rows, [], write)

    def _store(self, place: Place, row: Row, value: str) -> None:
        at = self.values.address(place, row, len(self.views) - 1)
        if self.streaming:
            place_text = f"ptr {at}, align {self.bytes}, !nontemporal !0"
            self.w.emit(f"store {self.vector.text} {value}, {place_text}")
        else:
            self.w.store(self.vector, value, at, place.mask)

    # sweeps

    def _sweep(self, rows: list[Row], carried: Carried, do: _Step) -> list[str]:
        """All segments and columns of some rows; gives what was carried, at the end."""
        moves = [view.segment * self.vector.item_bytes for view in self.views]
        kinds = [kind for kind, _ in carried]
        moving = [(row.number, view) for row in rows for view, move in enumerate(moves) if move]

        def segment(_: str, values: list[str]) -> list[str]:
            here = [Row(row.number, list(row.pointers), row.known, row.splats) for row in rows]
            pointers, state = values[: len(moving)], values[len(moving) :]
            for (number, view), pointer in zip(moving, pointers, strict=True):
                here[number].pointers[view] = pointer
            after = self._columns(here, list(zip(kinds, state, strict=True)), do)
            ends = zip(pointers, moving, strict=True)
            return [*(self.w.advance(p, moves[view]) for p, (_, view) in ends), *after]

        starts = [("ptr", rows[number].pointers[view]) for number, view in moving]
        return self.w.loop(self.program.segments, [*starts, *carried], segment)[len(moving) :]

    def _columns(self, rows: list[Row], carried: Carried, do: _Step) -> list[str]:
        lanes, copies = self.vector.lanes, self.plan.copies
        rounds, rest = divmod(self.program.columns, lanes * copies)
        width = copies * self.bytes
        values = [value for _, value in carried]

        def round_(_: str, inside: list[str]) -> list[str]:
            offset, *state = inside
            for copy in range(copies):
                state = do(Place(offset, copy, None), rows, state)
            return [self.w.value(f"add nuw nsw i64 {offset}, {width}"), *state]

        if rounds:
            values = self.w.loop(rounds, [("i64", "0"), *carried], round_)[1:]
        for copy in range(-(-rest // lanes)):
            mask = constant_mask(lanes, min(lanes, rest - copy * lanes))
            values = do(Place(rounds * width, copy, mask), rows, values)
        return values

    # the arithmetic of reductions

    def _larger(self, value: str, than: str) -> str:
        """The larger one, the second where the first is NaN: a single instruction on x86."""
        text, lanes = self.vector.text, self.vector.lanes
        more = self.w.value(f"fcmp ogt {text} {value}, {than}")
        truth = "i1" if lanes == 1 else f"<{lanes} x i1>"
        return self.w.value(f"select {truth} {more}, {text} {value}, {text} {than}")

    def _combined(self, reduction: str, left: str, right: str) -> str:
        if reduction == "max":
            return self._larger(left, right)
        return self.w.value(f"fadd {self.vector.text} {left}, {right}")

    def _total(self, reduction: str, values: list[str]) -> str:
        """One number from accumulators: pairwise, then across the lanes."""
        kind = self.vector
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            odd = values[len(values) & ~1 :]
            values = [self._combined(reduction, *pair) for pair in pairs] + odd
        if kind.lanes == 1:
            return values[0]
        # Accumulators of a maximum are never NaN: they take only what is larger.
        step, flag = ("fadd", "reassoc") if reduction == "sum" else ("fmax", "nnan")
        name = f"@llvm.vector.reduce.{step}.{kind.suffix}"
        start = [(kind.scalar, self.values.scalar.constant(-0.0))] if reduction == "sum" else []
        given = [*start, (kind.text, values[0])]
        types = ", ".join(type_ for type_, _ in given)
        self.w.declarations.add(f"declare {kind.scalar} {name}({types})")
        arguments = ", ".join(f"{type_} {value}" for type_, value in given)
        return self.w.value(f"call {flag} {kind.scalar} {name}({arguments})")
