"""A library's call as a kernel: the result of `lookup` if the bank says that a library is fastest.

NumPy, MKL and oneDNN work on NumPy arrays; cuBLAS, cuDNN and others through PyTorch on its tensors.
It is called and bound like a tuned kernel, with the same checks of its arguments.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skipjack.core import ABI, Device, Problem
from skipjack.errors import UsageError
from skipjack.native import cpu, keep_in_place, llvm
from skipjack.runtime.local_kernels.arguments import Array, KernelArguments, Out
from skipjack.runtime.local_kernels.kernel import Again, KernelCode, TunedKernel, pickled
from skipjack.solvers import (
    GpuFunctionSolver,
    GpuVendorSolver,
    NativeVendorSolver,
    Solver,
    VendorSolver,
    find_solver,
)

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels.gpu_arguments import TorchTensors


_EXACT, _FAST = "highest", "high"


class BoundLibraryCall:
    """A library's call on checked arrays; each call computes into the same outputs."""

    __slots__ = ("_call", "_keep", "out")

    def __init__(self, call: Callable[[], object], out: Any, keep: object = None) -> None:
        """`keep` is kept alive as long as the bound call."""
        self._call, self._keep = call, keep
        self.out = out
        """The output, or a tuple of all outputs."""

    def __reduce__(self) -> str:
        raise UsageError(
            "a bound call belongs to its arrays in this process and cannot be pickled; pickle "
            "the kernel, and bind it where it is used"
        )

    def __call__(self) -> Any:
        """Compute from the current contents of the inputs; returns `out`."""
        self._call()
        return self.out


class LibraryKernel:
    """Call it with the inputs in order; it returns the output, or writes into ``out=``."""

    source = ""
    """The step of the lookup that found it; empty if it is not from a lookup."""

    def __init__(self, problem: Problem, solver: Solver, again: Again | None = None) -> None:
        self.problem, self.solver = problem, solver.name
        self._library, self._again = solver, again

    def __reduce__(self) -> Again:
        return pickled(self.problem, self._again)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.problem.key} by {self.solver}>"


class CpuLibraryKernel(LibraryKernel):
    """A library's call on NumPy arrays."""

    def __init__(self, problem: Problem, solver: Solver, again: Again | None = None) -> None:
        super().__init__(problem, solver, again)
        self._arguments = KernelArguments(problem)
        self._native = None
        if isinstance(solver, NativeVendorSolver):
            self._native = _through_c(problem, solver)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, the main one first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Array, out: Out = None) -> Any:
        """Compute; returns the output, or a tuple of arrays if there are several."""
        if self._native is not None:
            return self._native(*inputs, out=out)
        return self._bound(inputs, out, copies=True)()

    def bind(self, *inputs: Array, out: Out = None) -> Any:
        """A call on exactly these arrays, checked once."""
        if self._native is not None:
            return self._native.bind(*inputs, out=out)
        return self._bound(inputs, out, copies=False)

    def _bound(self, inputs: tuple[Array, ...], out: Out, copies: bool) -> BoundLibraryCall:
        arrays = self._arguments.arrays(inputs, out, copies)
        shaped = {
            tensor.name: arrays[tensor.name].view(np.ndarray).reshape(tensor.shape)
            for tensor in (*self._arguments.inputs, *self._arguments.outputs)
        }
        assert isinstance(self._library, VendorSolver), "chosen by `library_kernel`"
        call = self._library.bind(self.problem, shaped)
        result = self._arguments.result(arrays, inputs, out)
        return BoundLibraryCall(call, result, keep_in_place(arrays.values()))


