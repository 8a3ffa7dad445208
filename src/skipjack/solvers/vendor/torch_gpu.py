"""The libraries to beat on GPUs, as PyTorch calls them: cuBLAS, cuDNN, and PyTorch's own kernels.

On AMD's GPUs the same calls reach rocBLAS or hipBLASLt and MIOpen. Nothing here loads PyTorch but
`bind_gpu`, which a run worker calls where the GPU is.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skipjack.core.device import Device
from skipjack.core.dtypes import DTYPES
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.convolution import Convolution
from skipjack.operations.matmul import Settings
from skipjack.solvers.solver import ResultCall, Solver
from skipjack.solvers.vendor.torch_functions import (
    has_function,
    is_product,
    product_function,
    vector_function,
)
from skipjack.solvers.vendor.torch_solver import convolution_call

_FP8 = ("f8e4m3", "f8e5m2")
_ROUNDED_PARTS = 64.0
"""Times the bound of sums in float32: what users of the library put up with."""


class _TorchGpuSolver(Solver):
    version = 1
    compared = True
    imports = "torch"
    kinds: Sequence[str] = ("cuda", "hip")
    dtypes: Sequence[str] = ("f16", "bf16", "f32", "tf32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """GPUs, where PyTorch is. Looks for it without loading it."""
        reason = self._refuses(problem)
        if reason:
            return reason
        return "" if importlib.util.find_spec("torch") else "torch is not installed"

    def slack(self, problem: Problem) -> float:
        """Libraries may round parts of a sum to 16 bits, by default and without saying so."""
        return _ROUNDED_PARTS if DTYPES[problem.dtype].is_narrow else 1.0

    @abstractmethod
    def _refuses(self, problem: Problem) -> str:
        """Why it cannot do the problem."""

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def bind_gpu(self, problem: Problem, tensors: Mapping[str, Any]) -> Callable[[], object]:
        """The call on these tensors, in the precision that the problem's type stands for."""
        torch = importlib.import_module("torch")
        fast = problem.dtype == "tf32"
        torch.set_float32_matmul_precision("high" if fast else "highest")
        torch.backends.cudnn.allow_tf32 = fast
        return self._bind(torch, problem, tensors)

    @abstractmethod
    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        """The call."""


class CublasSolver(_TorchGpuSolver):
    """``torch.matmul`` and its relatives: addmm and baddbmm for what they can add.

    Products of 8-bit types are ``torch._scaled_mm`` with scales of 1, which wants the second
    operand stored by columns.
    """

    name = "cublas"
    algorithm = "GEMM"
    dtypes = ("f16", "bf16", "f32", "tf32", "f64", "f8e4m3")

    def _refuses(self, problem: Problem) -> str:
        if not is_product(problem):
            return "it is for matrix products"
        if problem.dtype not in _FP8:
            return ""
        settings = Settings.of(problem)
        if problem.operation != "matmul" or not settings.tb or settings.ta:
            return "its 8-bit products want the second operand transposed (tb=1), and only that"
        if settings.beta or settings.bias or settings.act != "none" or settings.alpha != 1.0:
            return "its 8-bit products have no epilogue here"
        if any(size % 16 for size in problem.shape):
            return "its 8-bit products want sizes that are multiples of 16"
        return ""

    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        if problem.dtype in _FP8:
            return _scaled_product(torch, tensors)
        settings = Settings.of(problem)
        a = tensors["a"].mT if settings.ta else tensors["a"]
        b = tensors["b"].mT if settings.tb else tensors["b"]
        if len(tensors) == 3 and settings.alpha == 1.0 and settings.act == "none":
            return functools.partial(torch.matmul, a, b, out=tensors["out"])
        compute = product_function(torch, problem)
        return ResultCall(lambda: compute(tensors), tensors["out"].copy_)

    def gpu_function(self, problem: Problem) -> Callable[[Mapping[str, Any]], object] | None:
        """Products of all types but the 8-bit ones."""
        if problem.dtype in _FP8:
            return None
        torch: Any = importlib.import_module("torch")
        matmul, compute = torch.matmul, product_function(torch, problem)
        settings = Settings.of(problem)
        plain = len(get(problem.operation).inputs(problem)) == 2
        if not plain or settings.alpha != 1.0 or settings.act != "none":
            return lambda tensors: tensors["out"].copy_(compute(tensors))
        ta, tb = settings.ta, settings.tb

        def multiply(tensors: Mapping[str, Any]) -> None:
            a, b = tensors["a"], tensors["b"]
            matmul(a.mT if ta else a, b.mT if tb else b, out=tensors["out"])

        return multiply


def _scaled_product(torch: Any, tensors: Mapping[str, Any]) -> ResultCall:
    a, b, out = tensors["a"], tensors["b"].mT, tensors["out"]
    one = torch.ones((), device=a.device)
    multiply = functools.partial(
        torch._scaled_mm, a, b, scale_a=one, scale_b=one, out_dtype=out.dtype
    )
    return ResultCall(multiply, out.copy_)


class CudnnSolver(_TorchGpuSolver):
    """PyTorch's convolution in all directions and both layouts, with cuDNN's own benchmark on."""

    name = "cudnn"

    def _refuses(self, problem: Problem) -> str:
        return "" if isinstance(get(problem.operation), Convolution) else "it is for convolutions"

    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        torch.backends.cudnn.benchmark = True
        return convolution_call(torch, problem, tensors)


class AtenSolver(_TorchGpuSolver):
    """PyTorch's own kernels in eager mode, for what works element by element or by rows."""

    name = "aten"
    dtypes = ("f16", "bf16", "f32", "f64")

    def _refuses(self, problem: Problem) -> str:
        if is_product(problem) or not has_function(problem):
            return "it is for elementwise operations, reductions and normalisations"
        return ""

    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        function = vector_function(torch, problem)
        assert function is not None, "refused before"
        return ResultCall(lambda: function(tensors), functools.partial(_store, tensors))

    def gpu_function(self, problem: Problem) -> Callable[[Mapping[str, Any]], object] | None:
        """All of them."""
        function = vector_function(importlib.import_module("torch"), problem)
        assert function is not None, "refused before"
        return lambda tensors: _store(tensors, function(tensors))


def _store(tensors: Mapping[str, Any], found: dict[str, Any]) -> None:
    for name, value in found.items():
        tensors[name].copy_(value)
