"""PyTorch's stable C functions: where they are in this process, and whether they are there at all.

They are declared in ``torch/csrc/stable/c/shim.h`` and ``torch/csrc/inductor/aoti_torch/c/shim.h``,
and promised not to change from release to release. Fallbacks of single operations
(``aoti_torch_cpu_mm_out``) are generated and promised less: what is missing is not hooked.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import re
from pathlib import Path
from types import ModuleType

from skipjack.errors import UsageError
from skipjack.gpu.cuda import LIBRARY as CUDA_DRIVER

OLDEST = (2, 10)
"""The first release with all functions that every hook needs."""
_NEEDED = (
    *("aoti_torch_library_init_impl", "aoti_torch_library_impl", "torch_get_const_data_ptr"),
    *("aoti_torch_delete_library_object", "torch_get_mutable_data_ptr", "torch_delete_list"),
    *("aoti_torch_get_sizes", "aoti_torch_get_strides", "aoti_torch_get_dim", "aoti_torch_check"),
    *("aoti_torch_get_dtype", "aoti_torch_empty_strided", "aoti_torch_delete_tensor_object"),
    *("aoti_torch_new_uninitialized_tensor", "aoti_torch_is_defined"),
    *("torch_parallel_for", "torch_get_num_threads", "torch_list_size", "torch_list_get_item"),
    *("aoti_torch_library_init_def", "aoti_torch_library_def"),
)


class TorchAbi:
    """The functions of the PyTorch that this process has imported."""

    def __init__(self, torch: ModuleType) -> None:
        self.version: str = torch.__version__
        found = re.match(r"(\d+)\.(\d+)", self.version)
        if not found or (int(found[1]), int(found[2])) < OLDEST:
            raise UsageError(
                f"PyTorch {self.version} lacks the stable C interface that tuned kernels are "
                f"called through; install {OLDEST[0]}.{OLDEST[1]} or later"
            )
        folder = Path(torch.__file__ or "").parent / "lib"
        self._libraries = []
        for name in ("libtorch_cpu.so", "libtorch_cuda.so"):
            if (folder / name).exists():
                self._libraries.append(ctypes.CDLL(str(folder / name)))
        missing = [name for name in _NEEDED if not self.address(name)]
        if missing:
            raise UsageError(f"PyTorch {self.version} does not export {missing[0]}")

    def address(self, name: str) -> int:
        """Where a function is; 0 if there is none of that name."""
        for library in self._libraries:
            function = getattr(library, name, None)
            if function is not None:
                return ctypes.cast(function, ctypes.c_void_p).value or 0
        return 0


@functools.cache
def _cuda_driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(CUDA_DRIVER)
    except OSError:
        return None


def driver_address(name: str) -> int:
    """Where a function of CUDA's driver is; 0 if there is none here."""
    function = getattr(_cuda_driver(), name, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


@functools.cache
def torch_abi() -> TorchAbi:
    """Those of the installed PyTorch; `UsageError` where there is none or it is too old."""
    return TorchAbi(torch_module())


def torch_module() -> ModuleType:
    """PyTorch itself; `UsageError` where it is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"PyTorch cannot be imported ({error}); install torch {OLDEST[0]}.{OLDEST[1]} or later"
        ) from error
