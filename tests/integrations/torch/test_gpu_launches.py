"""Launches on a GPU by native code, with functions of Python in the place of CUDA's driver.

What is read there is what the driver would read. Kernels themselves run where there is a GPU:
``bench/torch_gpu.py``.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from skipjack.gpu import (
    Argument,
    CudaGpu,
    Descriptor,
    Fill,
    GpuArtifact,
    KernelAbi,
    Number,
    Pointer,
    Scratch,
    TensorMap,
    launch,
)
from skipjack.gpu.cuda import LaunchConfig
from skipjack.integrations.torch.matching import (
    CallMatch,
    KernelPart,
    StubStep,
    match_call,
    read_call,
)
from skipjack.integrations.torch.selection.plans import make_gpu_plan
from skipjack.integrations.torch.stubs import (
    ARENA,
    ARGUMENT,
    FILL,
    LAUNCH,
    RESULT,
    SIGNATURES,
    STUB_STEPS,
    NativePlan,
    PlanOutput,
    PlanPlace,
    PlanStep,
    TorchBackend,
    stub_module,
)
from skipjack.native import cpu, llvm
from skipjack.operations import parse

CONTEXT, STREAM, FUNCTION = 0xC0, 0x5EA, 0xF00
PROBLEM = parse("matmul:64x64x64:f16")
META = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [32, 16], "fp4_padded": False}
_INT, _POINTER = ctypes.c_int, ctypes.c_void_p


@dataclass
class Launched:
    """What the driver was asked to launch."""

    grid: list[int]
    threads: int
    stream: int
    function: int
    values: list[int]


@dataclass
class FakeDriver:
    """Functions with C's interface that write down what they are called with."""

    current: int = CONTEXT
    code: int = 0
    arguments: int = 0
    launches: list[Launched] = field(default_factory=list)
    fills: list[tuple[int, ...]] = field(default_factory=list)
    maps: list[tuple[Any, ...]] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)

    def functions(self) -> dict[str, Any]:
        prototypes: dict[str, tuple[Any, ...]] = {
            "cuCtxGetCurrent": (self._get, _POINTER),
            "cuCtxPushCurrent_v2": (self._push, _POINTER),
            "cuCtxPopCurrent_v2": (self._pop, _POINTER),
            "cuLaunchKernelEx": (self._launch, *(_POINTER,) * 4),
            "cuMemsetD8Async": (
                *(self._fill, ctypes.c_uint64, ctypes.c_uint8, ctypes.c_size_t, _POINTER),
            ),
            "cuTensorMapEncodeTiled": (
                *(self._encode, _POINTER, _INT, ctypes.c_uint32, *(_POINTER,) * 5),
                *(_INT,) * 4,
            ),
            "aoti_torch_get_current_cuda_stream": (self._stream, ctypes.c_int32, _POINTER),
        }
        return {
            name: ctypes.CFUNCTYPE(_INT, *types)(function)
            for name, (function, *types) in prototypes.items()
        }

    def _get(self, place: int) -> int:
        ctypes.cast(place, ctypes.POINTER(_POINTER))[0] = self.current
        return 0

    def _push(self, context: int) -> int:
        self.contexts.append(f"push {context:x}")
        return 0

    def _pop(self, _: int) -> int:
        self.contexts.append("pop")
        return 0

    def _stream(self, index: int, place: int) -> int:
        ctypes.cast(place, ctypes.POINTER(_POINTER))[0] = STREAM + index
        return 0

    def _launch(self, config_at: int, function: int, values_at: int, _: object) -> int:
        config = LaunchConfig.from_address(config_at)
        places = ctypes.cast(values_at, ctypes.POINTER(ctypes.c_void_p))
        values = [ctypes.c_uint64.from_address(places[n] or 0).value for n in range(self.arguments)]
        self.launches.append(
            Launched(list(config.grid), config.block[0], config.stream, function, values)
        )
        return self.code

    def _fill(self, address: int, byte: int, size: int, stream: int) -> int:
        self.fills.append((address, byte, size, stream))
        return 0

    def _encode(self, map_at: int, element: int, rank: int, address: int, *rest: Any) -> int:
        sizes, steps, box = (
            list(ctypes.cast(at, ctypes.POINTER(kind))[:rank])
            for at, kind in zip(
                rest, (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32), strict=False
            )
        )
        self.maps.append((element, address, sizes, steps, box, rest[5]))
        ctypes.c_uint64.from_address(map_at).value = 0xABCD
        assert map_at % 64 == 0
        return 0


