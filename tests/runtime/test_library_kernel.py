"""Where the bank says that a library is fastest, a lookup gives something that calls it."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import skipjack
from skipjack.bank import Bank, BankEntry
from skipjack.core import ParameterSpace
from skipjack.errors import UsageError
from skipjack.native import cpu
from skipjack.operations import get, parse, references
from skipjack.runtime import bank_lookup
from skipjack.runtime.local_kernels import GpuLibraryKernel, LibraryKernel
from skipjack.solvers import GpuFunctionSolver, Solver, find_solver


@pytest.fixture
def user_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    return tmp_path / "user"


def library(key: str, solver: str) -> BankEntry:
    """As a tuning banks it that no kernel has won."""
    device = cpu.detect()
    return BankEntry(
        problem=parse(key).key,
        device=device.class_key,
        device_name=device.name,
        solver=solver,
        solver_version=find_solver(solver).version,
        config={},
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=100.0,
        vendor=solver,
        speedup={},
    )


def product_arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((24, 17), np.float32), rng.random((17, 40), np.float32)


@pytest.mark.parametrize("solver", ["numpy", "cblas"])
def test_a_library_is_called_and_bound_as_a_kernel_is(user_dir: Path, solver: str) -> None:
    key = "matmul:24x40x17"
    if find_solver(solver).refuses(parse(key), cpu.detect()):
        pytest.skip(f"{solver} is not here")
    Bank.open(user_dir).put(library(key, solver))
    found = skipjack.lookup(key)
    assert isinstance(found, LibraryKernel)
    assert (found.source, found.solver, found.outputs) == ("user", solver, ("out",))
    assert solver in repr(found)
    a, b = product_arrays()
    out = np.empty((24, 40), np.float32)
    np.testing.assert_allclose(found(a, b), a @ b, rtol=1e-5)
    np.testing.assert_allclose(found(a[::-1], b), a[::-1] @ b, rtol=1e-5)
    assert found(a, b, out=out) is out
    call = found.bind(a, b, out=out)
    a *= 2
    assert call() is out and call.out is out
    with pytest.raises(ValueError, match="cannot resize"):
        b.resize((999, 999), refcheck=False)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    assert skipjack.lookup(key) is found
    assert pickle.loads(pickle.dumps(found)).solver == solver


def test_arrays_that_do_not_fit_a_library_are_refused(user_dir: Path) -> None:
    Bank.open(user_dir).put(library("matmul:24x40x17", "numpy"))
    found = skipjack.lookup("matmul:24x40x17")
    assert found is not None
    a, b = product_arrays()
    for arguments, out, says in (
        ((a,), None, "takes 2 arrays"),
        ((a, b.astype(np.float64)), None, "b must be float32"),
        ((a, b[:, :-1]), None, "b must be float32 of shape"),
        ((a, b), np.empty((24, 41), np.float32), "out must be float32 of shape"),
        ((a, b), np.empty((40, 24), np.float32).T, "out is not contiguous"),
    ):
        with pytest.raises(UsageError, match=says):
            found(*arguments, out=out)
    with pytest.raises(UsageError, match="is not contiguous, which bind"):
        found.bind(a[::-1], b)


@pytest.mark.parametrize("key", ["softmax:5x9", "sum:6x10/axis=0", "batchnorm:n4c3h5w5", "relu:7"])
def test_numpy_is_given_for_any_operation(user_dir: Path, key: str) -> None:
    Bank.open(user_dir).put(library(key, "numpy"))
    found = skipjack.lookup(key)
    assert found is not None and found.source == "user"
    rng = np.random.default_rng(0)
    problem = parse(key)
    names = [tensor.name for tensor in get(problem.operation).inputs(problem)]
    shapes = [tensor.shape for tensor in get(problem.operation).inputs(problem)]
    inputs = [rng.random(shape, np.float32) for shape in shapes]
    results = found(*inputs)
    expected = references(problem, dict(zip(names, inputs, strict=True)))
    for name, result in zip(
        found.outputs, results if len(found.outputs) > 1 else [results], strict=True
    ):
        np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-6)


def test_a_library_that_is_not_here_is_named(
    user_dir: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(find_solver("mkl")), "files", lambda _: [])
    Bank.open(user_dir).put(library("matmul:9x10x11", "mkl"))
    assert skipjack.lookup("matmul:9x10x11", strict=True) is None
    assert "mkl, which the bank names, cannot compute it: mkl is not installed" in caplog.text


def test_a_tuned_kernel_says_what_built_it(user_dir: Path) -> None:
    problem, device = parse("add:64"), cpu.detect()
    solver = find_solver("nest")
    config = dict(solver.space(problem, device).default())
    made = library("add:64", "numpy")
    Bank.open(user_dir).put(replace(made, solver="nest", config=config))
    found = skipjack.lookup("add:64")
    assert found is not None
    assert (found.source, found.solver) == ("user", "nest")


# On a GPU, with a stand-in for PyTorch


@dataclass
class _Tensor:
    shape: tuple[int, ...]
    dtype: str = "torch.float32"
    device: Any = field(default_factory=lambda: SimpleNamespace(type="cuda", index=0))
    address: int = field(default_factory=count(4096, 4096).__next__)

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.address


class _Torch:
    Tensor = _Tensor
    float32 = "torch.float32"

    def __init__(self) -> None:
        self.precision = "medium"
        self.backends = SimpleNamespace(
            cudnn=SimpleNamespace(allow_tf32=True, benchmark=False),
        )
        self.cuda = SimpleNamespace(device=self._on, current_device=lambda: 0)

    @contextmanager
    def _on(self, index: int) -> Iterator[None]:
        yield

    def empty(self, shape: tuple[int, ...], dtype: str, device: Any) -> _Tensor:
        return _Tensor(shape, dtype, device)

    def get_float32_matmul_precision(self) -> str:
        return self.precision

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.precision = precision


class _Library(Solver):
    """What `cublas` is, as far as a kernel sees it."""

    name, version, kinds = "cublas", 1, ("cuda",)

    def __init__(self, torch: _Torch) -> None:
        self._torch = torch
        self.seen: list[str] = []

    def refuses(self, problem: Any, device: Any) -> str:
        return ""

    def space(self, problem: Any, device: Any) -> ParameterSpace:
        return ParameterSpace([])

    def bind_gpu(self, problem: Any, tensors: Mapping[str, Any]) -> Callable[[], object]:
        self._torch.set_float32_matmul_precision("highest")
        self._torch.backends.cudnn.benchmark = True
        return lambda: self.seen.append(self._torch.precision)


def test_a_library_on_a_gpu_leaves_the_switches_of_pytorch_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = _Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    library = _Library(torch)
    kernel = GpuLibraryKernel(parse("matmul:8x8x8"), library)
    a = _Tensor((8, 8))
    out = kernel(a, a)
    assert isinstance(out, _Tensor) and out.shape == (8, 8)
    assert kernel.bind(a, a, out=out)() is out
    assert library.seen == ["highest", "highest"]
    cudnn = torch.backends.cudnn
    assert (torch.precision, cudnn.allow_tf32, cudnn.benchmark) == ("medium", True, False)
    with pytest.raises(
        UsageError, match="called through PyTorch: pass PyTorch tensors, not ndarray"
    ):
        kernel(np.zeros((8, 8), np.float32), a)
    with pytest.raises(UsageError, match="b must be float32 of shape"):
        kernel(a, _Tensor((8, 9)))


class _Function(_Library):
    """One that needs nothing bound."""

    def __init__(self, torch: _Torch) -> None:
        super().__init__(torch)
        self.bound = 0

    def bind_gpu(self, problem: Any, tensors: Mapping[str, Any]) -> Callable[[], object]:
        self.bound += 1
        return super().bind_gpu(problem, tensors)

    def gpu_function(self, problem: Any) -> Callable[[Mapping[str, Any]], object]:
        return lambda tensors: self.seen.append(f"{self._torch.precision} {tensors['out'].shape}")


def test_a_library_that_is_a_function_is_called_without_being_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = _Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    library = _Function(torch)
    kernel = GpuLibraryKernel(parse("matmul:8x8x8"), library)
    a = _Tensor((8, 8))
    kernel(a, a)
    assert library.seen == ["highest"], "not in the precision that the program has chosen"
    torch.precision = "highest"
    kernel.bind(a, a)
    library.bound = 0
    monkeypatch.setattr(kernel._arguments, "check", lambda *_: pytest.fail("checked at length"))
    out = _Tensor((8, 8))
    assert kernel(a, a, out=out) is out
    assert kernel(a, a).shape == (8, 8)
    assert (library.bound, library.seen[1:]) == (0, ["highest (8, 8)"] * 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (_Tensor((8, 9)), "b must be float32 of shape"),
        (_Tensor((8, 8), "torch.float64"), "b must be float32 of shape .* not float64"),
        (_Tensor((8, 8), device=SimpleNamespace(type="cpu", index=0)), "b is not on a GPU"),
        (_Tensor((8, 8), device=SimpleNamespace(type="cuda", index=1)), "on one GPU"),
        (np.zeros((8, 8), np.float32), "pass PyTorch tensors, not ndarray"),
    ],
)
def test_quick_calls_of_a_library_refuse_the_same(
    monkeypatch: pytest.MonkeyPatch, wrong: Any, says: str
) -> None:
    torch = _Torch()
    torch.precision = "highest"
    monkeypatch.setitem(sys.modules, "torch", torch)
    library = _Function(torch)
    kernel = GpuLibraryKernel(parse("matmul:8x8x8"), library)
    a = _Tensor((8, 8))
    for _ in range(2):
        kernel(a, a)
    library.seen.clear()
    with pytest.raises(UsageError, match=says):
        kernel(a, wrong)
    with pytest.raises(UsageError, match="out must not overlap an input"):
        kernel(a, a, out=a)
    with pytest.raises(UsageError, match="takes 2 tensors, not 1"):
        kernel(a)
    assert library.seen == []


@pytest.mark.parametrize(
    ("key", "solver"),
    [
        ("matmul:8x6x4", "cublas"),
        ("matmul:8x6x4/ta=1/tb=1", "cublas"),
        ("matmul:8x6x4/act=relu", "cublas"),
        ("bmm:2x8x6x4", "cublas"),
        ("softmax:5x9", "aten"),
        ("add:64", "aten"),
    ],
)
def test_the_function_of_a_library_computes_what_its_call_does(key: str, solver: str) -> None:
    torch = pytest.importorskip("torch")
    problem, library = parse(key), find_solver(solver)
    assert isinstance(library, GpuFunctionSolver)
    tensors = {
        one.name: torch.rand(one.shape)
        for one in (*get(problem.operation).inputs(problem), get(problem.operation).output(problem))
    }
    library.bind_gpu(problem, tensors)()
    expected = tensors["out"].clone()
    tensors["out"].zero_()
    function = library.gpu_function(problem)
    assert function is not None
    function(tensors)
    torch.testing.assert_close(tensors["out"], expected)
