"""BLAS matrix products called from native code: Intel's MKL, and NumPy's own OpenBLAS."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.errors import SkipjackError
from skipjack.solvers.solver import Slot, Solver

_ROW_MAJOR, _NO_TRANSPOSE = 101, 111


def gemm_thunk(problem: Problem, integer: str) -> str:
    """IR that calls ``cblas_?gemm``, whose address comes in the first slot."""
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
        """Matmul on CPUs, where the library is."""
        if device.kind != "cpu" or problem.operation != "matmul" or problem.attributes:
            return "it is for the plain matmul on CPUs"
        # Not loaded for that: MKL ends a process in which it finds too little memory, and only a
        # run worker may end.
        return "" if self.files() else f"{self.name} is not installed"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Nothing to vary."""
        return ParameterSpace([])

    def files(self) -> list[Path]:
        """Where the library is, if it is installed."""
        raise NotImplementedError

    def address(self, dtype: str) -> int:
        """Where the function is in this process; 0 if the library cannot be loaded."""
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
        """Where its package put them; or beside this Python, as other installers do."""
        beside = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
        return list(dict.fromkeys([*_of_package("mkl", "libmkl_rt.so*"), *beside]))

    def address(self, dtype: str) -> int:
        """``cblas_sgemm`` or ``cblas_dgemm``, one thread."""
        library = _mkl(*self.files())
        letter = {"f32": "s", "f64": "d"}[dtype]
        return _address(library, f"cblas_{letter}gemm") if library else 0


class OpenBlasSolver(_Blas):
    """The OpenBLAS inside of NumPy's wheel, without NumPy around it.

    It is ranked to show what NumPy's own calls cost, and takes no part in verdicts: programs reach
    it through NumPy, which does.
    """

    name = "cblas"
    integer = "i64"

    def files(self) -> list[Path]:
        """In NumPy's wheel, whose place differs by platform."""
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
    """Files of an installed package, wherever it was installed to."""
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
