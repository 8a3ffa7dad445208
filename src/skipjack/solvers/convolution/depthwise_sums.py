"""Depthwise convolution backward to the filter: for every tap the sum over all pixels.

The march goes down the image and keeps the rows of the result that it meets; the sums of some rows
of the filter stay in registers all the while, and are put aside from plane to plane. What is left
at the end are vectors: of channels, which are turned round, or of pixels, which are added up.
"""

from __future__ import annotations

from dataclasses import replace

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.depthwise_axis import Reads
from skipjack.solvers.convolution.depthwise_march import (
    Partner,
    Round,
    chunk_blocks,
    chunk_choice,
    chunks,
)
from skipjack.solvers.convolution.depthwise_plan import (
    OUT,
    PARTNER,
    SOURCE,
    Function,
    Plan,
    Strides,
    internal,
    module,
    own_memory,
)
from skipjack.solvers.convolution.depthwise_strips import Place, Strips, Under
from skipjack.solvers.convolution.depthwise_taps import finish_function
from skipjack.solvers.loops.entry import share, slot, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

_SIGNATURE = "ptr noalias %image, ptr noalias %result, ptr noalias %sums, i64 %chunk"


def generate(plan: Plan) -> str:
    """The module; slots are as `depthwise_plan` lists them."""
    return _Sums(plan).module()


def workspace_bytes(plan: Plan) -> int:
    """Of one thread: the sums of a block of channels."""
    return plan.block * plan.geometry.taps * plan.vector_bytes


def filter_rows(reads: Reads, group: int) -> list[Reads]:
    """Rows of the filter in groups whose sums are in registers together."""
    return [reads[first : first + group] for first in range(0, len(reads), group)]


