"""Depthwise convolution backward to the filter: all planes, shared out to threads.

Threads have some of the channels each, or some of the images (or chunks of them): then every thread
has sums of its own for all channels, which a second task adds up. What is left at the end are
vectors, of channels, which are turned round, or of pixels, which are added up.
"""

from __future__ import annotations

from functools import partial

from skipjack.solvers.convolution.depthwise_march import chunk_choice
from skipjack.solvers.convolution.depthwise_module import (
    OUT,
    PARTNER,
    SOURCE,
    WORKSPACE,
    Function,
    fetch,
    internal,
    module,
    own_memory,
)
from skipjack.solvers.convolution.depthwise_plan import CHUNK, Plan
from skipjack.solvers.convolution.depthwise_sums import PlaneSums
from skipjack.solvers.convolution.depthwise_taps import finish_function
from skipjack.solvers.loops.entry import share, slot, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


def generate(plan: Plan) -> str:
    """The module; slots are as `depthwise_module` lists them."""
    return _Filter(plan).module()


def workspace_bytes(plan: Plan) -> int:
    """Of one thread: the sums that are under way together."""
    together = plan.units if plan.images_shared else plan.block
    return together * plan.geometry.taps * plan.vector_bytes


class _Filter:
    def __init__(self, plan: Plan) -> None:
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
        """Some channels after the other, all images of each."""
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
        """All channels of some images or chunks."""
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
        """Adds the threads' sums up, of some channels."""
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

    # Parts of them

    def _clear(self, sums: str, count: str) -> None:
        w, vector = self.w, self.plan.vector

        def clear(number: str, _: list[str]) -> list[str]:
            place = w.advance(sums, w.mul(number, self.plan.vector_bytes))
            w.store(vector, vector.constant(0.0), place)
            return []

        w.loop(w.mul(count, self.geometry.taps), [], clear)

    def _chunk(self, number: str, first: str, count: str, sums: str) -> list[str]:
        """Some channels of a chunk of an image; chunks are numbered through all images."""
        w = self.w
        image, part = number, "0"
        if self.parts > 1:
            image = w.value(f"udiv i64 {number}, {self.parts}")
            part = w.value(f"urem i64 {number}, {self.parts}")
        here = w.advance(slot(w, SOURCE), w.mul(image, self.image.image))
        there = w.advance(slot(w, PARTNER), w.mul(image, self.result.image))
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
        """All channels of the rows of a chunk."""
        w, rows = self.w, self.sums.blocks * stride
        begin = w.mul(part, rows)
        count = w.least(w.without(given, begin), rows)
        fetch(w, w.advance(pointer, w.mul(begin, row)), w.mul(count, row))

    def _deep(self, channel: str, part: str, tap: int, pointers: tuple[str, str, str]) -> None:
        """All planes that meet through one plane of the filter."""
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
        """The function for a full vector, or the one for the last."""
        w = self.w
        if not self.plan.tail:
            w.emit(f"call void @{name}{arguments}")
            return
        w.either(
            w.value(f"icmp ult i64 {channel}, {self.plan.units - 1}"),
            lambda: w.emit(f"call void @{name}{arguments}"),
            lambda: w.emit(f"call void @{name}_tail{arguments}"),
        )
