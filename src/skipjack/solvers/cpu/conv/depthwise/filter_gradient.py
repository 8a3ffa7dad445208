"""Depthwise convolution backward to the filter: sums over the pixels of all planes.

Each thread takes some of the channels, or some of the images (or chunks of them): then every
thread has sums of its own for all channels, which a second task adds up. The results are vectors:
of channels, which are transposed, or of pixels, which are added up.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from skipjack.native import constant_mask
from skipjack.solvers.cpu.conv.depthwise.module import (
    OTHER,
    OUT,
    SOURCE,
    WORKSPACE,
    Function,
    fetch,
    finish_function,
    internal,
    module,
    own_memory,
)
from skipjack.solvers.cpu.conv.depthwise.plan import CHUNK, ArrayStrides, DepthwisePlan
from skipjack.solvers.cpu.conv.depthwise.plane_loops import LiveValues, StripPosition, Strips
from skipjack.solvers.cpu.conv.depthwise.window import (
    LiveRow,
    Reads,
    WindowRound,
    chunk_blocks,
    chunk_choice,
    plane_chunks,
)
from skipjack.solvers.cpu.ir import WholeNumberWriter, share, slot, task_signature

# Sums over the pixels of a plane, for every tap of a filter.
#
# The window slides down the image, and the rows of the result that it uses are live; the sums of
# some rows of the filter stay in registers all the time.

_SIGNATURE = "ptr noalias %image, ptr noalias %result, ptr noalias %sums, i64 %chunk"


def filter_groups(reads: Reads, size: int) -> list[Reads]:
    return [reads[first : first + size] for first in range(0, len(reads), size)]


class PlaneSums:
    """Writes ``@sumsG_K(image, result, sums, chunk)`` for groups G of the filter's rows.

    They add the sums of a chunk of kind K; pointers are to whole planes and a plane's sums.
    """

    def __init__(self, plan: DepthwisePlan) -> None:
        self.plan = plan
        self.image, self.result = ArrayStrides.of(plan, "image"), ArrayStrides.of(plan, "result")
        _, self.high, _ = plan.patterns
        self.blocks = chunk_blocks(self.high, plan.chunks)
        self.groups = filter_groups(self.high.phases[0], plan.group)
        self.chunks = [
            plane_chunks(replace(self.high, phases=(reads,)), plan.chunks) for reads in self.groups
        ]
        self.columns = range(plan.geometry.filter_sizes[2])
        self.mask = constant_mask(plan.vector.lanes, plan.tail) if plan.tail else None

    def functions(self) -> list[Function]:
        """The functions of all groups and kinds of chunks, also for a partial last vector."""
        return [
            self._plane(group, kind, tail)
            for tail in ((False, True) if self.mask else (False,))
            for group, found in enumerate(self.chunks)
            for kind in range(len(found))
        ]

    def _plane(self, group: int, kind: int, tail: bool) -> Function:
        w, plan = WholeNumberWriter(), self.plan
        taps = [(row, column) for row, _ in self.groups[group] for column in self.columns]
        numbers = [row * len(self.columns) + column for row, column in taps]
        places = [w.advance("%sums", number * plan.vector_bytes) for number in numbers]
        begin = w.mul("%chunk", self.blocks)
        image = w.advance("%image", w.mul(begin, self.high.stride * self.image.row))
        result = w.advance("%result", w.mul(begin, self.result.row))

        def write_round(
            each: WindowRound, place: StripPosition, live_values: LiveValues, sums: list[str]
        ) -> list[str]:
            now = dict(zip(taps, sums, strict=True))
            for row, uses in each.rows:
                for live_row, _ in uses:
                    if live_row not in live_values:
                        there = w.advance(place.live_rows, -live_row.back * self.result.row)
                        live_values[live_row] = place.columns.load(there)
                self._products(w, place, row, uses, live_values, now)
            return list(now.values())

        mask = self.mask if tail else None
        sliding_window = self.chunks[group][kind].sliding_window
        starts = [w.load(plan.vector, place) for place in places]
        strips = Strips(w, plan, sliding_window, self.image, self.result, write_round, mask)
        ends = strips.write(image, result, starts)
        for place, value in zip(places, ends, strict=True):
            w.store(plan.vector, value, place)
        w.emit("ret void")
        name = f"sums{group}_{kind}{'_tail' if tail else ''}"
        return internal(w, f"void @{name}({_SIGNATURE})", plan)

    def _products(
        self,
        w: WholeNumberWriter,
        place: StripPosition,
        row: int,
        uses: tuple[tuple[LiveRow, int], ...],
        live_values: LiveValues,
        sums: dict[tuple[int, int], str],
    ) -> None:
        """All products of one row of the image."""
        source = w.advance(place.source, row * self.image.row)
        for value, met in place.columns.values(source):
            for live_row, filter_row in uses:
                for at, column in met:
                    tap = (filter_row, column)
                    factors = [value, live_values[live_row][at], sums[tap]]
                    sums[tap] = w.call(self.plan.vector, "fmuladd", factors)


# All planes, shared out to threads.


def generate(plan: DepthwisePlan) -> str:
    """The module; the slots are those of `module`."""
    return _Filter(plan).module()


def workspace_bytes(plan: DepthwisePlan) -> int:
    """Workspace of one thread: the sums that are computed together."""
    together = plan.units if plan.images_shared else plan.block
    return together * plan.geometry.taps * plan.vector_bytes


class _Filter:
    def __init__(self, plan: DepthwisePlan) -> None:
        self.plan, self.geometry = plan, plan.geometry
        self.sums = PlaneSums(plan)
        self.image, self.result = self.sums.image, self.sums.result
        self.parts = sum(chunk.repeats for chunk in self.sums.chunks[0])
        self.unit = self.geometry.taps * plan.vector_bytes
        self.w = WholeNumberWriter()

    def module(self) -> str:
        functions = self.sums.functions()
        functions += [
            finish_function(self.plan, tail=tail)
            for tail in ((False, True) if self.plan.tail else (False,))
        ]
        if not self.plan.images_shared:
            return module(self.plan, [self._by_channels(), *functions], ["task"])
        functions += [self._by_images(), self._merge()]
        return module(self.plan, functions, ["task", "merge"])

    def _written(self, name: str) -> Function:
        w, self.w = self.w, WholeNumberWriter()
        w.emit("ret void")
        return internal(w, task_signature(name), self.plan)

    # Tasks

    def _by_channels(self) -> Function:
        """The task with a share of the channels, and all images of each."""
        w, plan = self.w, self.plan
        sums = own_memory(w, plan, workspace_bytes(plan))
        begin, end = share(w, plan.units)

        def block(number: str, _: list[str]) -> list[str]:
            first = w.add(begin, w.mul(number, plan.block))
            count = w.least(w.sub(end, first), plan.block)
            self._clear(sums, count)
            w.loop(
                self.geometry.n * self.parts,
                [],
                lambda chunk, _: self._chunk(chunk, first, count, sums),
            )
            w.loop(count, [], lambda unit, _: self._finish(w.add(first, unit), unit, sums))
            return []

        w.loop_or_skip(w.rounds(w.sub(end, begin), plan.block), [], block)
        return self._written("task")

    def _by_images(self) -> Function:
        """The task with all channels of a share of the images or chunks."""
        w, plan = self.w, self.plan
        sums = own_memory(w, plan, workspace_bytes(plan))
        begin, end = share(w, self.geometry.n * self.parts)
        units = str(plan.units)
        self._clear(sums, units)

        def chunk(number: str, _: list[str]) -> list[str]:
            return self._chunk(w.add(begin, number), "0", units, sums)

        w.loop_or_skip(w.sub(end, begin), [], chunk)
        return self._written("task")

    def _merge(self) -> Function:
        """The task that adds up the threads' sums of a share of the channels."""
        w, vector = self.w, self.plan.vector
        begin, end = share(w, self.plan.units)
        sums = slot(w, WORKSPACE)

        def tap(number: str, at: list[str]) -> list[str]:
            place = w.advance(at[0], w.mul(number, self.plan.vector_bytes))
            total = w.load(vector, place)
            for thread in range(1, self.plan.threads):
                other = w.load(vector, w.advance(place, thread * workspace_bytes(self.plan)))
                total = w.value(f"fadd {vector.text} {total}, {other}")
            w.store(vector, total, place)
            return at

        def unit(number: str, _: list[str]) -> list[str]:
            at = w.add(begin, number)
            place = w.advance(sums, w.mul(at, self.unit))
            w.loop(self.geometry.taps, [("ptr", place)], tap)
            return self._finish(at, at, sums)

        w.loop_or_skip(w.sub(end, begin), [], unit)
        return self._written("merge")

    # Parts of the tasks

    def _clear(self, sums: str, count: str) -> None:
        w, vector = self.w, self.plan.vector

        def clear(number: str, _: list[str]) -> list[str]:
            place = w.advance(sums, w.mul(number, self.plan.vector_bytes))
            w.store(vector, vector.constant(0.0), place)
            return []

        w.loop(w.mul(count, self.geometry.taps), [], clear)

    def _chunk(self, number: str, first: str, count: str, sums: str) -> list[str]:
        """Add a chunk of an image for some channels; chunks are numbered through all images."""
        w = self.w
        image, part = number, "0"
        if self.parts > 1:
            image = w.value(f"udiv i64 {number}, {self.parts}")
            part = w.value(f"urem i64 {number}, {self.parts}")
        here = w.advance(slot(w, SOURCE), w.mul(image, self.image.image))
        there = w.advance(slot(w, OTHER), w.mul(image, self.result.image))
        if self.plan.fetch == CHUNK:
            stride = self.sums.high.stride
            self._fetch(here, part, self.sums.high.given, stride, self.image.row)
            self._fetch(there, part, self.sums.high.size, 1, self.result.row)

        def unit(number: str, _: list[str]) -> list[str]:
            channel = w.add(first, number)
            group = self.geometry.group_k
            source = channel if group == 1 else w.value(f"udiv i64 {channel}, {group}")
            own_here = w.advance(here, w.mul(source, self.image.channel))
            own_there = w.advance(there, w.mul(channel, self.result.channel))
            own = w.advance(sums, w.mul(number, self.unit))
            for tap in range(self.geometry.filter_sizes[0]):
                self._deep(channel, part, tap, (own_here, own_there, own))
            return []

        w.loop(count, [], unit)
        return []

    def _fetch(self, pointer: str, part: str, given: int, stride: int, row: int) -> None:
        """Fetch all channels of the rows of a chunk."""
        w, rows = self.w, self.sums.blocks * stride
        begin = w.mul(part, rows)
        count = w.least(w.without(given, begin), rows)
        fetch(w, w.advance(pointer, w.mul(begin, row)), w.mul(count, row))

    def _deep(self, channel: str, part: str, tap: int, pointers: tuple[str, str, str]) -> None:
        """Add all pairs of planes of one plane of the filter."""
        w, axis, (here, there, sums) = self.w, self.geometry.axes[0], pointers
        places = [
            (at, plane)
            for at in range(axis.result)
            if 0 <= (plane := at * axis.stride + tap * axis.dilation - axis.pad) < axis.image
        ]
        if not places:
            return
        here = w.advance(here, places[0][1] * self.image.plane)
        there = w.advance(there, places[0][0] * self.result.plane)
        depth = self.geometry.filter_sizes[0]
        own = w.advance(sums, tap * (self.unit // depth))

        def each(_: str, at: list[str]) -> list[str]:
            given = f"(ptr {at[0]}, ptr {at[1]}, ptr {own}, i64 {part})"
            for group, found in enumerate(self.sums.chunks):
                call = partial(self._call_sums, channel, group, given)
                chunk_choice(w, found, part, call)
            return [
                w.advance(at[0], axis.stride * self.image.plane),
                w.advance(at[1], self.result.plane),
            ]

        w.loop(len(places), [("ptr", here), ("ptr", there)], each)

    def _finish(self, channel: str, unit: str, sums: str) -> list[str]:
        w, plan = self.w, self.plan
        own = w.advance(sums, w.mul(unit, self.unit))
        each = self.geometry.taps * (plan.vector_bytes if plan.last else plan.item)
        out = w.advance(slot(w, OUT), w.mul(channel, each))
        self._call(channel, "finish", f"(ptr {own}, ptr {out})")
        return []

    def _call_sums(self, channel: str, group: int, arguments: str, kind: int) -> None:
        self._call(channel, f"sums{group}_{kind}", arguments)

    def _call(self, channel: str, name: str, arguments: str) -> None:
        """Call the function for a full vector, or the one for the last vector."""
        w = self.w
        if not self.plan.tail:
            w.emit(f"call void @{name}{arguments}")
            return
        w.either(
            w.value(f"icmp ult i64 {channel}, {self.plan.units - 1}"),
            lambda: w.emit(f"call void @{name}{arguments}"),
            lambda: w.emit(f"call void @{name}_tail{arguments}"),
        )
