"""What all modules of depthwise convolutions have in common: slots, tasks, an entry, fetching."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from skipjack.native.ir import STREAM_METADATA, function
from skipjack.solvers.convolution.depthwise_plan import Plan
from skipjack.solvers.loops.entry import KERNEL, run_task, share, slot
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Function = tuple[str, set[str]]
"""The text of a function and the declarations that it needs."""
SOURCE, PARTNER, OUT, WORKSPACE, POOL, THREADS = range(6)
"""Slots: the array whose rows are loaded one by one, the other that is given, the one that is
wanted, memory of all threads, the pool and the number of threads."""
_LINE = 64
_TOGETHER = 8


def internal(w: WholeNumberWriter, signature: str, plan: Plan) -> Function:
    """A finished body as a function of the module."""
    bits = max(128, 8 * plan.vector_bytes)
    text = function(w, signature, bits, linkage="internal", attributes="noinline")
    return text, w.declarations


def module(plan: Plan, functions: Sequence[Function], tasks: Sequence[str]) -> str:
    """The functions, and the entry that hands tasks out, one after the other.

    A plan that streams has a plain form of each task, for an output that is not aligned for it.
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
"""How names of functions end that store plainly beside others that stream."""


def own_memory(w: WholeNumberWriter, plan: Plan, bytes_: int) -> str:
    """Inside of a task: this thread's part of the workspace."""
    room = slot(w, WORKSPACE)
    return room if plan.threads == 1 else w.advance(room, w.mul("%index", bytes_))


def each_item(
    w: WholeNumberWriter,
    sizes: Mapping[str, int],
    body: Callable[[Mapping[str, str]], None],
) -> None:
    """Run the body for this thread's share of all combinations, the last size running fastest."""
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
    """Read memory in order, so that the hardware sees it coming.

    Prefetch instructions do not do: they were no faster than none, for they start nothing.
    """

    def some(_: str, at: list[str]) -> list[str]:
        for line in range(_TOGETHER):
            # Volatile, or a load whose value nobody wants would be left out.
            w.value(f"load volatile i32, ptr {w.advance(at[0], line * _LINE)}, align 4")
        return [w.advance(at[0], _TOGETHER * _LINE)]

    lines = w.value(f"udiv i64 {bytes_}, {_TOGETHER * _LINE}")
    w.loop_or_skip(lines, [("ptr", pointer)], some)
