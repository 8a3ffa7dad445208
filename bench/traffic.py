"""Native kernels that only move data, for the bandwidth that an operation could have at most.

A kernel reads some arrays, writes at most one, and does next to nothing in between. It runs on the
same arrays and threads as what it is compared with. Which way moves data fastest depends on the
core and on where the data is, so there are several ways, and the fastest is the roofline.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.native import IRWriter, VectorType, function

ON_ALL_THREADS = """
define internal void @task(ptr %slots, i64 %index, i64 %count) nounwind {
entry:
  %at = getelementptr i8, ptr %slots, i64 16
  %function = load ptr, ptr %at, align 8
  %own = getelementptr i8, ptr %slots, i64 24
  call void %function(ptr %own)
  ret void
}

define void @kernel(ptr %slots) nounwind {
entry:
  %parallel = load ptr, ptr %slots, align 8
  %at = getelementptr i8, ptr %slots, i64 8
  %count = load i64, ptr %at, align 8
  call void %parallel(ptr @task, ptr %slots, i64 %count)
  ret void
}
"""
"""All threads run a kernel. Slots: a pool, a number of threads, the kernel, its own slots."""


NOTHING = """
define void @kernel(ptr %slots) nounwind {
entry:
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to move data."""

    vector_bytes: int
    copies: int
    """Vectors in a round of the loop."""
    streaming: bool = False
    """Write past the caches."""
    ahead_bytes: int = 0
    """Ask for data so far ahead; 0 leaves that to the hardware."""
    threads: int = 1
    streams: int = 1
    """Parts of an array that are read side by side."""

    @property
    def round_floats(self) -> int:
        """What all threads need of an array to have a round each."""
        return self.copies * self.vector_bytes // 4 * self.threads * self.streams

    @property
    def name(self) -> str:
        """Short, for a result file."""
        parts = [f"{self.vector_bytes * 8} bit", f"x{self.copies}"]
        parts += ["streaming"] if self.streaming else []
        parts += [f"prefetch {self.ahead_bytes}"] if self.ahead_bytes else []
        parts += [f"{self.streams} streams"] if self.streams > 1 else []
        parts += [f"{self.threads} threads"] if self.threads > 1 else []
        return " ".join(parts)


def ways(widest_bytes: int, writes: bool, threads: int = 1) -> list[Way]:
    """All that are tried; with one thread too, because calling others takes longer than little."""
    widths = sorted({widest_bytes, max(16, widest_bytes // 2)}, reverse=True)
    return [
        Way(width, copies, streaming, ahead, count, streams)
        for count in sorted({1, threads})
        for width in widths
        for copies in (2, 8, 16)
        for streaming in ((False, True) if writes else (False,))
        for ahead in (0, 1024)
        for streams in ((1,) if writes else (1, 4))
    ]


def traffic_kernel(reads: int, writes: bool, count: int, way: Way) -> str:
    """IR over `count` floats of each array. Slots: the arrays read, one written, a pool.

    What is left over after whole rounds, some vectors at most, is not touched. A kernel that only
    reads leaves what it computed in one vector of the last array.
    """
    vector = VectorType("f32", way.vector_bytes // 4)
    rounds = count // (way.copies * vector.lanes)
    body = _Body(reads, writes, way, vector).text(rounds)
    return f"!0 = !{{i32 1}}\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n{body}" + (
        _shared(8 * (reads + 1), way.threads) if way.threads > 1 else ""
    )


def _shared(pool_at: int, threads: int) -> str:
    """A kernel that hands the task to the pool in this slot."""
    return f"""
define void @kernel(ptr %slots) nounwind {{
entry:
  %p = getelementptr i8, ptr %slots, i64 {pool_at}
  %parallel = load ptr, ptr %p, align 8
  call void %parallel(ptr @task, ptr %slots, i64 {threads})
  ret void
}}
"""


class _Body:
    """What one thread does: an equal share of the rounds, in one piece."""

    def __init__(self, reads: int, writes: bool, way: Way, vector: VectorType) -> None:
        self._reads, self._writes, self._way, self._vector = reads, writes, way, vector
        self._bits = f"<{vector.lanes} x i32>"
        self._w = IRWriter()

    def text(self, rounds: int) -> str:
        w, way = self._w, self._way
        step = way.copies * way.vector_bytes
        mine, offset = self._share(rounds, step)
        arrays = []
        for slot in range(self._reads + 1):
            start = w.value(f"load ptr, ptr {w.advance('%slots', 8 * slot)}, align 8")
            # The last one is written; a kernel that only reads leaves its sums at its beginning.
            arrays.append(w.advance(start, offset) if slot < self._reads or self._writes else start)
        sums = [] if self._writes else [(self._bits, "zeroinitializer")] * way.copies
        end = w.loop(mine, [*(("ptr", at) for at in arrays), *sums], self._round)
        if not self._writes:
            total = end[self._reads + 1]
            for value in end[self._reads + 2 :]:
                total = w.value(f"xor {self._bits} {total}, {value}")
            self._store(total, end[self._reads], plain=True)
        w.emit("ret void")
        bits = 8 * way.vector_bytes
        if way.threads == 1:
            return function(w, "void @kernel(ptr %slots)", bits)
        signature = "void @task(ptr %slots, i64 %index, i64 %count)"
        return function(w, signature, bits, linkage="internal")

    def _share(self, rounds: int, step: int) -> tuple[int | str, int | str]:
        """This thread's number of rounds, and where it begins."""
        w, threads = self._w, self._way.threads
        if threads == 1:
            return rounds, 0
        bounds = []
        for index in ("%index", w.value("add i64 %index, 1")):
            product = w.value(f"mul i64 {index}, {rounds}")
            bounds.append(w.value(f"udiv i64 {product}, {threads}"))
        mine = w.value(f"sub i64 {bounds[1]}, {bounds[0]}")
        return mine, w.value(f"mul i64 {bounds[0]}, {step}")

    def _round(self, _: str, state: list[str]) -> list[str]:
        w, way = self._w, self._way
        arrays, sums = state[: self._reads + 1], state[self._reads + 1 :]
        values = []
        for copy in range(way.copies):
            at = copy * way.vector_bytes
            loaded = [self._load(w.advance(array, at)) for array in arrays[: self._reads]]
            value = loaded[0] if loaded else "zeroinitializer"
            for other in loaded[1:]:
                value = w.value(f"xor {self._bits} {value}, {other}")
            values.append(value)
        # After all loads, so that none of them waits for a store that it only seems to overlap.
        for copy, value in enumerate(values):
            if self._writes:
                self._store(value, w.advance(arrays[-1], copy * way.vector_bytes))
            else:
                sums[copy] = w.value(f"xor {self._bits} {sums[copy]}, {value}")
        step = way.copies * way.vector_bytes
        moved = [w.advance(array, step) for array in arrays[: self._reads]]
        return [*moved, w.advance(arrays[-1], step) if self._writes else arrays[-1], *sums]

    def _load(self, at: str) -> str:
        w = self._w
        if self._way.ahead_bytes:
            ahead = w.advance(at, self._way.ahead_bytes)
            w.emit(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
        return w.value(f"load {self._bits}, ptr {at}, align 4")

    def _store(self, value: str, at: str, *, plain: bool = False) -> None:
        streaming = self._way.streaming and not plain
        where = f"align {self._way.vector_bytes}, !nontemporal !0" if streaming else "align 4"
        self._w.emit(f"store {self._bits} {value}, ptr {at}, {where}")
