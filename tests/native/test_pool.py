"""The pool: every index runs once, also when threads have gone to sleep."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import numpy as np
import pytest

from skipjack.native import Slots, aligned, cpu, llvm, parallel_slot, workspace_slot

# task: counters[index] += 1; counters[count] = count
TASK = """
define internal void @task(ptr %slots, i64 %index, i64 %count) {
  %counters = load ptr, ptr %slots
  %mine = getelementptr i64, ptr %counters, i64 %index
  %old = load i64, ptr %mine
  %new = add i64 %old, 1
  store i64 %new, ptr %mine
  ret void
}
define void @kernel(ptr %slots) {
  %at = getelementptr i8, ptr %slots, i64 8
  %parallel = load ptr, ptr %at
  %at2 = getelementptr i8, ptr %slots, i64 16
  %count = load i64, ptr %at2
  call void %parallel(ptr @task, ptr %slots, i64 %count)
  ret void
}
"""


@pytest.fixture(scope="module")
def kernel() -> int:
    loader = llvm.Loader()
    test_every_index_runs_once.loader = loader  # type: ignore[attr-defined]  # keeps it alive
    return loader.load(llvm.compile_object(TASK, cpu.target_of(cpu.detect())), "kernel")


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("pause_s", [0.0, 0.002])
def test_every_index_runs_once(kernel: int, threads: int, pause_s: float) -> None:
    counters = np.zeros(8, np.int64)
    slots = Slots(["counters", parallel_slot(threads), threads], {"counters": counters})
    call = llvm.c_function(kernel, ctypes.c_void_p)
    for _ in range(50):
        call(slots.address)
        time.sleep(pause_s)
    assert counters.tolist() == [50] * threads + [0] * (8 - threads)


def test_a_task_for_fewer_threads_leaves_the_others_idle(kernel: int) -> None:
    counters = np.zeros(8, np.int64)
    slots = Slots(["counters", parallel_slot(3), 2], {"counters": counters})
    llvm.c_function(kernel, ctypes.c_void_p)(slots.address)
    assert counters.tolist()[:3] == [1, 1, 0]


def test_slots_lend_an_aligned_workspace() -> None:
    slots = Slots([workspace_slot(10_000), 7, "x"], {"x": aligned((4,), "float32")})
    values = (ctypes.c_int64 * 3).from_address(slots.address)
    assert values[0] % 4096 == 0
    assert values[1] == 7


def test_the_caller_does_the_part_of_threads_that_are_not_there(kernel: int) -> None:
    counters = np.zeros(8, np.int64)
    slots = Slots(["counters", parallel_slot(2), 4], {"counters": counters})
    llvm.c_function(kernel, ctypes.c_void_p)(slots.address)
    assert counters.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_gets_threads_of_its_own(kernel: int) -> None:
    counters = np.zeros(8, np.int64)
    slots = Slots(["counters", parallel_slot(2), 2], {"counters": counters})
    call = llvm.c_function(kernel, ctypes.c_void_p)
    call(slots.address)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a pool without threads would wait for ever
        call(slots.address)
        os._exit(0 if counters.tolist()[:2] == [2, 2] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    call(slots.address)
    assert counters.tolist()[:2] == [2, 2]
