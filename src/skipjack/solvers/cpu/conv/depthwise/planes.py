"""Depthwise convolution forward and backward to the image: all planes, shared out to threads.

A plane is the sum of one or more terms: in two dimensions one, in three one for each plane of the
filter, and backward one for each output channel of an input channel. The first is stored, the
others are added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from skipjack.native import constant_mask
from skipjack.operations import Role
from skipjack.solvers.cpu.conv.depthwise.module import (
    OTHER,
    OUT,
    PLAIN,
    SOURCE,
    Function,
    each_item,
    fetch,
    internal,
    module,
    own_memory,
    taps_function,
)
from skipjack.solvers.cpu.conv.depthwise.plan import CHUNK, ArrayStrides, DepthwisePlan
from skipjack.solvers.cpu.conv.depthwise.plane_loops import (
    LiveValues,
    RowLoops,
    StripPosition,
    Strips,
)
from skipjack.solvers.cpu.conv.depthwise.window import (
    LiveRow,
    PlaneChunk,
    WindowRound,
    chunk_blocks,
    chunk_choice,
    plane_chunks,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter, share, slot, task_signature

# One plane: sums of products with taps.

_SIGNATURE = "ptr noalias %from, ptr noalias %taps, ptr noalias %to, i64 %chunk"


@dataclass(frozen=True, slots=True)
class PlaneFunction:
    """The code of some chunks of a plane: ``@name(from, taps, to, chunk)``, with pointers to the
    whole.

    It computes a first term, which is stored, or a further one, which is added, for full vectors of
    channels or, with a mask, the last one.
    """

    name: str
    chunk: PlaneChunk
    more: bool
    mask: str | None


class PlaneWriter:
    def __init__(self, plan: DepthwisePlan) -> None:
        self.plan, geometry = plan, plan.geometry
        given: Role = "result" if geometry.wanted == "image" else "image"
        self.source, self.to = ArrayStrides.of(plan, given), ArrayStrides.of(plan, geometry.wanted)
        _, self.high, _ = plan.patterns
        self.blocks = chunk_blocks(self.high, plan.chunks)
        self.chunks = plane_chunks(self.high, plan.chunks)
        if not plan.sliding:  # the code is the same for all chunks
            self.chunks = (replace(self.chunks[0], repeats=sum(c.repeats for c in self.chunks)),)

    def write(self, function: PlaneFunction) -> Function:
        """The text of a function."""
        w = WholeNumberWriter()
        if self.plan.sliding:
            self._sliding(w, function)
        else:
            begin = w.mul("%chunk", self.blocks)
            rows = RowLoops(w, self.plan, self.source, self.to, function.more, function.mask)
            rows.write("%from", "%taps", "%to", begin, w.add(begin, self.blocks))
        w.emit("ret void")
        return internal(w, f"void @{function.name}({_SIGNATURE})", self.plan)

    def _sliding(self, w: WholeNumberWriter, function: PlaneFunction) -> None:
        plan = self.plan
        begin = w.mul("%chunk", self.blocks)
        source = w.advance("%from", w.mul(begin, self.high.stride * self.source.row))
        to = w.advance("%to", w.mul(begin, self.high.step * self.to.row))
        _, rows, columns = plan.geometry.filter_sizes
        kept = {
            (row, column): plan.load_tap(w, "%taps", row, column)
            for row in range(rows if plan.hoisted else 0)
            for column in range(columns)
        }

        def write_round(
            each: WindowRound, place: StripPosition, live_values: LiveValues, _: list[str]
        ) -> list[str]:
            for row, uses in each.rows:
                for live_row, _tap in uses:
                    if live_row not in live_values:
                        live_values[live_row] = self._fresh(w, place, live_row, function.more)
                self._products(w, place, row, uses, live_values, kept)
            for live_row in each.done:
                sums = live_values.get(live_row) or self._fresh(w, place, live_row, function.more)
                place.columns.store(self._row(w, place, live_row), sums)
            return []

        sliding_window = function.chunk.sliding_window
        Strips(w, plan, sliding_window, self.source, self.to, write_round, function.mask).write(
            source, to
        )

    def _products(
        self,
        w: WholeNumberWriter,
        place: StripPosition,
        row: int,
        uses: tuple[tuple[LiveRow, int], ...],
        live_values: LiveValues,
        kept: dict[tuple[int, int], str],
    ) -> None:
        """All products of one row of the source."""
        vector, zero = self.plan.vector, self.plan.vector.constant(0.0)
        source = w.advance(place.source, row * self.source.row)
        for value, met in place.columns.values(source):
            for live_row, filter_row in uses:
                sums = live_values[live_row]
                for at, column in met:
                    tap = kept.get((filter_row, column)) or self.plan.load_tap(
                        w, "%taps", filter_row, column
                    )
                    sums[at] = (
                        w.value(f"fmul {vector.text} {value}, {tap}")
                        if sums[at] == zero
                        else w.call(vector, "fmuladd", [value, tap, sums[at]])
                    )

    def _fresh(
        self, w: WholeNumberWriter, place: StripPosition, live_row: LiveRow, more: bool
    ) -> list[str]:
        """The initial sums of a row."""
        if more:
            return place.columns.load(self._row(w, place, live_row))
        return [self.plan.vector.constant(0.0)] * place.columns.positions

    def _row(self, w: WholeNumberWriter, place: StripPosition, live_row: LiveRow) -> str:
        row = live_row.phase - live_row.back * self.high.step
        return w.advance(place.live_rows, row * self.to.row)


# All planes.


def generate(plan: DepthwisePlan) -> str:
    """The module; the slots are those of `module`."""
    functions = _Planes(plan).functions()
    if plan.stream:
        # Outputs that are not aligned for streaming use plain stores, in short code.
        functions += _Planes(replace(plan, stream=False, sliding=False), PLAIN).functions()
    if plan.last:
        functions.append(taps_function(plan))
    return module(plan, functions, ["task"])


def workspace_bytes(plan: DepthwisePlan) -> int:
    """Workspace of one thread: the filter in vectors of channels."""
    return plan.units * plan.geometry.taps * plan.vector_bytes if plan.last else 0


class _Planes:
    """Writes the task and the functions that it calls; their names end in `suffix`."""

    def __init__(self, plan: DepthwisePlan, suffix: str = "") -> None:
        self.plan, self.geometry, self.suffix = plan, plan.geometry, suffix
        self.gathering = PlaneWriter(plan)
        self.source, self.to = self.gathering.source, self.gathering.to
        self.chunks = self.gathering.chunks
        self.terms = self.geometry.group_k if self.geometry.wanted == "image" else 1
        self.several = self.terms > 1 or self.geometry.filter_sizes[0] > 1
        self.mask = constant_mask(plan.vector.lanes, plan.tail) if plan.tail else None

    def functions(self) -> list[Function]:
        functions = [self._task()]
        for number, chunk in enumerate(self.chunks):
            for more in (False, True) if self.several else (False,):
                for mask in (None, self.mask) if self.mask else (None,):
                    name = self._name(number, more, bool(mask))
                    functions.append(self.gathering.write(PlaneFunction(name, chunk, more, mask)))
        return functions

    def _name(self, number: int, more: bool, tail: bool) -> str:
        return f"plane{number}{'_more' if more else ''}{'_tail' if tail else ''}{self.suffix}"

    def _task(self) -> Function:
        plan, geometry = self.plan, self.geometry
        w = WholeNumberWriter()
        source, taps, out = slot(w, SOURCE), slot(w, OTHER), slot(w, OUT)
        parts = {"deep": plan.patterns[0].size, "chunk": sum(each.repeats for each in self.chunks)}
        if plan.last:
            transposed = own_memory(w, plan, workspace_bytes(plan))
            first, end = "0", str(plan.units)
            if geometry.n * prod(parts.values()) == 1:  # then threads share out the channels
                first, end = share(w, plan.units)
            w.emit(f"call void @taps(ptr {taps}, ptr {transposed}, i64 {first}, i64 {end})")
            taps = transposed
        # Data is visited in the order of memory.
        sizes = (
            {"n": geometry.n, **parts, "channel": plan.units}
            if plan.last
            else {"n": geometry.n, "channel": plan.units, **parts}
        )

        def item(at: Mapping[str, str]) -> None:
            here = w.advance(source, w.mul(at["n"], self.source.image))
            there = w.advance(out, w.mul(at["n"], self.to.image))
            there = w.advance(there, w.mul(at["channel"], self.to.channel))
            there = w.advance(there, w.mul(at["deep"], self.to.plane))
            if plan.fetch == CHUNK:
                first = w.value(f"icmp eq i64 {at['channel']}, 0")
                w.when(first, lambda: self._fetch(w, at, here))
            self._sum(w, at, here, taps, there)

        each_item(w, sizes, item)
        if plan.stream:
            w.emit("fence seq_cst")  # nontemporal stores are not ordered without a fence
        w.emit("ret void")
        return internal(w, task_signature(f"task{self.suffix}"), plan)

    def _fetch(self, w: WholeNumberWriter, at: Mapping[str, str], source: str) -> None:
        """Fetch all channels of the rows that a chunk reads, except those of the next chunk."""
        _, high, _ = self.plan.patterns
        rows = self.gathering.blocks * high.stride
        begin = w.mul(at["chunk"], rows)
        count = w.least(w.without(high.given, begin), rows)
        place = w.advance(source, w.mul(begin, self.source.row))
        fetch(w, place, w.mul(count, self.source.row))

    def _sum(
        self, w: WholeNumberWriter, at: Mapping[str, str], source: str, taps: str, to: str
    ) -> None:
        """Add all terms of one plane."""
        depth = self.geometry.filter_sizes[0]

        def term(number: str, carried: list[str]) -> list[str]:
            seen = carried[0]
            channel, filter_of = self._channels(w, at["channel"], number)
            here = w.advance(source, w.mul(channel, self.source.channel))
            of_filter = w.advance(taps, w.mul(filter_of, depth * self.plan.tap_plane))
            for tap in range(depth):
                plane, there = self._read_plane(w, tap, at["deep"])
                place = w.advance(here, w.mul(plane, self.source.plane))
                arguments = (place, w.advance(of_filter, tap * self.plan.tap_plane), to)
                before = seen
                if not there:
                    self._call(w, at, arguments, before)
                    seen = "true"
                    continue
                w.when(there, lambda: self._call(w, at, arguments, before))  # noqa: B023
                seen = w.value(f"or i1 {seen}, {there}")
            return [seen]

        w.loop(self.terms, [("i1", "false")], term)

    def _channels(self, w: WholeNumberWriter, channel: str, term: str) -> tuple[str, str]:
        """The input channel that a term reads, and the channel of its filter."""
        group = self.geometry.group_k
        if group == 1:
            return channel, channel
        if self.geometry.wanted == "image":
            each = w.add(w.mul(channel, group), term)
            return each, each
        return w.value(f"udiv i64 {channel}, {group}"), channel

    def _read_plane(self, w: WholeNumberWriter, tap: int, position: str) -> tuple[str, str]:
        """The plane that a position of the depth reads through a tap, and whether it exists."""
        axis = self.geometry.axes[0]
        if axis.trivial:
            return position, ""
        distance = tap * axis.dilation - axis.pad
        if self.geometry.wanted == "result":
            plane = w.add(w.mul(position, axis.stride), distance)
            return plane, w.value(f"icmp ult i64 {plane}, {axis.image}")
        far = w.sub(position, distance)
        plane = w.value(f"sdiv i64 {far}, {axis.stride}")
        even = w.value(f"icmp eq i64 {w.mul(plane, axis.stride)}, {far}")
        inside = w.value(f"icmp ult i64 {plane}, {axis.result}")
        return plane, w.value(f"and i1 {even}, {inside}")

    def _call(
        self, w: WholeNumberWriter, at: Mapping[str, str], pointers: tuple[str, str, str], seen: str
    ) -> None:
        """Call the function for this chunk, for a first or further term and a full or last
        vector."""
        given = ", ".join(f"ptr {pointer}" for pointer in pointers) + f", i64 {at['chunk']}"

        def by_vector(number: int, more: bool) -> None:
            def call(tail: bool) -> None:
                w.emit(f"call void @{self._name(number, more, tail)}({given})")

            if self.mask is None:
                call(False)
                return
            full = w.value(f"icmp ult i64 {at['channel']}, {self.plan.units - 1}")
            w.either(full, lambda: call(False), lambda: call(True))

        def by_term(number: int) -> None:
            if self.several:
                w.either(seen, lambda: by_vector(number, True), lambda: by_vector(number, False))
            else:
                by_vector(number, False)

        chunk_choice(w, self.chunks, at["chunk"], by_term)