class GpuLibraryKernel(LibraryKernel):
    """A library's call on PyTorch tensors on a GPU, queued on PyTorch's current stream."""

    def __init__(self, problem: Problem, solver: Solver, again: Again | None = None) -> None:
        from skipjack.runtime.local_kernels.gpu_arguments import GpuArguments

        super().__init__(problem, solver, again)
        self._arguments = GpuArguments(problem)
        self._torch: Any = importlib.import_module("torch")
        self._function: Callable[[Mapping[str, Any]], object] | None = None
        if isinstance(solver, GpuFunctionSolver):
            self._function = solver.gpu_function(problem)
        self._precision = {"f32": _EXACT, "tf32": _FAST}.get(problem.dtype)
        """PyTorch's precision of float32 products; None for other dtypes."""
        self._checks: tuple[TorchTensors, ...] = ()
        """One for each GPU on which it was called."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, the main one first."""
        return self._arguments.output_names

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """Compute; returns the output, or a tuple of tensors if there are several."""
        function, precision = self._function, self._precision
        if function is None or (
            precision and self._torch.get_float32_matmul_precision() != precision
        ):
            return self.bind(*inputs, out=out)()
        for check in self._checks:
            arrays = check(inputs, out)
            if arrays is not None:
                if out is not None:
                    self._arguments.check_apart([array.data_ptr() for array in arrays])
                tensors = dict(zip(self._arguments.names, arrays, strict=True))
                function(tensors)
                return self._arguments.result(tensors)
        return self.bind(*inputs, out=out)()

    def bind(self, *inputs: Any, out: Any = None) -> BoundLibraryCall:
        """A call on exactly these tensors, checked once."""
        from skipjack.runtime.local_kernels.gpu_arguments import index_of

        for array in inputs:
            if not isinstance(array, self._torch.Tensor):
                raise UsageError(
                    f"{self.solver} is called through PyTorch: pass PyTorch tensors, not "
                    f"{type(array).__name__}"
                )
        tensors = self._arguments.tensors(inputs, out)
        index = index_of(self._arguments.check(tensors), 0)
        result = self._arguments.result(tensors)
        self._remember(tuple(tensors.values()))
        if self._function is not None and self._precision is None:
            return BoundLibraryCall(functools.partial(self._function, tensors), result)
        assert isinstance(self._library, GpuVendorSolver), "chosen by `library_kernel`"
        before = self._switches()
        try:
            call = self._library.bind_gpu(self.problem, tensors)
            # TF32 matters for these two types only, and cuDNN for convolutions only.
            asked = self.problem.dtype in ("f32", "tf32") or self.solver == "cudnn"
            timed = self._switches() if asked else None
        finally:
            self._switch(before)
        torch = self._torch

        def run() -> None:
            if torch.cuda.current_device() != index:
                with torch.cuda.device(index):
                    self._run(call, timed)
            else:
                self._run(call, timed)

        return BoundLibraryCall(run, result)

    def _remember(self, arrays: tuple[Any, ...]) -> None:
        """Check tensors like these quickly from now on."""
        check = self._arguments.torch_tensors(arrays)
        if check and all(known.device != check.device for known in self._checks):
            self._checks = (*self._checks, check)

    def _run(self, call: Callable[[], object], timed: _Switches | None) -> None:
        """Call with PyTorch's settings of the measurement, then restore the program's own."""
        before = timed and self._switches()
        if before == timed:
            call()
            return
        assert before is not None and timed is not None
        self._switch(timed)
        try:
            call()
        finally:
            self._switch(before)

    def _switches(self) -> _Switches:
        torch = self._torch
        cudnn = torch.backends.cudnn
        return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.benchmark

    def _switch(self, to: _Switches) -> None:
        cudnn = self._torch.backends.cudnn
        self._torch.set_float32_matmul_precision(to[0])
        cudnn.allow_tf32, cudnn.benchmark = to[1:]


_Switches = tuple[str, bool, bool]
"""Precision of float32 products, whether cuDNN may use TF32, whether it benchmarks algorithms."""


def library_kernel(
    name: str, problem: Problem, device: Device, again: Again | None = None
) -> CpuLibraryKernel | GpuLibraryKernel | None:
    """A library's call for a problem on a device; None if it cannot be called from Python.

    The library must support the problem.
    """
    solver = find_solver(name)
    on_cpu = device.kind == "cpu"
    if on_cpu and isinstance(solver, NativeVendorSolver | VendorSolver):
        return CpuLibraryKernel(problem, solver, again)
    if not on_cpu and isinstance(solver, GpuVendorSolver):
        return GpuLibraryKernel(problem, solver, again)
    return None


def _through_c(problem: Problem, solver: NativeVendorSolver) -> TunedKernel:
    """A tiny kernel that calls the library's C function."""
    text, slots = solver.thunk(problem)
    data = llvm.compile_object(text, cpu.target_of(cpu.detect()))
    digest = hashlib.sha256(data).hexdigest()
    return TunedKernel(problem, KernelCode(data, digest, "kernel", ABI, tuple(slots)))
