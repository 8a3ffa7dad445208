"""PyTorch's stable C functions in this process, and the stubs' own machine code, kept between
processes.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import re
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from skipjack.core import digest_of
from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import LIBRARY as CUDA_DRIVER
from skipjack.native import llvm
from skipjack.settings import load_settings
from skipjack.storage import ArtifactStore, atomic_write, ensure_directory

# The addresses of PyTorch's stable C functions in this process.
#
# They are declared in ``torch/csrc/stable/c/shim.h`` and
# ``torch/csrc/inductor/aoti_torch/c/shim.h``, and do not change between releases. Fallbacks of
# single operations (``aoti_torch_cpu_mm_out``) are generated and less stable: operations whose
# fallback is missing are not hooked.

OLDEST = (2, 10)
"""The first release with all required functions."""
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
    """The C functions of the imported PyTorch."""

    def __init__(self, torch: ModuleType) -> None:
        self.version: str = torch.__version__
        found = re.match(r"(\d+)\.(\d+)", self.version)
        if not found or (int(found[1]), int(found[2])) < OLDEST:
            raise UsageError(
                f"PyTorch {self.version} lacks the stable C interface that tuned kernels need; "
                f"install {OLDEST[0]}.{OLDEST[1]} or later"
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
        """The address of a function; 0 if it does not exist."""
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
    """The address of a function of CUDA's driver; 0 if there is no driver."""
    function = getattr(_cuda_driver(), name, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


@functools.cache
def torch_abi() -> TorchAbi:
    """The C functions of PyTorch; `UsageError` if it is missing or too old."""
    return TorchAbi(torch_module())


def torch_module() -> ModuleType:
    """The module of PyTorch; `UsageError` if it cannot be imported."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"PyTorch cannot be imported ({error}); install torch {OLDEST[0]}.{OLDEST[1]} or later"
        ) from error


# The machine code of the stubs, cached between processes: compiling it takes 0.1 s.
#
# It is in the kernel cache, and a small file in the user directory holds its digest.

log = logging.getLogger(__name__)

_FOLDER = "torch/stubs"


def stub_code(text: str, target: str) -> bytes:
    """The object code of the stubs, from the cache or compiled."""
    settings = load_settings()
    store = ArtifactStore(*settings.kernel_dirs)
    folder = settings.user_dir / _FOLDER
    named = folder / digest_of([text, target, llvm.compiler_release()])
    with suppress(SkipjackError, OSError, UnicodeDecodeError):
        return store.get(named.read_text("ascii"))
    code = llvm.compile_object(text, target)
    try:
        digest = store.put(code)
        ensure_directory(folder)
        atomic_write(named, digest.encode(), durable=False)
    except (SkipjackError, OSError) as error:
        log.info("the hook's code cannot be cached, so every program compiles it: %s", error)
    return code
