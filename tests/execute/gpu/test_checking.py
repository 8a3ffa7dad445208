"""Results are checked on the GPU: PyTorch over the fake GPU's memory, which is the host's."""

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from skipjack.execute.gpu.checking import GpuChecker
from skipjack.execute.gpu.torch_bridge import TorchBridge
from skipjack.execute.verification import storage_of
from skipjack.operations import outputs, parse, references
from skipjack.testing.fake_gpu import FakeGpu

torch = pytest.importorskip("torch")


class HostBridge(TorchBridge):
    """The same on a machine without a GPU."""

    def __init__(self) -> None:
        self.torch = torch

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        yield

    def bytes_at(self, address: int, size: int) -> Any:
        memory = (ctypes.c_uint8 * size).from_address(address)
        return torch.frombuffer(memory, dtype=torch.uint8)

    def release(self) -> None:
        pass


BRIDGES = [pytest.param(HostBridge, id="torch"), pytest.param(lambda: None, id="host")]
KEYS = (
    "matmul:17x19x33:f16",
    "matmul:32x16x64/tb=1:f8e4m3",
    "matmul:16x16x16:tf32",
    "add:1000:bf16",
    "softmax:7x33:f16",
    "sum:9x11/axis=0:f32",
    "conv2d:n2c4h7w6k6y3x3p1q1:bf16:NHWC:fwd",
    "batchnorm:n2c3h4w4:f32",
)


def solved(checker: GpuChecker) -> dict[str, np.ndarray[Any, Any]]:
    """A right result of each output, rounded once."""
    problem = checker.problem
    exact = {name: x.astype(np.float64) for name, x in checker._inputs.on_host.items()}
    found = references(problem, exact)
    return {one.name: found[one.name].astype(storage_of(problem, one)) for one in outputs(problem)}


@pytest.mark.parametrize("make", BRIDGES)
@pytest.mark.parametrize("key", KEYS)
def test_a_right_result_is_right_and_one_wrong_element_is_named(key: str, make: Any) -> None:
    checker = GpuChecker(FakeGpu(), parse(key), make())
    arrays = checker.arrays
    checker.prepare(arrays)
    verdict = checker.verdict(arrays)
    assert not verdict.right, "nothing was written"
    right = solved(checker)
    arrays.upload(right)
    verdict = checker.verdict(arrays)
    assert verdict.right, verdict.reason
    assert verdict.error <= 1.0
    spoilt = right["out"].copy()
    at = (-1,) * spoilt.ndim
    spoilt[at] = spoilt[at].astype(np.float64) * 1.5 + 2.0
    arrays.upload({"out": spoilt})
    verdict = checker.verdict(arrays)
    last = ",".join(str(size - 1) for size in spoilt.shape)
    assert not verdict.right
    assert f"1 of {spoilt.size} elements are wrong, the first at [{last}]" in verdict.reason


@pytest.mark.parametrize("make", BRIDGES)
def test_an_input_that_changed_is_named_and_mended(make: Any) -> None:
    checker = GpuChecker(FakeGpu(), parse("add:1000:f16"), make())
    arrays = checker.arrays
    arrays.upload(solved(checker))
    arrays.upload({"y": np.zeros(1000, np.float16)})
    assert checker.verdict(arrays).reason == "changed its input y"
    assert checker.verdict(arrays).right


def test_slack_widens_what_computing_may_lose() -> None:
    checker = GpuChecker(FakeGpu(), parse("add:1000"), HostBridge())
    off = solved(checker)["out"] * np.float32(1 + 1e-6)
    checker.arrays.upload({"out": off})
    assert not checker.verdict(checker.arrays).right
    assert checker.verdict(checker.arrays, tolerance_factor=100.0).right


def test_what_overflows_where_it_is_stored_is_right() -> None:
    checker = GpuChecker(FakeGpu(), parse("exp:64:f16"), HostBridge())
    checker._judged._reference[3] = 1e6  # type: ignore[union-attr]
    result = solved(checker)
    result["out"][3] = np.inf
    checker.arrays.upload(result)
    assert checker.verdict(checker.arrays).right


def test_all_memory_is_given_back() -> None:
    gpu = FakeGpu()
    before = gpu.memory()
    checker = GpuChecker(gpu, parse("add:1000"), None)
    checker.unaligned(16)
    checker.free()
    assert gpu.memory() == before


def test_a_lost_term_of_a_long_sum_shows_on_whole_numbers() -> None:
    """With random inputs the tolerance of tf32 hides it."""
    checker = GpuChecker(FakeGpu(), parse("matmul:16x16x4096:tf32"), HostBridge())
    whole = checker.whole_numbers()
    assert whole is not None
    a, b = (whole.arrays.download(name, np.dtype("float32")) for name in "ab")
    assert set(np.unique(a)) == {-1.0, 0.0, 1.0}
    whole.arrays.upload({"out": a @ b})
    assert whole.verdict().right
    whole.arrays.upload({"out": a[:, :-1] @ b[:-1]})
    verdict = whole.verdict()
    assert not verdict.right and "on whole numbers" in verdict.reason
    inputs = checker._inputs.on_host
    checker.arrays.upload({"out": inputs["a"][:, :-1] @ inputs["b"][:-1]})
    assert checker.verdict(checker.arrays).right, "which is why there is a second check"


@pytest.mark.parametrize(
    ("key", "counted"),
    [
        ("matmul:8x8x8:f16", True),
        ("matmul:8x8x8/bias=1/beta=1:f16", True),
        ("matmul:8x8x8/act=gelu:f16", False),
        ("matmul:8x8x8/alpha=0.3:f16", False),
        ("conv2d:n2c4h7w6k6y3x3p1q1:f16:NHWC:wrw", True),
        ("add:1000:f16", False),
    ],
)
def test_sums_of_products_are_counted_and_nothing_else(key: str, counted: bool) -> None:
    checker = GpuChecker(FakeGpu(), parse(key), HostBridge())
    assert (checker.whole_numbers() is not None) == counted
    assert GpuChecker(FakeGpu(), parse(key), None).whole_numbers() is None
    checker.free()
