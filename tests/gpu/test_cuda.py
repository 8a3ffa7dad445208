"""Structures as ``cuda.h`` has them, and what is asked of the driver."""

import ctypes
import struct
from typing import Any

import numpy as np
import pytest
from stand_in_library import StandIn, chosen, put, succeed, words

from skipjack.gpu import CudaGpu, GpuError, LaunchShape, launch_config
from skipjack.gpu.cuda import CudaDriver, LaunchAttribute, LaunchConfig
from skipjack.gpu.stream import Arguments

ATTRIBUTES = {16: 132, 38: 50 << 20, 75: 9, 76: 0, 97: 227 << 10}


def library(**actions: Any) -> StandIn:
    return StandIn(
        **{
            "cuDriverGetVersion": put(13010),
            "cuDeviceGetCount": put(2),
            "cuDeviceGetName": put(b"NVIDIA Test"),
            "cuDeviceTotalMem_v2": put(80 << 30),
            "cuDeviceGetAttribute": chosen(ATTRIBUTES),
            "cuGetErrorName": words(b"CUDA_ERROR_TEST"),
            "cuGetErrorString": words(b"it was a test"),
            **actions,
        }
    )


def opened(**actions: Any) -> tuple[CudaGpu, StandIn]:
    handle = library(**actions)
    return CudaDriver(handle).open(0), handle


def test_structures_have_the_sizes_of_the_header() -> None:
    assert ctypes.sizeof(LaunchConfig) == 56
    assert ctypes.sizeof(LaunchAttribute) == 72
    assert LaunchAttribute.value.offset == 8
    offsets = [
        getattr(LaunchConfig, field).offset
        for field in ("grid", "block", "shared_bytes", "stream", "attributes", "attribute_count")
    ]
    assert offsets == [0, 12, 24, 32, 40, 48]


def test_a_plain_launch_has_no_attributes() -> None:
    config = launch_config(LaunchShape((3, 4, 5), 128, 1000), 0x77)
    assert (list(config.grid), list(config.block)) == ([3, 4, 5], [128, 1, 1])
    assert (config.shared_bytes, config.stream, config.attribute_count) == (1000, 0x77, 0)


def test_clusters_multiply_the_grid_and_flags_are_attributes() -> None:
    shape = LaunchShape((3, 4, 5), 128, cluster=(2, 1, 1), cooperative=True, dependent=True)
    config = launch_config(shape, 0)
    assert list(config.grid) == [6, 4, 5]
    found = {one.id: list(one.value[:3]) for one in config.attributes[: config.attribute_count]}
    assert found == {6: [1, 0, 0], 2: [1, 0, 0], 4: [2, 1, 1], 5: [1, 0, 0]}


def test_arguments_lie_where_descriptors_may() -> None:
    values = [struct.pack("<Q", 7), b"\x01" * 128, struct.pack("<i", -3), b""]
    addresses = [int(address or 0) for address in Arguments(values).addresses]
    kept = Arguments(values)
    for address, value in zip(kept.addresses, values, strict=True):
        assert ctypes.string_at(address, len(value)) == value
    assert all(address % 128 == 0 for address in addresses)
    assert list(Arguments([]).addresses) == [None]
    with pytest.raises(GpuError, match="has more than 128 bytes"):
        Arguments([b"\x01" * 129, b""])


def test_gpus_are_described_without_a_context() -> None:
    handle = library()
    driver = CudaDriver(handle)
    assert driver.version() == (13, 1)
    first, second = driver.devices()
    assert (first.kind, first.name, first.model) == ("cuda", "sm_90/132", "NVIDIA Test")
    assert dict(first.caches) == {"shared": 227 << 10, "L2": 50 << 20}
    assert first.memory_bytes == 80 << 30
    assert len(second.serial) == 36
    assert not handle.named("cuDevicePrimaryCtxRetain")


def test_no_gpu_is_a_sentence() -> None:
    with pytest.raises(GpuError, match=r"CUDA refused cuInit: it was a test \(CUDA_ERROR_TEST\)"):
        CudaDriver(library(cuInit=100))


