"""Libraries on CPUs: NumPy, the matrix products of MKL and OpenBLAS, the convolutions of oneDNN."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.core import (
    Arrays,
    Device,
    DirectCall,
    NumpyDeclared,
    Operation,
    ParameterSpace,
    Problem,
    SeveralOutputs,
    unguarded,
)
from skipjack.errors import SkipjackError
from skipjack.operations import Convolution, get, references
from skipjack.solvers.solver import ResultCall, Slot, Solver

# BLAS matrix products called from native code: Intel's MKL, and the OpenBLAS in NumPy.

_ROW_MAJOR, _NO_TRANSPOSE = 101, 111


def gemm_thunk(problem: Problem, integer: str) -> str:
    """IR that calls ``cblas_?gemm``, whose address is in the first slot."""
    m, n, k = problem.shape
    scalar = {"f32": "float", "f64": "double"}[problem.dtype]
    sizes = f"{integer} {m}, {integer} {n}, {integer} {k}"
    return f"""
define void @kernel(ptr %slots) nounwind {{
entry:
  %gemm = load ptr, ptr %slots, align 8
  %p1 = getelementptr i8, ptr %slots, i64 8
  %a = load ptr, ptr %p1, align 8
  %p2 = getelementptr i8, ptr %slots, i64 16
  %b = load ptr, ptr %p2, align 8
  %p3 = getelementptr i8, ptr %slots, i64 24
  %c = load ptr, ptr %p3, align 8
  call void %gemm(i32 {_ROW_MAJOR}, i32 {_NO_TRANSPOSE}, i32 {_NO_TRANSPOSE}, {sizes},
    {scalar} 1.0, ptr %a, {integer} {k}, ptr %b, {integer} {n},
    {scalar} 0.0, ptr %c, {integer} {n})
  ret void
}}
"""


class _Blas(Solver):
    version = 1
    algorithm = "GEMM"
    integer: str

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but plain matmul on CPUs, and everything if the library is not installed."""
        if device.kind != "cpu" or problem.operation != "matmul" or problem.attributes:
            return "it is for the plain matmul on CPUs"
        # The library is not loaded here: MKL ends a process that has too little memory, which may
        # happen in a run worker only.
        return "" if self.files() else f"{self.name} is not installed"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: there is nothing to tune."""
        return ParameterSpace([])

    def files(self) -> list[Path]:
        """The files of the library; empty if it is not installed."""
        raise NotImplementedError

    def address(self, dtype: str) -> int:
        """The address of the function in this process; 0 if the library cannot be loaded."""
        raise NotImplementedError

    def thunk(self, problem: Problem) -> tuple[str, Sequence[Slot]]:
        """The call and its slots."""
        address = self.address(problem.dtype)
        if not address:
            raise SkipjackError(f"{self.name} is installed but cannot be loaded")
        return gemm_thunk(problem, self.integer), [address, "a", "b", "out"]


def _address(library: ctypes.CDLL, symbol: str) -> int:
    if not hasattr(library, symbol):
        return 0
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


class MklSolver(_Blas):
    """Intel's library, from the ``mkl`` package."""

    name = "mkl"
    integer = "i32"
    compared = True

    def files(self) -> list[Path]:
        """The files of its package, or those in this Python's lib folder."""
        in_prefix = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
        return list(dict.fromkeys([*_of_package("mkl", "libmkl_rt.so*"), *in_prefix]))

    def address(self, dtype: str) -> int:
        """``cblas_sgemm`` or ``cblas_dgemm`` on one thread."""
        library = _mkl(*self.files())
        letter = {"f32": "s", "f64": "d"}[dtype]
        return _address(library, f"cblas_{letter}gemm") if library else 0


class OpenBlasSolver(_Blas):
    """The OpenBLAS in NumPy's wheel, called without NumPy.

    It shows the overhead of NumPy's calls and is not a library that kernels must beat: programs use
    it through NumPy, which is one.
    """

    name = "cblas"
    integer = "i64"

    def files(self) -> list[Path]:
        """The files in NumPy's wheel, whose folder depends on the platform."""
        home = Path(np.__file__).parent
        folders = (home.parent / "numpy.libs", home / ".dylibs")
        return sorted(path for one in folders for path in one.glob("libscipy_openblas64*"))

    def address(self, dtype: str) -> int:
        """The 64-bit-integer interface that NumPy's wheels carry."""
        library = _first_library(*self.files())
        letter = {"f32": "s", "f64": "d"}[dtype]
        return _address(library, f"scipy_cblas_{letter}gemm64_") if library else 0


@functools.cache
def _of_package(package: str, pattern: str) -> tuple[Path, ...]:
    """Files of an installed package that match a pattern."""
    try:
        named = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        return ()
    found = {Path(os.path.normpath(one.locate())) for one in named if one.match(pattern)}
    return tuple(sorted(path for path in found if path.is_file()))


