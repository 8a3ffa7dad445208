"""A vendor's driver library, called through ctypes; every call is checked.

CUDA's and HIP's functions have different names but, as far as they are needed here, the same
parameters. A call therefore names its *role* (``allocate``), which each vendor maps to a symbol,
and parameters are declared once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from skipjack.gpu.driver import GpuError

POINTER = ctypes.c_void_p
"""Handles, addresses on the host and on the GPU, and output parameters: all have 64 bits."""
SIZE, INT, UINT = ctypes.c_size_t, ctypes.c_int, ctypes.c_uint
_BYTE, _FLAGS = ctypes.c_ubyte, ctypes.c_ulonglong

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "start": (UINT,),
    "version": (POINTER,),
    "count": (POINTER,),
    "device": (POINTER, INT),
    "device name": (POINTER, INT, INT),
    "device uuid": (POINTER, INT),
    "device memory": (POINTER, INT),
    "device attribute": (POINTER, INT, INT),
    "create stream": (POINTER, UINT),
    "wait": (POINTER,),
    "wait for all": (),
    "destroy stream": (POINTER,),
    "allocate": (POINTER, SIZE),
    "free": (POINTER,),
    "upload": (POINTER, POINTER, SIZE, POINTER),
    "download": (POINTER, POINTER, SIZE, POINTER),
    "copy": (POINTER, POINTER, SIZE, POINTER),
    "fill": (POINTER, _BYTE, SIZE, POINTER),
    "memory": (POINTER, POINTER),
    "load": (POINTER, POINTER),
    "unload": (POINTER,),
    "function": (POINTER, POINTER, POINTER),
    "function attribute": (POINTER, INT, POINTER),
    "create event": (POINTER, UINT),
    "record event": (POINTER, POINTER),
    "wait for event": (POINTER,),
    "elapsed": (POINTER, POINTER, POINTER),
    "destroy event": (POINTER,),
    "begin capture": (POINTER, INT),
    "exchange capture mode": (POINTER,),
    "end capture": (POINTER, POINTER),
    "instantiate": (POINTER, POINTER, _FLAGS),
    "run graph": (POINTER, POINTER),
    "destroy running graph": (POINTER,),
    "destroy graph": (POINTER,),
    "error name": (INT, POINTER),
    "error text": (INT, POINTER),
}
"""The parameters of all roles that both vendors have."""

OUT_OF_MEMORY = 2
WRONG_IMAGE = frozenset({200, 209, 218, 222, 300})
"""Errors of loading a binary that is damaged, for another GPU, or for a newer driver."""
FAULTS = frozenset({4, 214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 810, 999})
"""Errors after which all further calls fail: bad addresses and instructions, asserts, timeouts,
uncorrectable memory errors. HIP uses the same numbers as CUDA."""


class Library:
    """Calls by role. `handle` is a `ctypes.CDLL`, or any object with such functions."""

    def __init__(
        self,
        handle: Any,
        vendor: str,
        symbols: Mapping[str, str],
        signatures: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> None:
        self.vendor = vendor
        self._handle = handle
        self._symbols = symbols
        self._signatures = {**SIGNATURES, **(signatures or {})}
        self._functions: dict[str, Callable[..., int]] = {}

    def __call__(self, role: str, *arguments: Any) -> None:
        """Call a function; `GpuError` if it fails."""
        code = self.function(role)(*arguments)
        if code:
            raise self.error(role, code)

    def handle(self, role: str, *arguments: Any) -> int:
        """Call a function whose first parameter returns a handle or an address."""
        place = ctypes.c_void_p()
        self(role, ctypes.byref(place), *arguments)
        return place.value or 0

    def number(self, role: str, *arguments: Any) -> int:
        """Call a function whose first parameter returns an int."""
        place = ctypes.c_int()
        self(role, ctypes.byref(place), *arguments)
        return place.value

    def size(self, role: str, *arguments: Any) -> int:
        """Call a function whose first parameter returns a size."""
        place = ctypes.c_size_t()
        self(role, ctypes.byref(place), *arguments)
        return place.value

    def device_name(self, ordinal: int) -> str:
        """The vendor's name of a GPU's model."""
        name = ctypes.create_string_buffer(256)
        self("device name", name, len(name), ordinal)
        return name.value.decode(errors="replace")

    def device_serial(self, ordinal: int) -> str:
        """The UUID of a GPU."""
        uuid = ctypes.create_string_buffer(16)
        self("device uuid", uuid, ordinal)
        text = uuid.raw.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def error(self, role: str, code: int) -> CallError:
        """The exception for the error code of a call."""
        name = self._words("error name", code) or f"error {code}"
        text = self._words("error text", code) or "no reason is given"
        symbol = self._symbols[role]
        return CallError(f"{self.vendor} refused {symbol}: {text} ({name})", code)

    def _words(self, role: str, code: int) -> str:
        place = ctypes.c_char_p()
        if self.function(role)(code, ctypes.byref(place)) or not place.value:
            return ""
        return place.value.decode(errors="replace")

    def function(self, role: str) -> Callable[..., int]:
        """The function of a role, which returns a code that `error` explains."""
        found = self._functions.get(role)
        if found is None:
            symbol = self._symbols[role]
            try:
                function = getattr(self._handle, symbol)
            except AttributeError:
                raise GpuError(
                    f"the {self.vendor} driver has no {symbol}: install a newer driver"
                ) from None
            function.argtypes = self._signatures[role]
            function.restype = ctypes.c_int
            found = self._functions[role] = function
        return found


class CallError(GpuError):
    """A call that failed."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, fault=code in FAULTS, out_of_memory=code == OUT_OF_MEMORY)
        self.code = code
