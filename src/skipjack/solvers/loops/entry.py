"""Where generated code begins: slots, a thread's task, its share, and the pool that runs it."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native.ir import IRWriter
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

KERNEL = "void @kernel(ptr noalias readonly %slots)"


def task_signature(name: str = "task") -> str:
    """Of a function that the pool calls for each thread: which one of how many it is."""
    return f"void @{name}(ptr noalias readonly %slots, i64 %index, i64 %count)"


def slot(w: IRWriter, number: int, kind: str = "ptr") -> str:
    """What a slot holds: a pointer, or a number where `kind` is ``i64``."""
    return w.value(f"load {kind}, ptr {w.advance('%slots', 8 * number)}, align 8")


def run_task(w: IRWriter, pool: str, count: str, name: str = "task") -> None:
    """Have the pool call a task for `count` threads, and wait for them."""
    w.emit(f"call void {pool}(ptr @{name}, ptr %slots, i64 {count})")


def run_or_call(w: WholeNumberWriter, pool: str, count: str, name: str = "task") -> None:
    """Have the pool run a task, or call it where there is one thread alone."""
    w.either(
        w.value(f"icmp ugt i64 {count}, 1"),
        lambda: run_task(w, pool, count, name),
        lambda: w.emit(f"call void @{name}(ptr %slots, i64 0, i64 1)"),
    )


def hand_out(w: IRWriter, at: int, most: int | None = None) -> str:
    """Run the task on the pool in slot `at`; the number of threads is in the next one.

    Gives the number of threads that ran it, `most` at most.
    """
    pool, count = slot(w, at), slot(w, at + 1, "i64")
    if most is not None:
        few = w.value(f"icmp ult i64 {most}, {count}")
        count = w.value(f"select i1 {few}, i64 {most}, i64 {count}")
    run_task(w, pool, count)
    return count


def share(
    w: IRWriter, total: int | str, index: str = "%index", count: str = "%count"
) -> tuple[str, str]:
    """Inside of a task: this thread's first round of a total, and the one after its last."""
    following = w.value(f"add i64 {index}, 1")
    begin, end = (
        w.value(f"udiv i64 {w.value(f'mul i64 {number}, {total}')}, {count}")
        for number in (index, following)
    )
    return begin, end


@dataclass(frozen=True, slots=True)
class Share:
    """A thread's run of rounds that are all alike but for a shorter last one."""

    begin: str
    rounds: str
    """Full ones."""
    has_tail: str
    """Whether the shorter one is this thread's: an i1 value, or nothing where there is none."""


def share_with_tail(w: IRWriter, full: int, tail: bool) -> Share:
    """This thread's share of so many full rounds and perhaps a shorter one, which is the last."""
    begin, end = share(w, full + tail)
    if not tail:
        return Share(begin, w.value(f"sub i64 {end}, {begin}"), "")
    beyond = w.value(f"icmp ugt i64 {end}, {full}")
    stop = w.value(f"select i1 {beyond}, i64 {full}, i64 {end}")
    return Share(begin, w.value(f"sub i64 {stop}, {begin}"), beyond)
