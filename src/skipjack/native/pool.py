"""A pool of native threads, on which a kernel runs a task in parallel.

``void parallel(ptr task, ptr slots, i64 count)`` calls ``task(slots, index, count)`` for every
index below `count`, index 0 on the calling thread, and returns when all are done. After a task,
threads spin for a short time, because the next task usually follows at once, and then sleep. A
caller that waits for long yields its core, for which the thread it waits for may be waiting. If the
system refused to create threads, the caller does their part. Only one thread of a process may be in
`parallel` at a time: callers of a kernel that uses a pool must hold `call_lock`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading

from skipjack.native import cpu, llvm
from skipjack.native.forks import ForkOrder, forks_wait_for

SPINS = 20_000
"""Iterations of spinning before a thread sleeps: less than a millisecond."""

# The state: a task, its slots and count; a sequence number that grows with every task, on which
# idle threads spin; on other cache lines the number of threads that are done, the number of all
# threads, and a mutex and a condition variable, which are valid when they are zero.
_POOL = """
%state = type { ptr, ptr, i64, i64, [96 x i8], i64, i64, [64 x i8], [64 x i8] }
@pool = internal global %state zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
DECLARE_PAUSE

define void @parallel(ptr %task, ptr %slots, i64 %count) nounwind {
entry:
  %one = icmp ule i64 %count, 1
  br i1 %one, label %alone, label %share
alone:
  call void %task(ptr %slots, i64 0, i64 1)
  ret void
share:
  store ptr %task, ptr @pool, align 8
  %at_slots = getelementptr %state, ptr @pool, i32 0, i32 1
  store ptr %slots, ptr %at_slots, align 8
  %at_count = getelementptr %state, ptr @pool, i32 0, i32 2
  store i64 %count, ptr %at_count, align 8
  %at_done = getelementptr %state, ptr @pool, i32 0, i32 5
  store atomic i64 0, ptr %at_done monotonic, align 8
  %at_sequence = getelementptr %state, ptr @pool, i32 0, i32 3
  %mutex = getelementptr %state, ptr @pool, i32 0, i32 7
  %condition = getelementptr %state, ptr @pool, i32 0, i32 8
  %before = atomicrmw add ptr %at_sequence, i64 1 seq_cst
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %b = call i32 @pthread_cond_broadcast(ptr %condition)
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  call void %task(ptr %slots, i64 0, i64 %count)
  %at_threads = getelementptr %state, ptr @pool, i32 0, i32 6
  %threads = load i64, ptr %at_threads, align 8
  br label %missing
missing:
  %before_it = phi i64 [ %threads, %share ], [ %number, %instead ]
  %number = add i64 %before_it, 1
  %short = icmp ult i64 %number, %count
  br i1 %short, label %instead, label %begin
instead:
  call void %task(ptr %slots, i64 %number, i64 %count)
  br label %missing
begin:
  br label %wait
wait:
  %waited = phi i64 [ 0, %begin ], [ %longer, %again ], [ %longer, %yield ]
  %done = load atomic i64, ptr %at_done acquire, align 8
  %all = icmp eq i64 %done, %threads
  %longer = add i64 %waited, 1
  br i1 %all, label %end, label %again
again:
  PAUSE
  %long = icmp ugt i64 %longer, SPINS
  br i1 %long, label %yield, label %wait
yield:
  %y = call i32 @sched_yield()
  br label %wait
end:
  ret void
}

