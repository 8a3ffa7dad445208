"""Calls on PyTorch's tensors are checked quickly after the first, and as strictly."""

from __future__ import annotations

import gc
import hashlib
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skipjack.core import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import (
    ABI,
    Argument,
    Descriptor,
    LaunchShape,
    Pointer,
    Scratch,
    launch,
    pack,
    to_slots,
)
from skipjack.gpu.discovery import only_drivers
from skipjack.operations import parse
from skipjack.runtime.local_kernels import GpuKernel, KernelCode, gpu_kernel
from skipjack.runtime.local_kernels.gpu_arguments import GpuArguments, TorchTensors
from skipjack.runtime.local_kernels.gpu_kernel import free_dropped, shared_gpu
from skipjack.testing.fake_gpu import DEVICE, FakeDriver, FakeGpu, fake_artifact

N = 64
PROBLEM = parse(f"add:{N}")
PARTS = Scratch("parts", 4 * N)


class Tensor:
    """NumPy's memory, as if it were PyTorch's on a GPU."""

    def __init__(self, array: np.ndarray, index: int = 0, kind: str = "cuda") -> None:
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"
        self.dtype = sys.intern(self.dtype)
        self.device = SimpleNamespace(type=kind, index=index)

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def tensor(value: Any = 0.0, index: int = 0, *, size: int = N, dtype: Any = np.float32) -> Tensor:
    room = np.zeros(size + 64, dtype)
    start = -room.ctypes.data % 256 // room.itemsize
    array = room[start : start + size]
    array[:] = value
    return Tensor(array, index)


class Watched(FakeGpu):
    def __init__(self, device: Device, index: int) -> None:
        super().__init__(device, index=index)
        self.streams: list[int | None] = []
        self.encoded: list[int] = []

    def launch(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> None:
        self.streams.append(stream)
        if len(values[0]) == 8:  # no descriptor, which it cannot read
            super().launch(function, shape, values, stream)

    def tensor_map(self, address: int, *_: Any) -> bytes:
        self.encoded.append(address)
        return bytes(128)


class WatchedDriver(FakeDriver):
    def open(self, index: int) -> FakeGpu:
        return Watched(self.devices()[index], index)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, int]]:
    """PyTorch and two GPUs; gives the current stream of each."""
    current = {0: 5, 1: 6}
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.float32 = Tensor, sys.intern("torch.float32")
    torch.empty = lambda shape, dtype, device: tensor(-1.0, device.index, size=shape[0])
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=current.__getitem__)
    torch.cuda = SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    with only_drivers(WatchedDriver([DEVICE, replace(DEVICE, serial="fake-b")])):
        shared_gpu.cache_clear()
        yield current
        gc.collect()
        free_dropped()
        shared_gpu.cache_clear()


def kernel(*steps: Any, **abi: Any) -> GpuKernel:
    data = pack(replace(fake_artifact(**abi)))
    slots = to_slots(steps or [launch("add", (8,), ["x", "y", "out", N])])
    code = KernelCode(data, hashlib.sha256(data).hexdigest(), "gpu", ABI, tuple(slots))
    return GpuKernel(PROBLEM, code, "fake:0")


def gpu(index: int = 0) -> Watched:
    found = shared_gpu(f"fake:{index}")
    assert isinstance(found, Watched)
    return found


