"""The native check of arrays: what fits is called, everything else is refused without a call."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.native import cpu, llvm
from skipjack.native.checked_call import CallPlan, checked_call

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
    run = checked_call()
    assert run is not None
    calls = ctypes.c_int64(0)
    slots = ("x", "out", ctypes.addressof(calls))
    plan = CallPlan(kernel, slots, [("x", (3, 4), F32), ("out", (5,), F32)])
    assert run(plan.address, inputs, out, 0) == -1
    assert calls.value == 0
    assert run(plan.address, (X,), OUT, 0) == 0
    assert calls.value == 1


def test_room_for_an_output_is_aligned(kernel: int) -> None:
    run = checked_call()
    assert run is not None
    calls = ctypes.c_int64(0)
    slots = ("x", "out", ctypes.addressof(calls))
    plan = CallPlan(kernel, slots, [("x", (3, 4), F32), ("out", (5,), F32)])
    for _ in range(20):
        room = np.empty(5 * 4 + 64, np.uint8)
        start = run(plan.address, (read_only(X.copy()),), room, 1)
        assert 0 <= start < 64
        assert (room.ctypes.data + start) % 64 == 0
    assert calls.value == 20
