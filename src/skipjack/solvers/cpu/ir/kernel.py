"""The entry of a kernel: slots, tasks of threads, integer arithmetic, streaming stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.native import IRWriter, VectorType

# An IR writer with the arithmetic of sizes and strides that are known at run time.


class WholeNumberWriter(IRWriter):
    """An `IRWriter` with integer arithmetic; operands are i64 values or constants."""

    def mul(self, left: str | int, right: str | int) -> str:
        return self.value(f"mul i64 {left}, {right}")

    def add(self, left: str | int, right: str | int) -> str:
        return self.value(f"add i64 {left}, {right}")

    def sub(self, left: str | int, right: str | int) -> str:
        return self.value(f"sub i64 {left}, {right}")

    def least(self, left: str | int, right: str | int) -> str:
        """The smaller of two unsigned i64."""
        self.declarations.add("declare i64 @llvm.umin.i64(i64, i64)")
        return self.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {right})")

    def without(self, left: str | int, right: str | int) -> str:
        """The difference of two unsigned i64, or 0 if the second is larger."""
        self.declarations.add("declare i64 @llvm.usub.sat.i64(i64, i64)")
        return self.value(f"call i64 @llvm.usub.sat.i64(i64 {left}, i64 {right})")

    def positive(self, number: str | int) -> str:
        """A signed number, or 0 if it is negative."""
        return self.most(number, 0)

    def most(self, left: str | int, right: str | int) -> str:
        """The larger of two signed i64."""
        self.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        return self.value(f"call i64 @llvm.smax.i64(i64 {left}, i64 {right})")

    def divided(self, number: str, by: int) -> tuple[str, str]:
        """Quotient and remainder."""
        return self.value(f"udiv i64 {number}, {by}"), self.value(f"urem i64 {number}, {by}")

    def rounds(self, total: str | int, size: str | int) -> str:
        """How many parts of a size cover a total."""
        return self.value(f"udiv i64 {self.sub(self.add(total, size), 1)}, {size}")

    def first_lanes(self, lanes: int, count: str) -> str:
        """A mask of the first `count` of `lanes` lanes."""
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
        limit = self.splat_text(f"<{lanes} x i64>", "i64", count, lanes)
        return self.value(f"icmp ult <{lanes} x i64> {numbers}, {limit}")

    def prefetch(self, pointer: str, cache: int = 1) -> None:
        """Prefetch a cache line into L1 or L2; any address is allowed."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {4 - cache}, i32 1)")

    def either(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Run one of two bodies."""
        self.when(condition, yes)
        self.when(self.value(f"xor i1 {condition}, true"), no)


# Slots, the task of a thread and its share, and the pool that runs it.

KERNEL = "void @kernel(ptr noalias readonly %slots)"


def task_signature(name: str = "task") -> str:
    """The signature of a function that the pool calls for each thread, `%index` of `%count`."""
    return f"void @{name}(ptr noalias readonly %slots, i64 %index, i64 %count)"


def slot(w: IRWriter, number: int, kind: str = "ptr") -> str:
    """Load a slot: a pointer, or a number if `kind` is ``i64``."""
    return w.value(f"load {kind}, ptr {w.advance('%slots', 8 * number)}, align 8")


def run_task(w: IRWriter, pool: str, count: str, name: str = "task") -> None:
    """Run a task on `count` threads of the pool, and wait for them."""
    w.emit(f"call void {pool}(ptr @{name}, ptr %slots, i64 {count})")


def run_or_call(w: WholeNumberWriter, pool: str, count: str, name: str = "task") -> None:
    """Run a task on the pool, or call it directly if there is one thread."""
    w.either(
        w.value(f"icmp ugt i64 {count}, 1"),
        lambda: run_task(w, pool, count, name),
        lambda: w.emit(f"call void @{name}(ptr %slots, i64 0, i64 1)"),
    )


def run_on_pool(w: IRWriter, at: int, most: int | None = None) -> str:
    """Run the task on the pool in slot `at`; the number of threads is in the next slot.

    Returns the number of threads that ran it, at most `most`.
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
    """In a task: the first of `total` iterations of this thread, and the one after its last."""
    following = w.value(f"add i64 {index}, 1")
    begin, end = (
        w.value(f"udiv i64 {w.value(f'mul i64 {number}, {total}')}, {count}")
        for number in (index, following)
    )
    return begin, end


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """A thread's range of iterations that are all alike except for a shorter last one."""

    begin: str
    rounds: str
    """Full iterations."""
    has_tail: str
    """Whether this thread has the shorter one: an i1 value, or empty if there is none."""


def share_with_tail(w: IRWriter, full: int, tail: bool) -> ThreadShare:
    """This thread's share of `full` iterations and perhaps a shorter last one."""
    begin, end = share(w, full + tail)
    if not tail:
        return ThreadShare(begin, w.value(f"sub i64 {end}, {begin}"), "")
    beyond = w.value(f"icmp ugt i64 {end}, {full}")
    stop = w.value(f"select i1 {beyond}, i64 {full}, i64 {end}")
    return ThreadShare(begin, w.value(f"sub i64 {stop}, {begin}"), beyond)


# Stores past the caches: the alignment of the output is known only when the kernel runs.

_STREAM_BYTES = 16
"""Alignment of allocators in bytes, and the smallest vector that x86 can store past the caches."""


def stream_alignments(vector: VectorType) -> tuple[int, ...]:
    """Alignments of the output that allow to stream whole vectors, or parts of them."""
    width = vector.lanes * vector.item_bytes
    return tuple(dict.fromkeys((width, min(width, _STREAM_BYTES))))


def streamed_if_aligned(
    w: IRWriter, pointer: str, alignments: Sequence[int], body: Callable[[int], None]
) -> None:
    """Write `body(alignment)` for the first alignment that a pointer has, else `body(0)`.

    The alignment is tested at run time. A fence after the stores makes them visible to other
    threads.
    """
    address = w.value(f"ptrtoint ptr {pointer} to i64")

    def streamed(alignment: int) -> None:
        body(alignment)
        # Nontemporal stores are not ordered without a fence.
        w.emit("fence seq_cst")

    def from_alignment(*left: int) -> None:
        if not left:
            body(0)
            return
        odd = w.value(f"and i64 {address}, {left[0] - 1}")
        w.when(w.value(f"icmp eq i64 {odd}, 0"), lambda: streamed(left[0]))
        w.when(w.value(f"icmp ne i64 {odd}, 0"), lambda: from_alignment(*left[1:]))

    from_alignment(*alignments)


def store_or_stream(
    w: IRWriter, vector: VectorType, value: str, at: str, mask: str | None, alignment: int
) -> None:
    """Store a vector, past the caches if it has no mask and an alignment is given."""
    if alignment and mask is None:
        w.stream(vector, value, at, alignment)
    else:
        w.store(vector, value, at, mask)
