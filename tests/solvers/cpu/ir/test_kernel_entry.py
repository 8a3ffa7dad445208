"""Shares of threads: together they have every iteration exactly once."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import pytest

from skipjack.native import IRWriter, detect, function, llvm, target_of
from skipjack.solvers.cpu.ir import KERNEL, share_with_tail, slot, task_signature


def shares(full: int, tail: bool, threads: int) -> list[tuple[int, int, bool]]:
    """For every thread: its first iteration, its full iterations, and whether it has the tail."""
    task = IRWriter()
    own = share_with_tail(task, full, tail)
    has_tail = task.value(f"zext i1 {own.has_tail or 'false'} to i64")
    for number, value in enumerate((own.begin, own.rounds, has_tail)):
        task.emit(f"store i64 {value}, ptr {slot(task, number)}")
    task.emit("ret void")
    kernel = IRWriter()
    index, count = (slot(kernel, number, "i64") for number in (3, 4))
    kernel.emit(f"call void @task(ptr %slots, i64 {index}, i64 {count})")
    kernel.emit("ret void")
    text = function(task, task_signature(), 128) + function(kernel, KERNEL, 128)
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, target_of(detect())), "kernel")
    found = []
    for index_ in range(threads):
        results = (ctypes.c_int64 * 3)()
        places = [ctypes.addressof(results) + 8 * number for number in range(3)]
        slots = (ctypes.c_int64 * 5)(*places, index_, threads)
        llvm.c_function(address, ctypes.c_void_p)(slots)
        found.append((results[0], results[1], bool(results[2])))
    loader.unload(address)
    return found


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize(("full", "threads"), [(0, 3), (1, 1), (5, 2), (2, 4), (9, 4), (4, 4)])
def test_every_round_belongs_to_one_thread(full: int, threads: int, tail: bool) -> None:
    found = shares(full, tail, threads)
    assert found[0][0] == 0
    for (begin, rounds, _), (following, _, _) in pairwise(found):
        assert begin + rounds == following
    assert found[-1][0] + found[-1][1] == full
    assert [has_tail for _, _, has_tail in found] == [False] * (threads - 1) + [tail]


@pytest.mark.parametrize(("full", "threads"), [(3, 2), (3, 4), (7, 4), (10, 4)])
def test_a_tail_counts_as_a_round(full: int, threads: int) -> None:
    rounds = [full_ + has_tail for _, full_, has_tail in shares(full, True, threads)]
    assert sum(rounds) == full + 1
    assert max(rounds) - min(rounds) <= 1