define internal ptr @serve(ptr %argument) nounwind {
entry:
  %index = ptrtoint ptr %argument to i64
  %at_slots = getelementptr %state, ptr @pool, i32 0, i32 1
  %at_count = getelementptr %state, ptr @pool, i32 0, i32 2
  %at_sequence = getelementptr %state, ptr @pool, i32 0, i32 3
  %at_done = getelementptr %state, ptr @pool, i32 0, i32 5
  %mutex = getelementptr %state, ptr @pool, i32 0, i32 7
  %condition = getelementptr %state, ptr @pool, i32 0, i32 8
  br label %next
next:
  %seen = phi i64 [ 0, %entry ], [ %now, %finish ]
  br label %spin
spin:
  %rounds = phi i64 [ 0, %next ], [ %more, %pause ]
  %peek = load atomic i64, ptr %at_sequence acquire, align 8
  %changed = icmp ne i64 %peek, %seen
  br i1 %changed, label %work, label %pause
pause:
  PAUSE
  %more = add i64 %rounds, 1
  %tired = icmp ugt i64 %more, SPINS
  br i1 %tired, label %sleep, label %spin
sleep:
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %current = load atomic i64, ptr %at_sequence acquire, align 8
  %fresh = icmp ne i64 %current, %seen
  br i1 %fresh, label %awake, label %nap
nap:
  %w = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
awake:
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %work
work:
  %now = load atomic i64, ptr %at_sequence acquire, align 8
  %task = load ptr, ptr @pool, align 8
  %slots = load ptr, ptr %at_slots, align 8
  %count = load i64, ptr %at_count, align 8
  %mine = icmp ult i64 %index, %count
  br i1 %mine, label %run, label %finish
run:
  call void %task(ptr %slots, i64 %index, i64 %count)
  br label %finish
finish:
  %add = atomicrmw add ptr %at_done, i64 1 release
  br label %next
}

define void @start(i64 %count) nounwind {
entry:
  %thread = alloca i64, align 8
  store %state zeroinitializer, ptr @pool, align 64
  %at_threads = getelementptr %state, ptr @pool, i32 0, i32 6
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %index, %made ]
  %index = add i64 %i, 1
  %last = icmp ugt i64 %index, %count
  br i1 %last, label %end, label %make
make:
  %argument = inttoptr i64 %index to ptr
  %c = call i32 @pthread_create(ptr %thread, ptr null, ptr @serve, ptr %argument)
  %refused = icmp ne i32 %c, 0
  br i1 %refused, label %end, label %made
made:
  store i64 %index, ptr %at_threads, align 8
  %id = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %id)
  br label %loop
end:
  ret void
}
"""


def _text() -> str:
    """The pool's IR; the pause instruction depends on the instruction set."""
    x86 = llvm.host()[0].startswith(("x86_64", "i686"))
    name = "@llvm.x86.sse2.pause" if x86 else "@llvm.aarch64.hint"
    argument, kind = ("", "") if x86 else ("i32 1", "i32")
    return (
        _POOL.replace("DECLARE_PAUSE", f"declare void {name}({kind})")
        .replace("PAUSE", f"call void {name}({argument})")
        .replace("SPINS", str(SPINS))
    )


class ThreadPool:
    """Native threads of this process, which live as long as it does."""

    def __init__(self, threads: int) -> None:
        loader = llvm.Loader()
        code = llvm.compile_object(_text(), cpu.target_of(cpu.detect()))
        self._loader = loader  # its code must outlive the threads
        addresses = loader.load_several(code, ["parallel", "start"])
        self.parallel: int = addresses["parallel"]
        """Address of ``void parallel(ptr task, ptr slots, i64 count)``."""
        self.threads = threads
        start = functools.partial(llvm.c_function(addresses["start"], ctypes.c_int64), threads - 1)
        start()
        if hasattr(os, "register_at_fork"):
            # A forked process has the pool's memory, but not its threads.
            os.register_at_fork(after_in_child=start)


call_lock = threading.Lock()
"""Must be held while a kernel uses a pool."""
_lock = threading.Lock()
forks_wait_for(call_lock, ForkOrder.POOL_CALLS)
forks_wait_for(_lock, ForkOrder.POOLS)


@functools.cache
def _make_pool(threads: int) -> ThreadPool:
    return ThreadPool(threads)


def pool_for(threads: int) -> ThreadPool:
    """The process's pool with this number of threads, created on first use."""
    with _lock:
        return _make_pool(threads)
