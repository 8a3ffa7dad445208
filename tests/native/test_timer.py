"""The timing loop calls what it should as often as it should; peak kernels do their work."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from skipjack.native import (
    GuardedArray,
    NativeTimer,
    VectorType,
    arithmetic_flops,
    arithmetic_kernel,
    detect,
    llvm,
    read_kernel,
    stream_kernel,
    target_of,
)

LOADER = llvm.Loader()
TARGET = target_of(detect())
COUNT = """
define void @kernel(ptr %slots) {
  %old = load i64, ptr %slots
  %new = add i64 %old, 1
  store i64 %new, ptr %slots
  ret void
}
"""


def load(text: str) -> int:
    return LOADER.load(llvm.compile_object(text, TARGET), "kernel")


@pytest.mark.parametrize(("calls", "samples"), [(1, 1), (3, 4), (100, 2)])
def test_every_sample_makes_its_calls(calls: int, samples: int) -> None:
    counter = np.zeros(1, np.int64)
    times = NativeTimer(LOADER, TARGET).sample(load(COUNT), counter.ctypes.data, calls, samples)
    assert counter[0] == calls * samples
    assert times.shape == (samples,)
    assert (times >= 0).all()


@pytest.mark.parametrize("lanes", [4, 8])
def test_the_stream_adds_two_arrays_within_their_bounds(lanes: int) -> None:
    size = 4 * lanes * 3
    x, y, out = (GuardedArray((size,), "float32", 4) for _ in range(3))
    x.array[...], y.array[...], out.array[...] = np.arange(size), 1.0, np.nan
    slots = (ctypes.c_int64 * 4)(*(a.array.ctypes.data for a in (x, y, out)), 3)
    llvm.c_function(load(stream_kernel(VectorType("f32", lanes), 4)), ctypes.c_void_p)(slots)
    np.testing.assert_array_equal(out.array, np.arange(size) + 1.0)
    assert out.intact()


def test_the_reading_kernel_reads_everything_once() -> None:
    size = 8 * 4 * 5
    x, out = GuardedArray((size,), "float32", 4), GuardedArray((32,), "float32", 4)
    x.array[...] = np.arange(size)
    slots = (ctypes.c_int64 * 3)(x.array.ctypes.data, out.array.ctypes.data, 5)
    llvm.c_function(load(read_kernel(VectorType("f32", 4), 8)), ctypes.c_void_p)(slots)
    assert out.array.sum() == np.arange(size).sum()


def test_the_arithmetic_kernel_runs_all_its_rounds() -> None:
    vector, rounds = VectorType("f64", 2), 40
    out = GuardedArray((24,), "float64", 8)
    slots = (ctypes.c_int64 * 1)(out.array.ctypes.data)
    llvm.c_function(load(arithmetic_kernel(vector, rounds)), ctypes.c_void_p)(slots)
    expected = np.repeat(np.arange(1.0, 13.0), 2)
    for _ in range(rounds):
        expected = expected * 0.5 + 0.25
    np.testing.assert_array_equal(out.array, expected)
    assert arithmetic_flops(vector, rounds) == 2 * 24 * rounds