@pytest.fixture
def warm(streams: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> GpuKernel:
    """A kernel that was called, and must not check at length again unless something is wrong."""
    made = kernel()
    made(tensor(1.0), tensor(2.0), out=tensor())
    gpu().streams.clear()
    return made


@pytest.fixture
def quick(warm: GpuKernel, monkeypatch: pytest.MonkeyPatch) -> GpuKernel:
    monkeypatch.setattr(GpuArguments, "check", lambda *_: pytest.fail("checked at length"))
    return warm


def test_further_calls_are_quick_on_any_tensors_that_fit(
    quick: GpuKernel, streams: dict[int, int]
) -> None:
    for number in range(5):
        out = tensor()
        assert quick(tensor(number), tensor(2.0), out=out) is out
        assert (out.array == number + 2.0).all()
    assert (quick(tensor(3.0), tensor(4.0)).array == 7.0).all()
    assert quick(tensor(3.0), tensor(4.0), out=[out]) is out
    assert quick.bind(tensor(1.0), tensor(1.5), out=out)() is out
    assert (out.array == 2.5).all()
    streams[0] = 9
    quick(tensor(), tensor())
    assert gpu().streams == [5] * 8 + [9], "the current one at each call"


def _on_cpu() -> Tensor:
    return Tensor(np.zeros(N, np.float32), kind="cpu")


def _strided() -> Tensor:
    return Tensor(np.zeros(2 * N, np.float32)[::2])


def _odd_address() -> Tensor:
    return Tensor(tensor(size=N + 1).array[1:])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tensor(size=N + 1), r"must be float32 of shape \(64,\)"),
        (lambda: tensor(dtype=np.int32), "must be float32 .*, not int32"),
        (_strided, "must be contiguous"),
        (_on_cpu, "is not on a GPU"),
        (lambda: tensor(index=1), "must be on one GPU"),
        (lambda: np.zeros(N, np.float32), "is not on a GPU: it is of type ndarray"),
        (_odd_address, "compiled for multiples of 16"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("how", ["call", "bind"])
def test_quick_calls_refuse_what_first_calls_refuse(
    warm: GpuKernel, make: Callable[[], Any], says: str, place: int, how: str
) -> None:
    given: list[Any] = [tensor(), tensor(), tensor()]
    given[place] = make()
    with pytest.raises(SkipjackError, match=says):
        (warm if how == "call" else warm.bind)(*given[:2], out=given[2])
    assert gpu().streams == []


def test_quick_calls_count_their_tensors(warm: GpuKernel) -> None:
    for given in ((tensor(),), (tensor(), tensor(), tensor())):
        with pytest.raises(UsageError, match=f"takes 2 tensors, not {len(given)}"):
            warm(*given)
    with pytest.raises(UsageError, match="needs 1 array, not 2"):
        warm(tensor(), tensor(), out=(tensor(), tensor()))


def test_inputs_and_outputs_do_not_make_up_for_each_other(streams: dict[int, int]) -> None:
    wanted = [(sys.intern("torch.float32"), (N,))] * 4
    check = TorchTensors(sys.modules["torch"], wanted, 2, tensor().device)
    given = [tensor() for _ in range(4)]
    assert check(tuple(given[:2]), tuple(given[2:])) == tuple(given)
    assert check(tuple(given[:3]), given[3]) is None
    assert check(tuple(given[:2]), (given[2], None)) is None
    assert check(tuple(given[:2]), given[2]) is None
    made = check(tuple(given[:2]), None)
    assert made is not None and len(made) == 4


def test_quick_calls_run_on_the_gpu_and_the_stream_of_their_tensors(warm: GpuKernel) -> None:
    for _ in range(3):
        warm(tensor(index=1), tensor(index=1), out=tensor(index=1))
        warm(tensor(), tensor(), out=tensor())
    assert (gpu(0).streams, gpu(1).streams) == ([5] * 3, [6] * 3)
    assert len(warm._torch_calls) == 2


def test_launches_are_kept_for_some_addresses_and_no_tensor_is(
    quick: GpuKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_kernel, "_MOST_LAID_OUT", 4)
    kept = [[tensor(1.0), tensor(index), tensor()] for index in range(9)]
    for x, y, out in kept * 2:
        quick(x, y, out=out)
    assert all((out.array == 1.0 + y.array).all() for _, y, out in kept)
    assert len(quick._places[0]._queues) == 4
    gone = weakref.ref(kept[-1][2])
    del kept, x, y, out
    gc.collect()
    assert gone() is None


def test_descriptors_are_encoded_when_an_address_is_new(streams: dict[int, int]) -> None:
    step = launch("add", (1,), [Descriptor(Pointer(name), (N,), (1,)) for name in ("x", "y")])
    argument = Argument("tensordesc<fp32[64]>")
    artifact = fake_artifact(descriptors=({"block_size": [64]}, {"block_size": [64]}))
    abi = replace(artifact.kernels[0], arguments=(argument, argument))
    data = pack(replace(artifact, kernels=(abi,)))
    digest = hashlib.sha256(data).hexdigest()
    made = GpuKernel(PROBLEM, KernelCode(data, digest, "gpu", ABI, tuple(to_slots([step]))))
    x, y, other, out = (tensor() for _ in range(4))
    for _ in range(5):
        made(x, y, out=out)
        made.bind(x, y, out=out)()
    assert gpu().encoded == [x.data_ptr(), y.data_ptr()]
    made(x, other, out=out)
    assert other.data_ptr() in gpu().encoded
    assert len(gpu().streams) == 11


def test_threads_share_a_kernel_that_is_called_quickly(streams: dict[int, int]) -> None:
    made = kernel(
        launch("add", (8,), ["x", "y", "out", N]), launch("add", (8,), ["out", "y", "out", N])
    )

    def work(number: int) -> bool:
        x, y, out = tensor(number), tensor(1.0), tensor()
        for _ in range(100):
            made(x, y, out=out)
        return bool((out.array == number + 2.0).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(8)))
    assert len(made._torch_calls) == 1


def test_streams_do_not_share_scratch_in_quick_calls(streams: dict[int, int]) -> None:
    made = kernel(
        launch("add", (8,), ["x", "y", PARTS, N]), launch("add", (8,), [PARTS, "y", "out", N])
    )
    x, y, out = tensor(1.0), tensor(1.0), tensor()
    for streams[0] in (5, 6, 5, 6):
        made(x, y, out=out)
    assert len(gpu()._memory) == 2
    assert made.scratch_bytes == PARTS.size


def test_quick_calls_are_recorded_in_graphs(quick: GpuKernel) -> None:
    x, y, out = tensor(1.0), tensor(2.0), tensor()
    graph = gpu().capture(lambda: quick(x, y, out=out))
    assert (out.array == 0.0).all()
    graph.run()
    assert (out.array == 3.0).all()


def test_a_dropped_kernel_is_freed_though_it_was_called_quickly(streams: dict[int, int]) -> None:
    made = kernel()
    for _ in range(3):
        made(tensor(), tensor())
    del made
    gc.collect()
    free_dropped()
    assert gpu()._modules == {}


def test_pytorch_without_its_raw_stream_is_asked_for_the_stream(
    streams: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = sys.modules["torch"]
    monkeypatch.delattr(torch, "_C")
    torch.cuda.current_stream = lambda index: SimpleNamespace(cuda_stream=40 + index)  # type: ignore[attr-defined]
    made = kernel()
    for _ in range(2):
        made(tensor(), tensor())
    assert gpu().streams == [40, 40]