class _Sums:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.geometry = plan, plan.geometry
        self.image, self.result = Strides.of(plan, "image"), Strides.of(plan, "result")
        _, self.high, _ = plan.patterns
        self.groups = [
            chunks(replace(self.high, phases=(reads,)), plan.chunks)
            for reads in filter_rows(self.high.phases[0], plan.group)
        ]
        self.columns = self.geometry.filter_sizes[2]
        self.row = self.columns * plan.vector_bytes
        self.plane = self.geometry.filter_sizes[1] * self.row
        self.unit = self.geometry.filter_sizes[0] * self.plane
        tail = self.geometry.c % plan.vector.lanes if plan.last else 0
        self.masks = [None, constant_mask(plan.vector.lanes, tail)] if tail else [None]

    def module(self) -> str:
        functions = [self._task()]
        for number in range(len(self.masks)):
            functions.append(finish_function(self.plan, tail=bool(number)))
            for group, found in enumerate(self.groups):
                functions += [self._planes(group, kind, number) for kind in range(len(found))]
        return module(self.plan, functions)

    # One plane of the image and of the result

    def _planes(self, group: int, kind: int, tail: int) -> Function:
        """Adds all products of a group of the filter's rows, in a chunk of a kind."""
        w, steps = WholeNumberWriter(), self.groups[group][kind].march
        rows = [tap for tap, _ in filter_rows(self.high.phases[0], self.plan.group)[group]]
        taps = [(row, column) for row in rows for column in range(self.columns)]
        places = {
            tap: w.advance("%sums", tap[0] * self.row + tap[1] * self.plan.vector_bytes)
            for tap in taps
        }

        def meet(each: Round, place: Place, under: Under, sums: list[str]) -> list[str]:
            now = dict(zip(taps, sums, strict=True))
            for row, meetings in each.rows:
                for partner, _ in meetings:
                    if partner not in under:
                        under[partner] = place.columns.load(self._row(w, place, partner))
                self._products(w, place, row, meetings, under, now)
            return list(now.values())

        strips = Strips(w, self.plan, steps, self.image, self.result, self.masks[tail])
        starts = [w.load(self.plan.vector, place) for place in places.values()]
        begin = w.mul("%chunk", chunk_blocks(self.high, self.plan.chunks))
        image = w.advance("%image", w.mul(begin, self.high.stride * self.image.row))
        result = w.advance("%result", w.mul(begin, self.result.row))
        ends = strips.write(image, result, starts, meet)
        for place, value in zip(places.values(), ends, strict=True):
            w.store(self.plan.vector, value, place)
        w.emit("ret void")
        name = f"sums{group}_{kind}{'_tail' if tail else ''}"
        return internal(w, f"void @{name}({_SIGNATURE})", self.plan)

    def _products(
        self,
        w: WholeNumberWriter,
        place: Place,
        row: int,
        meetings: tuple[tuple[Partner, int], ...],
        under: Under,
        sums: dict[tuple[int, int], str],
    ) -> None:
        source = w.advance(place.source, row * self.image.row)
        for value, met in place.columns.values(source):
            for partner, filter_row in meetings:
                for at, column in met:
                    tap = (filter_row, column)
                    factors = [value, under[partner][at], sums[tap]]
                    sums[tap] = w.call(self.plan.vector, "fma", factors)

    def _row(self, w: WholeNumberWriter, place: Place, partner: Partner) -> str:
        return w.advance(place.partners, -partner.back * self.result.row)

    # All channels of a thread

    def _task(self) -> Function:
        plan = self.plan
        w = WholeNumberWriter()
        sums = own_memory(w, plan, workspace_bytes(plan))
        units = plan.vectors if plan.last else self.geometry.k
        begin, end = share(w, units)
        parts = sum(chunk.repeats for chunk in self.groups[0])

        def block(number: str, _: list[str]) -> list[str]:
            first = w.add(begin, w.mul(number, plan.block))
            count = w.least(w.sub(end, first), plan.block)
            self._clear(w, sums, count)

            def chunk(number: str, _: list[str]) -> list[str]:
                at, part = (
                    (number, "0")
                    if parts == 1
                    else (w.value(f"{how} i64 {number}, {parts}") for how in ("udiv", "urem"))
                )
                if plan.touch:
                    self._touch(w, at, part)
                w.loop(count, [], lambda unit, _: self._unit(w, at, part, first, unit, sums))
                return []

            w.loop(self.geometry.n * parts, [], chunk)
            w.loop(count, [], lambda unit, _: self._finish(w, first, unit, sums))
            return []

        w.loop_or_skip(w.rounds(w.sub(end, begin), plan.block), [], block)
        w.emit("ret void")
        return internal(w, task_signature(), plan)

    def _touch(self, w, at, part):
        blocks = chunk_blocks(self.high, self.plan.chunks)
        for slot_, strides, rows, last in ((SOURCE, self.image, blocks * self.high.stride, self.high.given), (PARTNER, self.result, blocks, self.high.size)):
            p = w.advance(slot(w, slot_), w.mul(at, strides.image))
            p = w.advance(p, w.mul(part, rows * strides.row))
            def line(_, here):
                for k in range(8):
                    q=w.advance(here[0], 64*k)
                    if self.plan.touch == 1:
                        w.value(f"load volatile i64, ptr {q}, align 8")
                    else:
                        w.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
                        w.emit(f"call void @llvm.prefetch.p0(ptr {q}, i32 0, i32 {3 if self.plan.touch==2 else 2}, i32 1)")
                return [w.advance(here[0], 512)]
            w.loop(rows * strides.row // 512, [("ptr", p)], line)

    def _clear(self, w: WholeNumberWriter, sums: str, count: str) -> None:
        vector = self.plan.vector

        def clear(number: str, _: list[str]) -> list[str]:
            place = w.advance(sums, w.mul(number, self.plan.vector_bytes))
            w.store(vector, vector.constant(0.0), place)
            return []

        w.loop(w.mul(count, self.geometry.taps), [], clear)

    def _unit(
        self, w: WholeNumberWriter, image: str, chunk: str, first: str, unit: str, sums: str
    ) -> list[str]:
        """A vector of channels, or a channel, of a chunk of one image."""
        channel = w.add(first, unit)
        group = self.geometry.group_k
        source = channel if group == 1 else w.value(f"udiv i64 {channel}, {group}")
        here = w.advance(slot(w, SOURCE), w.mul(image, self.image.image))
        here = w.advance(here, w.mul(source, self.image.channel))
        there = w.advance(slot(w, PARTNER), w.mul(image, self.result.image))
        there = w.advance(there, w.mul(channel, self.result.channel))
        own = w.advance(sums, w.mul(unit, self.unit))
        for tap in range(self.geometry.filter_sizes[0]):
            self._deep(w, channel, chunk, tap, (here, there, w.advance(own, tap * self.plane)))
        return []

    def _deep(
        self,
        w: WholeNumberWriter,
        channel: str,
        chunk: str,
        tap: int,
        pointers: tuple[str, str, str],
    ) -> None:
        """All planes that meet through one plane of the filter."""
        axis, (here, there, own) = self.geometry.axes[0], pointers
        places = [
            (at, plane)
            for at in range(axis.result)
            if 0 <= (plane := at * axis.stride + tap * axis.dilation - axis.pad) < axis.image
        ]
        if not places:
            return
        here = w.advance(here, places[0][1] * self.image.plane)
        there = w.advance(there, places[0][0] * self.result.plane)

        def planes(_: str, at: list[str]) -> list[str]:
            arguments = f"(ptr {at[0]}, ptr {at[1]}, ptr {own}, i64 {chunk})"
            for group, found in enumerate(self.groups):
                chunk_choice(
                    w,
                    found,
                    chunk,
                    lambda kind, group=group: self._call(
                        w, channel, f"sums{group}_{kind}", arguments
                    ),
                )
            return [
                w.advance(at[0], axis.stride * self.image.plane),
                w.advance(at[1], self.result.plane),
            ]

        w.loop(len(places), [("ptr", here), ("ptr", there)], planes)

    def _finish(self, w: WholeNumberWriter, first: str, unit: str, sums: str) -> list[str]:
        channel = w.add(first, unit)
        own = w.advance(sums, w.mul(unit, self.unit))
        each = self.geometry.taps * self.plan.item * (self.plan.vector.lanes if self.plan.last else 1)
        out = w.advance(slot(w, OUT), w.mul(channel, each))
        self._call(w, channel, "finish", f"(ptr {own}, ptr {out})")
        return []

    def _call(self, w: WholeNumberWriter, channel: str, name: str, arguments: str) -> None:
        """The function for a full vector, or the one for the last."""
        if len(self.masks) == 1:
            w.emit(f"call void @{name}{arguments}")
            return
        full = w.value(f"icmp ult i64 {channel}, {self.plan.vectors - 1}")
        w.either(
            full,
            lambda: w.emit(f"call void @{name}{arguments}"),
            lambda: w.emit(f"call void @{name}_tail{arguments}"),
        )