@pytest.mark.parametrize(
    ("code", "fault", "memory"),
    [
        *[(code, True, False) for code in (700, 702, 710, 716, 719, 999)],
        *[(code, False, False) for code in (1, 500, 701, 720)],
        (2, False, True),
    ],
)
def test_errors_say_whether_the_context_is_lost(code: int, fault: bool, memory: bool) -> None:
    gpu, _ = opened(cuStreamSynchronize=code)
    with pytest.raises(GpuError) as caught:
        gpu.synchronize()
    assert (caught.value.fault, caught.value.out_of_memory) == (fault, memory)
    assert "\n" not in str(caught.value)


def test_too_little_memory_says_how_much_there_is() -> None:
    gpu, _ = opened(cuMemAlloc_v2=2)
    with pytest.raises(GpuError, match="12345 bytes were requested; sm_90/132") as caught:
        gpu.allocate(12345)
    assert caught.value.out_of_memory


@pytest.mark.parametrize("code", [200, 209, 222])
def test_a_binary_for_something_else_is_refused_in_a_sentence(code: int) -> None:
    gpu, _ = opened(cuModuleLoadData=code)
    with pytest.raises(GpuError, match="cannot be loaded on sm_90: it is damaged, for another GPU"):
        gpu.load(b"binary")


def test_a_driver_without_a_function_is_too_old() -> None:
    class Old(StandIn):
        def __getattr__(self, name: str) -> Any:
            if name == "cuLaunchKernelEx":
                raise AttributeError(name)
            return super().__getattr__(name)

    gpu = CudaDriver(Old(cuDeviceGetAttribute=chosen(ATTRIBUTES))).open(0)
    with pytest.raises(GpuError, match="has no cuLaunchKernelEx: install a newer"):
        gpu.launch(1, LaunchShape((1, 1, 1), 32), [])


def test_large_shared_memory_is_asked_for_and_more_than_there_is_refused() -> None:
    gpu, handle = opened()
    gpu.function(1, "kernel", 1000)
    assert not handle.named("cuFuncSetAttribute")
    gpu.function(1, "kernel", 200_000)
    assert handle.named("cuFuncSetAttribute") == [(0x1000, 8, 200_000)]
    with pytest.raises(GpuError, match="needs 300000 bytes of shared memory"):
        gpu.function(1, "kernel", 300_000)


def test_copies_are_on_the_stream_and_waited_for() -> None:
    gpu, handle = opened()
    gpu.upload(5, np.zeros(4, np.float32))
    last = [name for name, _ in handle.calls if name != "cuCtxGetCurrent"][-2:]
    assert last == ["cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"]
    with pytest.raises(GpuError, match="contiguous"):
        gpu.upload(5, np.zeros((4, 4), np.float32)[:, ::2])


def test_work_goes_to_the_stream_that_is_given() -> None:
    gpu, handle = opened()
    gpu.fill(1, 0, 8, 0x77)
    gpu.copy(1, 2, 8, 0)
    gpu.fill(1, 0, 8)
    gpu.launch(9, LaunchShape((1, 1, 1), 32), [], 0x77)
    assert [words[-1] for words in handle.named("cuMemsetD8Async")] == [0x77, gpu.stream]
    assert [words[-1] for words in handle.named("cuMemcpyDtoDAsync_v2")] == [0]
    ((config, *_),) = handle.named("cuLaunchKernelEx")
    assert config._obj.stream == 0x77


@pytest.mark.parametrize("current", [0, 0x2000])
@pytest.mark.parametrize("code", [0, 700])
def test_the_context_that_was_current_is_so_again(current: int, code: int) -> None:
    gpu, handle = opened(cuCtxGetCurrent=put(current), cuMemsetD8Async=code)
    handle.calls.clear()
    if code:
        with pytest.raises(GpuError, match="cuMemsetD8Async"):
            gpu.fill(1, 0, 8)
    else:
        gpu.fill(1, 0, 8)
    assert [name for name, _ in handle.calls if name.startswith(("cuCtx", "cuMem"))] == [
        *("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuMemsetD8Async", "cuCtxPopCurrent_v2")
    ]


def test_memory_is_lent_beside_somebodys_capture() -> None:
    gpu, handle = opened()
    handle.calls.clear()
    gpu.allocate(8)
    names = [name for name, _ in handle.calls if name != "cuCtxGetCurrent"]
    mode = "cuThreadExchangeStreamCaptureMode"
    assert names == [mode, "cuMemAlloc_v2", mode]


