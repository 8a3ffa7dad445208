"""The native check of arrays: what fits is called, everything else is refused without a call."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.native import CallPlan, cpu, llvm, native_check

_COUNT = """
define void @kernel(ptr %slots) nounwind {
entry:
  %at = getelementptr i64, ptr %slots, i64 2
  %counter = load ptr, ptr %at, align 8
  %n = load i64, ptr %counter, align 8
  %more = add i64 %n, 1
  store i64 %more, ptr %counter, align 8
  ret void
}
"""
F32 = np.dtype(np.float32)


@pytest.fixture(scope="module")
def loader() -> llvm.Loader:
    return llvm.Loader()


@pytest.fixture(scope="module")
def kernel(loader: llvm.Loader) -> int:
    return loader.load(llvm.compile_object(_COUNT, cpu.target_of(cpu.detect())), "kernel")


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def unaligned(shape: tuple[int, ...]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * 4
    return np.zeros(size + 1, np.uint8)[1:].view(np.float32).reshape(shape)


X, OUT = np.zeros((3, 4), np.float32), np.zeros(5, np.float32)


@pytest.mark.parametrize(
    ("inputs", "out"),
    [
        ((), OUT),
        ((X, X), OUT),
        ((None,), OUT),
        ((X.tolist(),), OUT),
        ((3.0,), OUT),
        ((X[:2],), OUT),
        ((X[0],), OUT),
        ((X[None],), OUT),
        ((X.astype(np.float64),), OUT),
        ((X.astype(np.int32),), OUT),
        ((X.astype(">f4"),), OUT),
        ((np.zeros((4, 3), np.float32).T,), OUT),
        ((np.zeros((3, 8), np.float32)[:, ::2],), OUT),
        ((np.zeros((3, 4), np.float32)[::-1],), OUT),
        ((np.broadcast_to(np.float32(1), (3, 4)),), OUT),
        ((unaligned((3, 4)),), OUT),
        ((np.ma.masked_array(X),), OUT),
        ((X,), [OUT]),
        ((X,), np.zeros(6, np.float32)),
        ((X,), np.zeros(5)),
        ((X,), np.zeros(10, np.float32)[::2]),
        ((X,), unaligned((5,))),
        ((X,), read_only(np.zeros(5, np.float32))),
        ((X,), X.ravel()[:5]),
        ((X,), X.ravel()[7:]),
    ],
)
def test_what_does_not_fit_is_refused_without_a_call(
    kernel: int, inputs: tuple[Any, ...], out: Any
) -> None:
    check = native_check()
    assert check is not None
    calls = ctypes.c_int64(0)
    slots = ("x", "out", ctypes.addressof(calls))
    plan = CallPlan(check, kernel, slots, [("x", (3, 4), F32), ("out", (5,), F32)])
    assert plan.call(inputs, out) == -1
    assert calls.value == 0
    assert plan.call((X,), OUT) == 0
    assert calls.value == 1


def test_room_for_an_output_is_aligned(kernel: int) -> None:
    check = native_check()
    assert check is not None
    calls = ctypes.c_int64(0)
    slots = ("x", "out", ctypes.addressof(calls))
    plan = CallPlan(check, kernel, slots, [("x", (3, 4), F32), ("out", (5,), F32)])
    for _ in range(20):
        room = np.empty(5 * 4 + 64, np.uint8)
        start = plan.call((read_only(X.copy()),), room, True)
        assert 0 <= start < 64
        assert (room.ctypes.data + start) % 64 == 0
    assert calls.value == 20


_WAIT = """
define void @kernel(ptr %slots) nounwind {
entry:
  %at = getelementptr i64, ptr %slots, i64 2
  %words = load ptr, ptr %at, align 8
  store volatile i64 1, ptr %words, align 8
  %flag = getelementptr i64, ptr %words, i64 1
  br label %wait
wait:
  %i = phi i64 [ 0, %entry ], [ %next, %wait ]
  %seen = load volatile i64, ptr %flag, align 8
  %next = add i64 %i, 1
  %told = icmp ne i64 %seen, 0
  %tired = icmp eq i64 %next, 20000000000
  %end = or i1 %told, %tired
  br i1 %end, label %done, label %wait
done:
  %result = getelementptr i64, ptr %words, i64 2
  store i64 %seen, ptr %result, align 8
  ret void
}
"""


def test_other_threads_run_while_a_kernel_does(loader: llvm.Loader) -> None:
    check = native_check()
    assert check is not None
    address = loader.load(llvm.compile_object(_WAIT, cpu.target_of(cpu.detect())), "kernel")
    words = (ctypes.c_int64 * 3)()
    slots = ("x", "out", ctypes.addressof(words))
    plan = CallPlan(check, address, slots, [("x", (3, 4), F32), ("out", (5,), F32)])

    def tell() -> None:
        while not words[0]:
            time.sleep(0)
        words[1] = 7

    other = threading.Thread(target=tell)
    other.start()
    assert plan.call((X,), OUT) == 0
    other.join()
    assert words[2] == 7


_DAEMONS = """
import threading, numpy as np
from skipjack.native import cpu, llvm
from skipjack.native import CallPlan, native_check
loader, f32 = llvm.Loader(), np.dtype(np.float32)
text = "define void @kernel(ptr %slots) nounwind { ret void }"
kernel = loader.load(llvm.compile_object(text, cpu.target_of(cpu.detect())), "kernel")
ready = threading.Barrier(4)
def work():
    plan = CallPlan(native_check(), kernel, ("x", "y"), [("x", (4,), f32), ("y", (4,), f32)])
    x, y = np.zeros(4, f32), np.zeros(4, f32)
    ready.wait()
    while True:
        plan.call((x,), y)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
ready.wait()
"""


def test_a_process_ends_while_threads_are_in_calls() -> None:
    subprocess.run([sys.executable, "-c", _DAEMONS], check=True, timeout=120)


def test_calls_leave_no_references_behind(kernel: int) -> None:
    check = native_check()
    assert check is not None
    calls = ctypes.c_int64(0)
    slots = ("x", "out", ctypes.addressof(calls))
    plan = CallPlan(check, kernel, slots, [("x", (3, 4), F32), ("out", (5,), F32)])
    objects = (X, OUT, 0, -1)
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(1000):
        plan.call((X,), OUT)
        plan.call((), OUT)
    after = [sys.getrefcount(one) for one in objects]
    assert all(abs(new - old) < 500 for new, old in zip(after, before, strict=True))