@pytest.fixture(scope="module")
def native() -> Iterator[tuple[FakeDriver, dict[str, int]]]:
    driver = FakeDriver()
    fakes = driver.functions()

    def address(name: str) -> int:
        found = fakes.get(name)
        return ctypes.cast(found, ctypes.c_void_p).value or 0 if found else 0

    module = stub_module(())
    loader = llvm.Loader()
    code = llvm.compile_object(module.text, cpu.target_of(cpu.detect()))
    anything = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value or 0
    imports = {"__gxx_personality_v0": anything, "_Unwind_Resume": anything}
    imports |= module.imports(address, 0)
    yield driver, loader.load_several(code, list(STUB_STEPS), imports)
    loader.close()


@pytest.fixture
def driver(native: tuple[FakeDriver, dict[str, int]]) -> FakeDriver:
    fresh = FakeDriver()
    native[0].__dict__.update(fresh.__dict__)
    return native[0]


@pytest.fixture
def functions(native: tuple[FakeDriver, dict[str, int]]) -> dict[str, int]:
    return native[1]


class LoadedStandIn:
    """A kernel on a GPU as `LoadedKernel` is, and the kernel itself."""

    def __init__(self, abi: KernelAbi, *steps: Any) -> None:
        self.gpu = object.__new__(CudaGpu)
        self.gpu._context = CONTEXT
        self.steps = steps
        self._abi = abi

    def launched(self, step: Any) -> Any:
        from skipjack.execute.gpu import LoadedKernel

        whole = object.__new__(LoadedKernel)
        whole._artifact = GpuArtifact("sm_90", (self._abi,), (b"",))
        whole._functions = {self._abi.name: FUNCTION}
        return whole.launched(step)

    def loaded(self, index: int) -> LoadedStandIn:
        return self


def planned(kernel: Any, functions: dict[str, int], index: int = 0) -> NativePlan:
    arrays = {"a": PlanPlace(ARGUMENT, 0), "b": PlanPlace(ARGUMENT, 1), "out": PlanPlace(RESULT)}
    made = PlanOutput(0, (64, 64), (64, 1), 5)
    match = CallMatch((KernelPart(PROBLEM, arrays),), (made,))
    plan = make_gpu_plan(match, {PROBLEM: kernel}, functions, index)
    assert plan is not None
    return plan


def run(step: PlanStep, addresses: dict[int, int], functions: dict[str, int]) -> int:
    """What stubs do with a step, and the code that it leaves."""
    slots = (ctypes.c_int64 * len(step.values))(*step.values)
    for slot, place in step.binds:
        slots[slot] = addresses[place]
    assert step.kernel in (functions[LAUNCH], functions[FILL])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(step.kernel)(ctypes.addressof(slots))
    return int(slots[0])


POINTERS = KernelAbi(
    *("k", "k_symbol", (Argument("*fp16", 16), Argument("*fp16"), Argument("i32"))),
    threads=128,
    hidden_pointers=1,
)


def test_a_launch_has_its_addresses_numbers_and_stream(
    driver: FakeDriver, functions: dict[str, int]
) -> None:
    step = launch("k", (7, 2), ["a", Pointer("out", 6), Number("i32", -5)])
    plan = planned(LoadedStandIn(POINTERS, step), functions, index=3)
    assert plan.device == 0x103
    assert plan.outputs[0].device_type == 1 and plan.outputs[0].device_index == 3
    assert list(plan.places) == [PlanPlace(ARGUMENT, 0), PlanPlace(RESULT, 0, 6)]
    driver.arguments = 4
    assert run(plan.steps[0], {0: 0x1000, 1: 0x2006}, functions) == 0
    (found,) = driver.launches
    assert (found.grid, found.threads) == ([7, 2, 1], 128)
    assert (found.stream, found.function) == (STREAM + 3, FUNCTION)
    assert found.values[:2] == [0x1000, 0x2006]
    assert found.values[2] & 0xFFFFFFFF == 0xFFFFFFFB
    assert found.values[3] == 0
    assert driver.contexts == []


def test_another_context_is_left_as_it_was(driver: FakeDriver, functions: dict[str, int]) -> None:
    driver.current = 0xDD
    plan = planned(LoadedStandIn(POINTERS, launch("k", (1,), ["a", "out", 1])), functions)
    assert run(plan.steps[0], {0: 0x1000, 1: 0x2000}, functions) == 0
    assert driver.contexts == ["push c0", "pop"]


def test_addresses_that_the_compiler_did_not_expect_are_not_launched(
    driver: FakeDriver, functions: dict[str, int]
) -> None:
    plan = planned(LoadedStandIn(POINTERS, launch("k", (1,), ["a", "out", 1])), functions)
    assert run(plan.steps[0], {0: 0x1008, 1: 0x2000}, functions) != 0
    assert driver.launches == []
    assert run(plan.steps[0], {0: 0x1000, 1: 0x2002}, functions) == 0


