"""The kernels behind the rooflines move what they say, on every thread and in every way."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.native import Slots, aligned, cpu, llvm, parallel_slot
from traffic import Way, traffic_kernel, ways

COUNT = 5 * 1024
WIDEST = cpu.detect().vector_bytes
Arrays = dict[str, npt.NDArray[Any]]


def run(reads: int, writes: bool, way: Way, arrays: Arrays) -> None:
    """Compile a kernel and call it once on all arrays in order."""
    text = traffic_kernel(reads, writes, COUNT, way)
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, cpu.target_of(cpu.detect())), "kernel")
    slots = Slots([*arrays, parallel_slot(way.threads)], arrays)
    llvm.c_function(address, ctypes.c_void_p)(slots.address)


def drawn(reads: int) -> Arrays:
    """Arrays of random bits and one of zeros to write to."""
    rng = np.random.default_rng(0)
    names = [f"x{number}" for number in range(reads)]
    arrays = {name: aligned((COUNT,), "float32") for name in [*names, "out"]}
    for name in names:
        arrays[name].view(np.uint32)[...] = rng.integers(0, 2**32, COUNT, np.uint32)
    arrays["out"].fill(1.0)
    return arrays


def bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Floats as whole numbers, so that every bit counts."""
    return array.view(np.uint32)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_that_writes_touches_every_element(threads: int) -> None:
    for way in ways(WIDEST, writes=True, threads=threads):
        arrays = drawn(2)
        run(2, True, way, arrays)
        assert (bits(arrays["out"]) == bits(arrays["x0"]) ^ bits(arrays["x1"])).all(), way.name


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_that_copies_gives_an_equal_array(threads: int) -> None:
    way = Way(WIDEST, 8, threads=threads)
    arrays = drawn(1)
    run(1, True, way, arrays)
    assert (bits(arrays["out"]) == bits(arrays["x0"])).all()


def test_a_kernel_that_only_reads_has_read_every_element() -> None:
    for way in ways(WIDEST, writes=False):
        arrays = drawn(1)
        run(1, False, way, arrays)
        lanes = way.vector_bytes // 4
        expected = np.bitwise_xor.reduce(bits(arrays["x0"]).reshape(-1, lanes), axis=0)
        assert (bits(arrays["out"])[:lanes] == expected).all(), way.name
        assert (arrays["out"][lanes:] == 1.0).all()


def test_a_kernel_may_only_write() -> None:
    arrays = drawn(0)
    run(0, True, Way(WIDEST, 2), arrays)
    assert (arrays["out"] == 0.0).all()


def test_ways_have_names_of_their_own() -> None:
    for writes in (False, True):
        names = [way.name for way in ways(WIDEST, writes, threads=2)]
        assert len(names) == len(set(names))
