"""Kernels as functions on other people's tensors: their GPU, their stream, and nothing is kept."""

import gc
import hashlib
import struct
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skipjack.core import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import ABI, GpuArtifact, LaunchShape, Scratch, launch, pack, to_slots
from skipjack.gpu.discovery import only_drivers
from skipjack.operations import parse
from skipjack.runtime.local_kernels import GpuKernel, KernelCode, callable_of
from skipjack.runtime.local_kernels.gpu_kernel import free_dropped, shared_gpu
from skipjack.testing.fake_gpu import DEVICE, FakeDriver, FakeGpu, fake_artifact

N = 64
PROBLEM = parse(f"add:{N}")
PARTS = Scratch("parts", 4 * N)
OTHER = replace(DEVICE, arch="fake_0", serial="fake-a")


class Watched(FakeGpu):
    """Remembers streams and addresses of launches."""

    def __init__(self, device: Device, index: int) -> None:
        super().__init__(device, index=index)
        self.launches: list[tuple[int | None, list[int]]] = []
        self.waited: list[int | None] = []

    def launch(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> None:
        places = [struct.unpack("<Q", value)[0] for value in values[:3]]
        self.launches.append((stream, places))
        super().launch(function, shape, values, stream)

    def synchronize(self, stream: int | None = None) -> None:
        self.waited.append(stream)
        super().synchronize(stream)


class WatchedDriver(FakeDriver):
    def open(self, index: int) -> FakeGpu:
        return Watched(self.devices()[index], index)


class Old(FakeDriver):
    def version(self) -> tuple[int, int]:
        return 0, 9


class Array:
    """NumPy's memory, as if it were a GPU's."""

    def __init__(self, array: np.ndarray, index: int | None = None, **interface: Any) -> None:
        self.array = array
        if index is not None:
            self.device = SimpleNamespace(id=index)
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data, False),
            "shape": array.shape,
            "typestr": array.dtype.str,
            "version": 3,
            **interface,
        }


def aligned(*, dtype: Any = np.float32) -> np.ndarray:
    room = np.zeros(N + 64, dtype)
    start = -room.ctypes.data % 256 // room.itemsize
    return room[start : start + N]


def tensors(index: int | None = None, **interface: Any) -> list[Array]:
    """x, y and out."""
    found = [Array(aligned(), index, **interface) for _ in range(3)]
    found[0].array[:], found[1].array[:] = 1.0, np.arange(N)
    return found


def code(artifact: GpuArtifact | None = None, *, split: bool = False) -> KernelCode:
    """A sum in one launch, or in two with parts between them, as split-K has them."""
    data = pack(artifact or fake_artifact())
    whole = [launch("add", (8,), ["x", "y", "out", N])]
    parts = [
        launch("add", (8,), ["x", "y", PARTS, N]),
        launch("add", (8,), [PARTS, "y", "out", N]),
    ]
    slots = to_slots(parts if split else whole)
    return KernelCode(data, hashlib.sha256(data).hexdigest(), "gpu", ABI, tuple(slots))


@pytest.fixture
def two_gpus() -> Iterator[None]:
    """The first is of another kind than the kernels are for, the others are right."""
    driver = WatchedDriver([OTHER, DEVICE, replace(DEVICE, serial="fake-b")])
    with only_drivers(driver):
        shared_gpu.cache_clear()
        yield
        gc.collect()
        free_dropped()
        shared_gpu.cache_clear()


def watched(index: int) -> Watched:
    gpu = shared_gpu(f"fake:{index}")
    assert isinstance(gpu, Watched)
    return gpu


def test_a_kernel_goes_to_the_gpu_that_it_is_for(two_gpus: None) -> None:
    x, y, out = tensors()
    kernel = callable_of(PROBLEM, code(), DEVICE.name)
    assert kernel(x, y, out=out) is out
    np.testing.assert_array_equal(out.array, 1.0 + np.arange(N))
    assert len(watched(1).launches) == 1
    with pytest.raises(SkipjackError, match="the artifact is for fake_1, but this GPU is fake_0"):
        callable_of(PROBLEM, code(), "fake:0")


def test_a_call_runs_on_the_gpu_of_its_tensors(two_gpus: None) -> None:
    kernel = GpuKernel(PROBLEM, code(), "fake:1")
    x, y, out = tensors(index=2)
    kernel(x, y, out=out)
    assert (len(watched(1).launches), len(watched(2).launches)) == (0, 1)
    with pytest.raises(SkipjackError, match="the artifact is for fake_1, but this GPU is fake_0"):
        kernel(*tensors(index=0)[:2], out=tensors(index=0)[2])
    with pytest.raises(
        UsageError, match="on one GPU, but these are x on GPU 2, y on GPU 2, out on GPU"
    ):
        kernel(x, y, out=tensors(index=1)[2])


