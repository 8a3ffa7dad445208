"""What all kernels of depthwise convolutions share: slots, tasks, the filter's layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from skipjack.native import STREAM_METADATA, constant_mask, function
from skipjack.solvers.cpu.conv.depthwise.plan import DepthwisePlan
from skipjack.solvers.cpu.ir import (
    KERNEL,
    WholeNumberWriter,
    contiguous_runs,
    reduced_lanes,
    run_task,
    share,
    slot,
    transpose,
)

# Slots, tasks, and the entry.

Function = tuple[str, set[str]]
"""The text of a function and the declarations that it needs."""
SOURCE, OTHER, OUT, WORKSPACE, POOL, THREADS = range(6)
"""Slots: the array whose rows are loaded one by one, the other input, the output, the workspace of
all threads, the pool and the number of threads."""
_LINE = 64
_TOGETHER = 8


def internal(w: WholeNumberWriter, signature: str, plan: DepthwisePlan) -> Function:
    """A finished body as an internal function of the module."""
    bits = max(128, 8 * plan.vector_bytes)
    text = function(w, signature, bits, linkage="internal", attributes="noinline")
    return text, w.declarations


def module(plan: DepthwisePlan, functions: Sequence[Function], tasks: Sequence[str]) -> str:
    """The module: the functions, and the entry that runs the tasks one after the other.

    A plan that streams has a plain form of each task, for outputs that are not aligned.
    """
    w = WholeNumberWriter()
    count = slot(w, THREADS, "i64") if plan.threads > 1 else "1"
    pool = slot(w, POOL) if plan.threads > 1 else ""

    def start(suffix: str = "") -> None:
        for task in tasks:
            if pool:
                run_task(w, pool, count, task + suffix)
            else:
                w.emit(f"call void @{task}{suffix}(ptr %slots, i64 0, i64 1)")

    if plan.stream:
        address = w.value(f"ptrtoint ptr {slot(w, OUT)} to i64")
        odd = w.value(f"and i64 {address}, {plan.alignment - 1}")
        w.either(w.value(f"icmp eq i64 {odd}, 0"), start, lambda: start(PLAIN))
    else:
        start()
    w.emit("ret void")
    declared: set[str] = set().union(*(needed for _, needed in functions))
    texts = [text for text, _ in functions]
    return "\n".join([*sorted(declared), *texts, function(w, KERNEL, 64), STREAM_METADATA])


PLAIN = "_plain"
"""Suffix of the functions with plain stores in a module that streams."""


def own_memory(w: WholeNumberWriter, plan: DepthwisePlan, bytes_: int) -> str:
    """In a task: this thread's part of the workspace."""
    room = slot(w, WORKSPACE)
    return room if plan.threads == 1 else w.advance(room, w.mul("%index", bytes_))


def each_item(
    w: WholeNumberWriter,
    sizes: Mapping[str, int],
    body: Callable[[Mapping[str, str]], None],
) -> None:
    """Run the body for this thread's share of all combinations; the last index varies fastest."""
    begin, end = share(w, prod(sizes.values()))

    def item(counter: str, _: list[str]) -> list[str]:
        number = w.add(begin, counter)
        at: dict[str, str] = {}
        for name, size in reversed(list(sizes.items())):
            at[name] = "0" if size == 1 else w.value(f"urem i64 {number}, {size}")
            if size > 1:
                number = w.value(f"udiv i64 {number}, {size}")
        body(at)
        return []

    w.loop_or_skip(w.sub(end, begin), [], item)


def fetch(w: WholeNumberWriter, pointer: str, bytes_: str) -> None:
    """Read memory in order, so that the hardware prefetches it.

    Prefetch instructions do not help: they do not start the hardware prefetcher.
    """

    def some(_: str, at: list[str]) -> list[str]:
        for line in range(_TOGETHER):
            # Volatile: the compiler would remove a load whose value is not used.
            w.value(f"load volatile i32, ptr {w.advance(at[0], line * _LINE)}, align 4")
        return [w.advance(at[0], _TOGETHER * _LINE)]

    lines = w.value(f"udiv i64 {bytes_}, {_TOGETHER * _LINE}")
    w.loop_or_skip(lines, [("ptr", pointer)], some)


# Transposing a filter, in which the taps of a channel lie side by side.
#
# Vectors of channels need the channels of a tap side by side. Sums over pixels leave them so, or
# as vectors that are still to be added up.


def taps_function(plan: DepthwisePlan) -> Function:
    """``@taps(from, to, first, end)``: transposes all taps of some vectors of channels.

    Missing channels in the last vector are copies of the last one.
    """
    w, geometry, vector = WholeNumberWriter(), plan.geometry, plan.vector
    taps, lanes = geometry.taps, vector.lanes

    def block(after: str, _: list[str]) -> list[str]:
        number = w.add("%first", after)
        channels = [
            w.least(w.add(w.mul(number, lanes), lane), geometry.c - 1) for lane in range(lanes)
        ]
        rows = [w.advance("%from", w.mul(each, taps * plan.item)) for each in channels]
        target = w.advance("%to", w.mul(number, taps * plan.vector_bytes))
        for start in range(0, taps, lanes):
            have = min(lanes, taps - start)
            mask = constant_mask(lanes, have)
            square = [w.load(vector, w.advance(row, start * plan.item), mask) for row in rows]
            for tap, value in enumerate(transpose(w, vector, square)[:have], start):
                w.store(vector, value, w.advance(target, tap * plan.vector_bytes))
        return []

    w.loop_or_skip(w.sub("%end", "%first"), [], block)
    w.emit("ret void")
    signature = "void @taps(ptr noalias %from, ptr noalias %to, i64 %first, i64 %end)"
    return internal(w, signature, plan)


def finish_function(plan: DepthwisePlan, *, tail: bool) -> Function:
    """``@finish(from, to)``: a filter from the vectors of its taps; `tail` is for the last
    vector."""
    w = WholeNumberWriter()
    if plan.last:
        _transpose_back(w, plan, plan.tail if tail else plan.vector.lanes)
    else:
        _add_up(w, plan)
    w.emit("ret void")
    name = f"finish{'_tail' if tail else ''}"
    return internal(w, f"void @{name}(ptr noalias %from, ptr noalias %to)", plan)


def _transpose_back(w: WholeNumberWriter, plan: DepthwisePlan, channels: int) -> None:
    vector, taps = plan.vector, plan.geometry.taps
    for start in range(0, taps, vector.lanes):
        have = min(vector.lanes, taps - start)
        square = [
            w.load(vector, w.advance("%from", (start + tap) * plan.vector_bytes))
            for tap in range(have)
        ]
        mask = constant_mask(vector.lanes, have)
        for channel, value in enumerate(transpose(w, vector, square)[:channels]):
            w.store(vector, value, w.advance("%to", (channel * taps + start) * plan.item), mask)


def _add_up(w: WholeNumberWriter, plan: DepthwisePlan) -> None:
    vector = plan.vector
    for together in contiguous_runs(range(plan.geometry.taps), vector.lanes):
        values = [w.load(vector, w.advance("%from", tap * plan.vector_bytes)) for tap in together]
        kind, value = reduced_lanes(w, vector, "sum", values)
        w.store(kind, value, w.advance("%to", together[0] * plan.item))