def test_what_the_driver_refuses_is_told(driver: FakeDriver, functions: dict[str, int]) -> None:
    driver.code = 700
    plan = planned(LoadedStandIn(POINTERS, launch("k", (1,), ["a", "out", 1])), functions)
    assert run(plan.steps[0], {0: 0x1000, 1: 0x2000}, functions) == 700


def test_descriptors_are_encoded_for_the_address_of_each_call(
    driver: FakeDriver, functions: dict[str, int]
) -> None:
    abi = KernelAbi(
        *("k", "k_symbol", (Argument("tensordesc<fp16[32, 16]>"), Argument("*fp16", 16))),
        threads=64,
        hidden_pointers=0,
        descriptors=(META,),
    )
    of = Descriptor(Pointer("a"), (64, 48), (48, 1))
    plan = planned(LoadedStandIn(abi, launch("k", (1,), [of, "out"])), functions)
    driver.arguments = 1
    for address in (0x1000, 0x9000):
        assert run(plan.steps[0], {0: address, 1: 0x2000}, functions) == 0
    wanted = TensorMap.of((64, 48), (48, 1), META)
    lists = list(wanted.sizes), list(wanted.steps), list(wanted.box)
    assert driver.maps == [(wanted.element, at, *lists, 3) for at in (0x1000, 0x9000)]
    assert [one.values[0] for one in driver.launches] == [0xABCD] * 2
    assert run(plan.steps[0], {0: 0x1008, 1: 0x2000}, functions) != 0


def test_what_kernels_share_is_filled_and_borrowed(
    driver: FakeDriver, functions: dict[str, int]
) -> None:
    shared, other = Scratch("sums", 5000), Scratch("more", 100)
    abi = KernelAbi("k", "k_symbol", (Argument("*fp32"), Argument("*fp32")), threads=32)
    steps = Fill(shared, 5000, 0), launch("k", (1,), [shared, other])
    plan = planned(LoadedStandIn(abi, *steps), functions)
    assert plan.arena_bytes == 3 * 4096
    assert list(plan.places) == [PlanPlace(ARENA), PlanPlace(ARENA, 0, 2 * 4096)]
    assert run(plan.steps[0], {0: 0x7000}, functions) == 0
    assert driver.fills == [(0x7000, 0, 5000, STREAM)]


def test_numbers_keep_their_bits(driver: FakeDriver, functions: dict[str, int]) -> None:
    abi = KernelAbi(
        *("k", "k_symbol", (Argument("fp32"), Argument("i64"))), threads=32, hidden_pointers=0
    )
    step = launch("k", (1,), [0.75, Number("i64", -(2**40))])
    plan = planned(LoadedStandIn(abi, step), functions)
    driver.arguments = 2
    run(plan.steps[0], {}, functions)
    first, second = driver.launches[0].values
    assert struct.unpack("<f", struct.pack("<I", first & 0xFFFFFFFF)) == (0.75,)
    assert second - 2**64 == -(2**40)


def test_what_a_cpu_has_to_do_afterwards_leaves_a_call_to_pytorch() -> None:
    after = (StubStep("add_rows_f32", (0,)),)
    match = CallMatch((), (), after=after)
    assert make_gpu_plan(match, {}, {}, 0) is None


ON_GPU = next(
    n for n, one in enumerate(SIGNATURES) if (one.name, one.backend) == ("mm", TorchBackend.CUDA)
)


@pytest.mark.parametrize(
    ("dtype", "gpu", "reason"),
    [
        (5, 1, ""),
        (15, 0, ""),
        (6, 0, "on GPUs there are only kernels for f16 and bf16"),
        (5, -1, "its tensors are on several devices"),
    ],
)
def test_which_calls_on_gpus_have_kernels(dtype: int, gpu: int, reason: str) -> None:
    call = read_call([ON_GPU, gpu, *(2, dtype, 64, 64, 64, 1) * 2])
    assert call.gpu == gpu
    found = match_call(call)
    assert (found.reason, bool(found.ways)) == (reason, not reason)


def test_the_stubs_of_gpus_are_machine_code() -> None:
    """Of all signatures; here for functions that are nowhere."""
    text = stub_module(SIGNATURES).text
    assert "_ZN2at4cuda8_softmaxERKNS_6TensorElb" in {one.function for one in SIGNATURES}
    assert llvm.compile_object(text, cpu.target_of(cpu.detect()))