@functools.cache
def _mkl(*files: Path) -> ctypes.CDLL | None:
    library = _first_library(*files)
    if library:
        library.MKL_Set_Num_Threads(int(os.environ.get("MKL_NUM_THREADS", "1")))
    return library


@functools.cache
def _first_library(*files: Path) -> ctypes.CDLL | None:
    for path in files:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


# NumPy, the library that users would call otherwise, for every operation.


class NumpySolver(Solver):
    """The operation's NumPy call, which writes into the given output if NumPy can."""

    name = "numpy"
    version = 1
    compared = True

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse GPUs, and operations that NumPy does not have."""
        operation = get(problem.operation)
        if isinstance(operation, NumpyDeclared) and not operation.in_numpy:
            return f"NumPy has no {problem.operation}"
        return "" if device.kind == "cpu" else "NumPy computes on the CPU"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: there is nothing to tune."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """A call such as ``np.matmul(a, b, out=out)``."""
        operation = get(problem.operation)
        if isinstance(operation, DirectCall):
            return operation.numpy_call(problem, arrays)

        compute = _by_numpy(operation, problem)
        checked = False

        def assign() -> None:
            nonlocal checked
            found = compute(arrays) if checked else references(problem, arrays)
            checked = True
            for name, values in found.items():
                arrays[name][...] = values

        return assign


def _by_numpy(operation: Operation, problem: Problem) -> Callable[[Arrays], Arrays]:
    """`references` without its checks, which take longer than NumPy for small arrays."""
    if isinstance(operation, SeveralOutputs):
        every = unguarded(operation.references)
        return lambda arrays: every(problem, arrays)
    name, single = operation.output(problem).name, unguarded(operation.reference)
    return lambda arrays: {name: single(problem, arrays)}


# oneDNN's convolutions as PyTorch calls them on CPUs, to compare convolutions with.


class TorchConvolutionSolver(Solver):
    """PyTorch's convolution of CPU tensors, in all directions and both layouts.

    PyTorch chooses the implementation. In float32 it is nearly always oneDNN. oneDNN has no
    float64, for which PyTorch uses its own kernels: im2col and a matrix product.

    NCHW is PyTorch's default layout, and oneDNN reorders arrays within the call if it prefers
    another one. NHWC is `torch.channels_last`. The number of threads is PyTorch's: in a run session
    the number of the device's units.
    """

    name = "onednn"
    version = 1
    compared = True
    imports = "torch"

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but convolutions on CPUs; looks for PyTorch without loading it."""
        if not isinstance(get(problem.operation), Convolution):
            return "it is for convolutions"
        if device.kind != "cpu":
            return "it is for CPUs"
        return "" if importlib.util.find_spec("torch") else "torch is not installed"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: there is nothing to tune."""
        return ParameterSpace([])

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """The call on tensors that share the arrays' memory.

        It is a `ResultCall`: PyTorch has no convolution that writes into a given output.
        """
        torch = importlib.import_module("torch")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return convolution_call(torch, problem, tensors)


def convolution_call(torch: Any, problem: Problem, stored: Mapping[str, Any]) -> ResultCall:
    """PyTorch's convolution of tensors as they are stored, on any device."""
    operation = get(problem.operation)
    assert isinstance(operation, Convolution), "refused before"
    last = operation.geometry(problem).channels_last
    # Channels are PyTorch's second axis, whatever their position in memory.
    tensors = {name: one.movedim(-1, 1) if last else one for name, one in stored.items()}
    place = {"fwd": None, "bwd": 0, "wrw": 1}[problem.direction or "fwd"]

    def store(found: Any) -> None:
        tensors["out"].copy_(found if place is None else found[place])

    return ResultCall(_compute(torch, operation, problem, tensors), store)


def _compute(
    torch: Any, operation: Convolution, problem: Problem, tensors: Mapping[str, Any]
) -> Callable[[], Any]:
    """The timed call. Gradients are returned as a tuple, whose other parts are not computed."""
    geometry = operation.geometry(problem)
    axes = geometry.axes[-geometry.spatial :]
    how = (
        [axis.stride for axis in axes],
        [axis.pad for axis in axes],
        [axis.dilation for axis in axes],
        operation.transposed,
        [axis.image + 2 * axis.pad - axis.padded if operation.transposed else 0 for axis in axes],
        geometry.groups,
    )
    if problem.direction in ("", "fwd"):
        return partial(torch.convolution, tensors["x"], tensors["w"], None, *how)
    # Only shape and layout of the array whose gradient is computed matter: the output has both.
    x, w = tensors.get("x", tensors["out"]), tensors.get("w", tensors["out"])
    backward = torch.ops.aten.convolution_backward.default
    requested = [problem.direction == "bwd", problem.direction == "wrw", False]
    return partial(backward, tensors["dy"], x, w, None, *how, requested)
