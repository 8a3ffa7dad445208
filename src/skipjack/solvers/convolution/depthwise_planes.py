"""All planes of a depthwise convolution forward or backward to the image, shared out to threads.

A plane is the sum of one or more terms: in two dimensions one, in three one for each plane of the
filter, and backward one for each channel that a channel gives. The first is stored, the others are
added to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from skipjack.native.ir import constant_mask
from skipjack.solvers.convolution.depthwise_gather import Gathering, PlaneFunction
from skipjack.solvers.convolution.depthwise_march import chunk_choice
from skipjack.solvers.convolution.depthwise_module import (
    OUT,
    PARTNER,
    PLAIN,
    SOURCE,
    Function,
    each_item,
    fetch,
    internal,
    module,
    own_memory,
)
from skipjack.solvers.convolution.depthwise_plan import CHUNK, Plan
from skipjack.solvers.convolution.depthwise_taps import taps_function
from skipjack.solvers.loops.entry import share, slot, task_signature
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


def generate(plan: Plan) -> str:
    """The module; slots are as `depthwise_plan` lists them."""
    functions = _Planes(plan).functions()
    if plan.stream:
        # An output that is not aligned for such stores gets plain ones, in code that is short.
        functions += _Planes(replace(plan, stream=False, marching=False), PLAIN).functions()
    if plan.last:
        functions.append(taps_function(plan))
    return module(plan, functions, ["task"])


def workspace_bytes(plan: Plan) -> int:
    """Of one thread: the filter, with vectors of channels."""
    return plan.units * plan.geometry.taps * plan.vector_bytes if plan.last else 0


class _Planes:
    """Functions whose names end in a suffix; the task is among them."""

    def __init__(self, plan: Plan, suffix: str = "") -> None:
        self.plan, self.geometry, self.suffix = plan, plan.geometry, suffix
        self.gathering = Gathering(plan)
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
        source, taps, out = slot(w, SOURCE), slot(w, PARTNER), slot(w, OUT)
        parts = {"deep": plan.patterns[0].size, "chunk": sum(each.repeats for each in self.chunks)}
        if plan.last:
            turned = own_memory(w, plan, workspace_bytes(plan))
            first, end = "0", str(plan.units)
            if geometry.n * prod(parts.values()) == 1:  # then threads share the channels out
                first, end = share(w, plan.units)
            w.emit(f"call void @taps(ptr {taps}, ptr {turned}, i64 {first}, i64 {end})")
            taps = turned
        # Neighbours in memory follow each other.
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
            w.emit("fence seq_cst")  # these stores are not ordered by themselves
        w.emit("ret void")
        return internal(w, task_signature(f"task{self.suffix}"), plan)

    def _fetch(self, w: WholeNumberWriter, at: Mapping[str, str], source: str) -> None:
        """All channels of the rows that a chunk reads, but for those of the next chunk."""
        _, high, _ = self.plan.patterns
        rows = self.gathering.blocks * high.stride
        begin = w.mul(at["chunk"], rows)
        count = w.least(w.without(high.given, begin), rows)
        place = w.advance(source, w.mul(begin, self.source.row))
        fetch(w, place, w.mul(count, self.source.row))

    def _sum(
        self, w: WholeNumberWriter, at: Mapping[str, str], source: str, taps: str, to: str
    ) -> None:
        """All terms of one plane."""
        depth = self.geometry.filter_sizes[0]

        def term(number: str, carried: list[str]) -> list[str]:
            seen = carried[0]
            channel, filter_of = self._channels(w, at["channel"], number)
            here = w.advance(source, w.mul(channel, self.source.channel))
            of_filter = w.advance(taps, w.mul(filter_of, depth * self.plan.tap_plane))
            for tap in range(depth):
                plane, there = self._met_plane(w, tap, at["deep"])
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
        """Which channel of what is given a term reads, and whose filter it is multiplied by."""
        group = self.geometry.group_k
        if group == 1:
            return channel, channel
        if self.geometry.wanted == "image":
            each = w.add(w.mul(channel, group), term)
            return each, each
        return w.value(f"udiv i64 {channel}, {group}"), channel

    def _met_plane(self, w: WholeNumberWriter, tap: int, position: str) -> tuple[str, str]:
        """The plane that a position of the depth reads through a tap, and whether there is one."""
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
        """The function of this chunk, of a first or further term, of a full vector or the last."""
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