def test_a_failure_while_recording_frees_the_stream() -> None:
    gpu, handle = opened()

    def fail() -> None:
        raise ValueError("in between")

    with pytest.raises(ValueError, match="in between"):
        gpu.capture(fail)
    assert len(handle.named("cuStreamEndCapture")) == 1
    assert not handle.named("cuGraphInstantiateWithFlags")


def test_a_graph_runs_on_the_stream_until_it_is_closed() -> None:
    gpu, handle = opened()
    graph = gpu.capture(lambda: gpu.fill(1, 0, 8))
    graph.run()
    graph.close()
    graph.close()
    assert handle.named("cuGraphLaunch") == [(0x1000, gpu.stream)]
    assert len(handle.named("cuGraphExecDestroy")) == 1


META = {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [128, 64], "fp4_padded": False}


def test_descriptors_are_filled_as_tritons_launcher_does() -> None:
    seen: list[Any] = []

    def encode(place: int, *rest: Any) -> int:
        seen.extend(list(one) if isinstance(one, ctypes.Array) else one for one in rest)
        ctypes.memset(place, 0xAB, 128)
        assert place % 64 == 0
        return succeed()

    gpu, _ = opened(cuTensorMapEncodeTiled=encode)
    assert gpu.tensor_map(0x4000, (512, 256), (300, 1), META) == b"\xab" * 128
    bfloat16 = 9
    assert seen[:3] == [bfloat16, 2, 0x4000]
    assert seen[3:7] == [[256, 512], [600, 600 * 512], [64, 128], [1, 1]]
    assert seen[7:] == [0, 3, 2, 0]


def test_a_descriptor_that_cannot_be_says_why() -> None:
    gpu, _ = opened(cuTensorMapEncodeTiled=1)
    with pytest.raises(GpuError, match="stride must be 1"):
        gpu.tensor_map(0, (512, 256), (1, 512), META)
    with pytest.raises(GpuError, match=r"no descriptor for shape \[512, 256\].*it was a test"):
        gpu.tensor_map(0, (512, 256), (256, 1), META)


def test_a_launch_that_is_laid_out_is_two_calls_of_the_driver() -> None:
    gpu, handle = opened()
    shape = LaunchShape((3, 4, 5), 128, cluster=(16, 1, 1))
    queue = gpu.launcher(9, shape, [struct.pack("<Q", 7), b"\x01" * 128], 0x77)
    large_clusters = (9, 14, 1)
    assert handle.named("cuFuncSetAttribute") == [large_clusters]
    handle.calls.clear()
    for _ in range(2):
        queue()
    assert [name for name, _ in handle.calls] == ["cuCtxGetCurrent", "cuLaunchKernelEx"] * 2
    config, function, addresses, extra = handle.named("cuLaunchKernelEx")[0]
    assert (config._obj.stream, list(config._obj.grid), function) == (0x77, [48, 4, 5], 9)
    assert [ctypes.string_at(addresses[0], 8), extra] == [struct.pack("<Q", 7), None]
    assert ctypes.string_at(addresses[1], 128) == b"\x01" * 128


@pytest.mark.parametrize("code", [0, 700])
def test_a_launch_leaves_the_context_that_was_current(code: int) -> None:
    gpu, handle = opened(cuCtxGetCurrent=put(0x2000), cuLaunchKernelEx=code)
    queue = gpu.launcher(9, LaunchShape((1, 1, 1), 32), [])
    handle.calls.clear()
    if code:
        with pytest.raises(
            GpuError, match="CUDA refused cuLaunchKernelEx: it was a test"
        ) as caught:
            queue()
        assert caught.value.fault
    else:
        queue()
    assert [name for name, _ in handle.calls if not name.startswith("cuGetError")] == [
        *("cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLaunchKernelEx", "cuCtxPopCurrent_v2")
    ]


def test_a_driver_that_is_lost_as_in_a_forked_process_launches_nothing() -> None:
    codes = [0]

    def current(place: Any) -> int:
        place._obj.value = 0x1000
        return codes[-1]

    gpu, handle = opened(cuCtxGetCurrent=current)
    queue = gpu.launcher(9, LaunchShape((1, 1, 1), 32), [])
    codes.append(3)
    with pytest.raises(GpuError, match="CUDA refused cuCtxGetCurrent: it was a test"):
        queue()
    assert not handle.named("cuLaunchKernelEx")
