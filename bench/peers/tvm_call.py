"""Call a kernel made by ``tvm_metaschedule.py`` from a process without TVM.

A kernel is a C function of TVM's packed convention::

    int kernel(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)

with three ``DLTensor`` pointers (A, B, C) as its arguments; it returns 0 when
it succeeded.  :func:`load_packed` opens the libraries the kernel needs and then
the kernel; :meth:`Packed.bind` lays out the arguments for given arrays, so that
a native loop needs only four numbers: ``fn(NULL, args, 3, result)``.

A kernel may hand its outer loop to TVM's thread pool.  ``load_packed`` puts
what ``meta.json`` has under ``environment`` (one thread, no binding of threads
to cores) into the environment, which TVM reads at the first such call.
"""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FORMAT = 1
NUM_ARGS = 3
ALIGNMENT = 64
"""Bytes to which arrays must be aligned: TVM emits aligned moves, which fault on others."""

# From TVM's C headers: the type index of a DLTensor pointer, the device type of
# a CPU, and the type code of a float.
_DL_TENSOR_PTR = 7
_DL_CPU = 1
_DL_FLOAT = 2

# A kernel has a pointer variable "__NAME" for each runtime function it calls.
# TVM's module loader fills them in; a plain dlopen leaves them null.
_CONTEXT = (
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "TVMBackendParallelBarrier",
    "TVMBackendParallelLaunch",
    "TVMFFIEnvModLookupFromImports",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIFunctionCall",
    "TVMFFIHandleInitOnce",
)

Array = npt.NDArray[np.float32]


class _DLTensor(ctypes.Structure):
    """DLPack's ``DLTensor``, its nested device and data type written out flat."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Any(ctypes.Structure):
    """TVM's ``TVMFFIAny`` holding a pointer."""

    _fields_ = [
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("pointer", ctypes.c_void_p),
    ]


_Function = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)


class Call:
    """One kernel with its arguments laid out; keep it alive while they are used.

    ``function``, ``args`` and ``result`` are addresses for a native loop that
    calls ``function(NULL, args, NUM_ARGS, result)``.
    """

    def __init__(self, function: int, arrays: tuple[Array, Array, Array], keep: object) -> None:
        self._keep = (arrays, keep)
        self._tensors = [_tensor(array) for array in arrays]
        self._args = (_Any * NUM_ARGS)()
        for slot, tensor in zip(self._args, self._tensors, strict=True):
            slot.type_index = _DL_TENSOR_PTR
            slot.pointer = ctypes.addressof(tensor)
        self._result = _Any()  # all zero: TVM's None, as the convention asks
        self.function = function
        self.args = ctypes.addressof(self._args)
        self.result = ctypes.addressof(self._result)

    def __call__(self) -> None:
        """Run the kernel once."""
        status = _Function(self.function)(None, self.args, NUM_ARGS, self.result)
        if status != 0:
            raise RuntimeError(f"the TVM kernel returned {status}")


class Packed(NamedTuple):
    """A loaded kernel: its address, its shape (M, N, K), and its libraries."""

    function: int
    shape: tuple[int, int, int]
    meta: dict[str, Any]
    handles: tuple[ctypes.CDLL, ...]

    def bind(self, a: Array, b: Array, c: Array) -> Call:
        """Lay out the arguments for ``c = a @ b``; the arrays are used in place."""
        m, n, k = self.shape
        for name, array, shape in (("a", a, (m, k)), ("b", b, (k, n)), ("c", c, (m, n))):
            if array.dtype != np.float32 or array.shape != shape:
                raise ValueError(f"{name} must be float32 {shape}, not {array.dtype} {array.shape}")
            if not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
                raise ValueError(f"{name} must be row-major and aligned to {ALIGNMENT} bytes")
        if not c.flags.writeable:
            raise ValueError("c must be writable")
        return Call(self.function, (a, b, c), self.handles)


def load_packed(meta_path: str | os.PathLike[str]) -> Packed:
    """Open the kernel that the ``meta.json`` at ``meta_path`` describes."""
    path = Path(meta_path).resolve()
    meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if meta.get("format") != FORMAT:
        raise ValueError(f"{path.name}: format {meta.get('format')!r}, not {FORMAT}")
    if "error" in meta:
        raise ValueError(f"{path.parent.name} was not tuned: {meta['error']}")
    os.environ.update(meta["environment"])
    runtime = [ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL) for name in meta["libraries"]]
    # Local: every kernel exports the same names.
    kernel = ctypes.CDLL(str(path.parent / meta["kernel"]), mode=ctypes.RTLD_LOCAL)
    for name in _CONTEXT:
        try:
            variable = ctypes.c_void_p.in_dll(kernel, f"__{name}")
        except ValueError:
            continue  # this kernel does not call that function
        variable.value = _address(runtime, name)
    m, n, k = (int(extent) for extent in meta["shape"])
    return Packed(_address([kernel], meta["symbol"]), (m, n, k), meta, (*runtime, kernel))


def aligned_empty(rows: int, columns: int) -> Array:
    """Give an uninitialised float32 matrix aligned as a kernel wants it."""
    size = 4 * rows * columns
    store = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -store.ctypes.data % ALIGNMENT
    return store[start : start + size].view(np.float32).reshape(rows, columns)


def _address(libraries: list[ctypes.CDLL], name: str) -> int:
    """Find the address of the function ``name`` in the first library that has it."""
    for library in libraries:
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    raise LookupError(f"no library has {name}")


def _tensor(array: Array) -> _DLTensor:
    """Describe a row-major float32 matrix; the caller keeps the array alive."""
    pair = ctypes.c_int64 * 2
    rows, columns = array.shape
    return _DLTensor(
        data=array.ctypes.data,
        device_type=_DL_CPU,
        device_id=0,
        ndim=2,
        code=_DL_FLOAT,
        bits=32,
        lanes=1,
        shape=pair(rows, columns),
        strides=pair(columns, 1),
        byte_offset=0,
    )
