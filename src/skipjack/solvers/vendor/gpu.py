"""The libraries to compare with on GPUs, called through PyTorch: cuBLAS, cuDNN, PyTorch's kernels.

On AMD's GPUs the same calls reach rocBLAS or hipBLASLt and MIOpen. Only `bind_gpu` and
`gpu_function`, which run on the machine with the GPU, load PyTorch.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skipjack.core import DTYPES, Device, ParameterSpace, Problem
from skipjack.operations import Convolution, MatmulAttributes, get
from skipjack.solvers.solver import ResultCall, Solver
from skipjack.solvers.vendor.cpu import convolution_call
from skipjack.solvers.vendor.torch_functions import (
    has_function,
    is_product,
    product_function,
    vector_function,
)

_FP8 = ("f8e4m3", "f8e5m2")
_ROUNDED_PARTS = 64.0
"""Tolerance factor relative to sums in float32, which users of the library accept."""


class _TorchGpuSolver(Solver):
    version = 1
    compared = True
    imports = "torch"
    kinds: Sequence[str] = ("cuda", "hip")
    dtypes: Sequence[str] = ("f16", "bf16", "f32", "tf32", "f64")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse everything if PyTorch is not installed, which is checked without loading it."""
        reason = self._refuses(problem)
        if reason:
            return reason
        return "" if importlib.util.find_spec("torch") else "torch is not installed"

    def tolerance_factor(self, problem: Problem) -> float:
        """By default, and undocumented, libraries may round parts of a sum to 16 bits."""
        return _ROUNDED_PARTS if DTYPES[problem.dtype].is_narrow else 1.0

    @abstractmethod
    def _refuses(self, problem: Problem) -> str:
        """Why the library cannot compute the problem; empty if it can."""

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: there is nothing to tune."""
        return ParameterSpace([])

    def bind_gpu(self, problem: Problem, tensors: Mapping[str, Any]) -> Callable[[], object]:
        """The call on these tensors, with the precision of the problem's type."""
        torch = importlib.import_module("torch")
        fast = problem.dtype == "tf32"
        torch.set_float32_matmul_precision("high" if fast else "highest")
        torch.backends.cudnn.allow_tf32 = fast
        return self._bind(torch, problem, tensors)

    @abstractmethod
    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        """The call."""


class CublasSolver(_TorchGpuSolver):
    """``torch.matmul`` and its relatives, such as addmm and baddbmm for additions.

    Products of 8-bit types are ``torch._scaled_mm`` with scales of 1, which requires the second
    operand in column-major order.
    """

    name = "cublas"
    algorithm = "GEMM"
    dtypes = ("f16", "bf16", "f32", "tf32", "f64", "f8e4m3")

    def _refuses(self, problem: Problem) -> str:
        if not is_product(problem):
            return "it is for matrix products"
        if problem.dtype not in _FP8:
            return ""
        settings = MatmulAttributes.of(problem)
        if problem.operation != "matmul" or not settings.tb or settings.ta:
            return "its 8-bit products need the second operand transposed (tb=1), and only that"
        if settings.beta or settings.bias or settings.act != "none" or settings.alpha != 1.0:
            return "its 8-bit products have no epilogue"
        if any(size % 16 for size in problem.shape):
            return "its 8-bit products need sizes that are multiples of 16"
        return ""

    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        if problem.dtype in _FP8:
            return _scaled_product(torch, tensors)
        settings = MatmulAttributes.of(problem)
        a = tensors["a"].mT if settings.ta else tensors["a"]
        b = tensors["b"].mT if settings.tb else tensors["b"]
        if len(tensors) == 3 and settings.alpha == 1.0 and settings.act == "none":
            return functools.partial(torch.matmul, a, b, out=tensors["out"])
        compute = product_function(torch, problem)
        return ResultCall(lambda: compute(tensors), tensors["out"].copy_)

    def gpu_function(self, problem: Problem) -> Callable[[Mapping[str, Any]], object] | None:
        """The function for all types except the 8-bit ones."""
        if problem.dtype in _FP8:
            return None
        torch: Any = importlib.import_module("torch")
        matmul, compute = torch.matmul, product_function(torch, problem)
        settings = MatmulAttributes.of(problem)
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
    """PyTorch's convolution in all directions and layouts, with cuDNN's benchmark mode on."""

    name = "cudnn"

    def _refuses(self, problem: Problem) -> str:
        return "" if isinstance(get(problem.operation), Convolution) else "it is for convolutions"

    def _bind(self, torch: Any, problem: Problem, tensors: Mapping[str, Any]) -> ResultCall | Any:
        torch.backends.cudnn.benchmark = True
        return convolution_call(torch, problem, tensors)


class AtenSolver(_TorchGpuSolver):
    """PyTorch's own kernels in eager mode, for elementwise operations, reductions and rows."""

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
        """The function of any supported operation."""
        function = vector_function(importlib.import_module("torch"), problem)
        assert function is not None, "refused before"
        return lambda tensors: _store(tensors, function(tensors))


def _store(tensors: Mapping[str, Any], found: dict[str, Any]) -> None:
    for name, value in found.items():
        tensors[name].copy_(value)