def test_two_threads_on_two_streams_share_neither_stream_nor_scratch(two_gpus: None) -> None:
    kernel, together = GpuKernel(PROBLEM, code(split=True), "fake:1"), Barrier(2)

    def work(stream: int) -> list[Array]:
        given = tensors(stream=stream)
        call = kernel.bind(*given[:2], out=given[2])
        together.wait()
        for _ in range(200):
            call()
        return given

    with ThreadPoolExecutor(2) as threads:
        owners = dict(zip((7, 8), threads.map(work, (7, 8)), strict=True))
    scratch: dict[int | None, set[int]] = {7: set(), 8: set()}
    for stream, places in watched(1).launches:
        assert stream is not None
        theirs = {one.array.ctypes.data for one in owners[stream]}
        scratch[stream] |= set(places) - theirs
    assert len(watched(1).launches) == 800
    assert [len(one) for one in scratch.values()] == [1, 1], "one for each stream"
    assert scratch[7] != scratch[8]
    np.testing.assert_array_equal(owners[7][2].array, 1.0 + 2.0 * np.arange(N))


def test_a_bound_kernel_follows_the_current_stream(
    two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(ptr=5)
    cupy: Any = ModuleType("cupy")
    cupy.ndarray = Array
    cupy.cuda = SimpleNamespace(Device=_OnlyFirst, get_current_stream=lambda: now)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x, y, out = tensors(index=1)
    call = GpuKernel(PROBLEM, code(), "fake:1").bind(x, y, out=out)
    for now.ptr in (5, 6, 1):
        call()
    assert [stream for stream, _ in watched(1).launches] == [5, 6, 0], "1 is the default stream"


class _OnlyFirst:
    def __init__(self, index: int) -> None:
        assert index == 1

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_work_on_other_streams_is_waited_for(two_gpus: None) -> None:
    x, y, out = Array(aligned(), stream=7), Array(aligned(), stream=9), Array(aligned())
    GpuKernel(PROBLEM, code(), "fake:1")(x, y, out=out)
    assert watched(1).waited == [9]
    assert [stream for stream, _ in watched(1).launches] == [7]


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (Array(aligned(dtype=np.int32)), "must be float32 .*, not int32"),
        (Array(aligned(), typestr=">f4"), "must be float32 .*, not >f4"),
        (Array(aligned(), strides=(8,)), "must be contiguous"),
        (Array(aligned(), data=(256, True)), "out is an output, .* read-only"),
        (Array(np.zeros(N + 1, np.float32)), r"not float32 of shape \(65,\)"),
        (np.zeros(N, np.float32), "out is not on a GPU: it is of type ndarray"),
    ],
)
def test_unfit_tensors_are_named(two_gpus: None, array: Any, says: str) -> None:
    x, y, _ = tensors()
    with pytest.raises(UsageError, match=says):
        GpuKernel(PROBLEM, code(), "fake:1")(x, y, out=array)


def test_outputs_are_given_as_to_a_cpus_kernel(two_gpus: None) -> None:
    x, y, out = tensors()
    kernel = GpuKernel(PROBLEM, code(), "fake:1")
    assert kernel(x, y, out={"out": out}) is out
    np.testing.assert_array_equal(out.array, 1.0 + np.arange(N))
    with pytest.raises(UsageError, match="has no output z, only out"):
        kernel(x, y, out={"z": out})
    for wrong in ([], [out, out]):
        with pytest.raises(UsageError, match=f"needs 1 array, not {len(wrong)}"):
            kernel(x, y, out=wrong)


def test_an_output_overlaps_nothing(two_gpus: None) -> None:
    x, y, out = tensors()
    kernel = GpuKernel(PROBLEM, code(), "fake:1")
    within = Array(y.array, data=(y.array.ctypes.data + 4 * N - 4, False))
    for overlapping in (x, y, within):
        with pytest.raises(UsageError, match="out must not overlap an input"):
            kernel(x, y, out=overlapping)
    addresses = [one.array.ctypes.data for one in (x, y, x)]
    with pytest.raises(UsageError, match="out must not overlap an input"):
        kernel._on(1).queue((0, *addresses))  # where calls of PyTorch's tensors come at once
    kernel(x, x, out=out)
    beside = np.zeros(2 * N, np.float32)
    kernel(Array(beside[:N]), y, out=Array(beside[N:]))


def test_read_only_inputs_and_plain_strides_will_do(two_gpus: None) -> None:
    x, y, out = tensors()
    x = Array(x.array, data=(x.array.ctypes.data, True), strides=(4,))
    GpuKernel(PROBLEM, code(), "fake:1")(x, y, out=out)
    assert out.array[1] == 2.0


def test_what_is_dropped_is_freed_with_the_next_kernel(two_gpus: None) -> None:
    x, y, out = tensors(stream=7)
    gpu = watched(1)
    before = gpu.memory()
    call = GpuKernel(PROBLEM, code(split=True), "fake:1").bind(x, y, out=out)
    gc.collect()
    free_dropped()
    call()
    assert gpu.memory() < before, "who is bound keeps the code"
    del call
    for _ in range(3):
        GpuKernel(PROBLEM, code(split=True), "fake:1")(x, y, out=out)
        gc.collect()
    free_dropped()
    assert (gpu.memory(), gpu._modules) == (before, {})


def test_a_newer_driver_is_asked_for() -> None:
    with only_drivers(Old()):
        shared_gpu.cache_clear()
        artifact = replace(fake_artifact(), least_driver=(1, 0))
        with pytest.raises(
            SkipjackError, match=r"needs a driver of .* 1\.0 or later; this is 0\.9"
        ):
            GpuKernel(PROBLEM, code(artifact), "fake:0")
    shared_gpu.cache_clear()
