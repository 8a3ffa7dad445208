"""Which errors of PyTorch mean that the GPU is lost; a refusal of a library does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from skipjack.execute.gpu.torch_bridge import TorchBridge
from skipjack.gpu import GpuError
from skipjack.testing.fake_gpu import FakeGpu


class _Somewhere:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class _OutOfMemoryError(RuntimeError):
    pass


class Faulty(FakeGpu):
    def synchronize(self, stream: int | None = None) -> None:
        raise GpuError("an illegal memory access was encountered", fault=True)


def told(gpu: FakeGpu, error: RuntimeError) -> GpuError:
    cuda = SimpleNamespace(
        ExternalStream=_Somewhere,
        device=_Somewhere,
        stream=_Somewhere,
        OutOfMemoryError=_OutOfMemoryError,
    )
    bridge = TorchBridge(SimpleNamespace(cuda=cuda), gpu)
    with pytest.raises(GpuError) as caught, bridge.working():
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("text", "fault", "memory"),
    [
        ("CUDA error: an illegal memory access was encountered", True, False),
        ("HIP error: invalid device ordinal", True, False),
        ("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`", False, False),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`", False, True),
        ("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate`", False, True),
        ("mat1 and mat2 shapes cannot be multiplied", False, False),
    ],
)
def test_a_library_that_refuses_costs_its_own_call_alone(
    text: str, fault: bool, memory: bool
) -> None:
    error = told(FakeGpu(), RuntimeError(f"{text}\nCompile with more"))
    assert (error.fault, error.out_of_memory) == (fault, memory)
    assert str(error) == text


def test_a_library_that_failed_since_the_gpu_is_lost_says_so() -> None:
    text = "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"
    assert told(Faulty(), RuntimeError(text)).fault


def test_too_little_memory_is_no_fault() -> None:
    error = told(FakeGpu(), _OutOfMemoryError("CUDA out of memory"))
    assert (error.fault, error.out_of_memory) == (False, True)
