"""A GPU with one stream: the code that CUDA and HIP share."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from skipjack.core import Device
from skipjack.gpu.driver import GpuError, LaunchShape
from skipjack.gpu.library import WRONG_IMAGE, CallError, Library

_NON_BLOCKING = 1
"""A stream that does not synchronize with the default stream."""
_RELAXED = 2
"""Other calls are allowed during a capture: a first launch loads code lazily."""
_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
_ALIGNMENT = 128
"""Alignment and size of arguments on the host, as descriptors require."""


class Arguments:
    """A kernel's arguments in the form that a launch reads: an array of addresses of values."""

    def __init__(self, values: Sequence[bytes]) -> None:
        whole = b"".join([value.ljust(_ALIGNMENT, b"\0") for value in values])
        if len(whole) != _ALIGNMENT * len(values):
            raise GpuError(f"an argument of a kernel has more than {_ALIGNMENT} bytes")
        self._memory = ctypes.create_string_buffer(len(whole) + _ALIGNMENT)
        start = -(-ctypes.addressof(self._memory) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(start, whole, len(whole))
        self.addresses = (ctypes.c_void_p * max(1, len(values)))(
            *range(start, start + len(whole), _ALIGNMENT)
        )


class StreamGpu(ABC):
    """Implements `skipjack.gpu.driver.Gpu`.

    Copies run on the stream and are waited for, since other copies are not ordered with a
    non-blocking stream.
    """

    def __init__(self, library: Library, device: Device, index: int) -> None:
        self.device = device
        self.index = index
        self._library = library
        self.stream = self._handle("create stream", _NON_BLOCKING)

    @abstractmethod
    def _enter(self) -> int | None:
        """Make this GPU current in this thread; returns the argument of `_leave`, or None.

        A framework in the same thread uses the current GPU, which therefore has to be restored.
        """

    @abstractmethod
    def _leave(self, before: int) -> None:
        """Restore what was current before; not called if `_enter` returned None."""

    @abstractmethod
    def _launch(
        self, function: int, shape: LaunchShape, arguments: Arguments, stream: int
    ) -> tuple[str, tuple[Any, ...]]:
        """The role of the call that queues a kernel, and its arguments."""

    @abstractmethod
    def tensor_map(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: dict[str, Any],
    ) -> bytes:
        """Encode a descriptor."""

    def _call(self, role: str, *arguments: Any) -> None:
        before = self._enter()
        try:
            self._library(role, *arguments)
        finally:
            if before is not None:
                self._leave(before)

    def _handle(self, role: str, *arguments: Any) -> int:
        place = ctypes.c_void_p()
        self._call(role, ctypes.byref(place), *arguments)
        return place.value or 0

    def _on(self, stream: int | None) -> int:
        return self.stream if stream is None else stream

    @contextmanager
    def _beside_captures(self) -> Iterator[None]:
        """Allow memory to be allocated and freed while this process captures a graph.

        These calls are not part of the capture, and would otherwise make it fail.
        """
        mode = ctypes.c_int(_RELAXED)
        self._call("exchange capture mode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("exchange capture mode", ctypes.byref(mode))

    # Launches

    def launch(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> None:
        """Queue a kernel."""
        self.launcher(function, shape, values, stream)()

    def launcher(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> Callable[[], None]:
        """A function that queues a kernel: one call of the driver with fixed arguments."""
        arguments = Arguments(values)
        role, given = self._launch(function, shape, arguments, self._on(stream))
        library, enter, leave = self._library, self._enter, self._leave
        call = library.function(role)

        def queue(_keep: Arguments = arguments) -> None:
            before = enter()
            if before is None:
                code = call(*given)
            else:
                try:
                    code = call(*given)
                finally:
                    leave(before)
            if code:
                raise library.error(role, code)

        return queue

    # Memory

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
        try:
            with self._beside_captures():
                return self._handle("allocate", max(1, size))
        except CallError as error:
            if error.out_of_memory:
                free, total = self.memory()
                raise GpuError(
                    f"{size} bytes were requested; {self.device.name} has {free} of {total} "
                    "bytes free",
                    out_of_memory=True,
                ) from None
            raise

    def free(self, address: int) -> None:
        """Free memory."""
        with self._beside_captures():
            self._call("free", address)

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a contiguous array to the GPU."""
        if array.nbytes:
            self._call("upload", address, _start(array), array.nbytes, self.stream)
            self.synchronize()

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy from the GPU into a contiguous array."""
        if not array.flags.writeable:
            raise GpuError("cannot copy into an array that is read-only")
        if array.nbytes:
            self._call("download", _start(array), address, array.nbytes, self.stream)
            self.synchronize()

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy within the GPU, on the stream."""
        if size:
            self._call("copy", to, source, size, self._on(stream))

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        """Set bytes, on the stream."""
        if size:
            self._call("fill", address, byte, size, self._on(stream))

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("memory", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # Code

    def load(self, binary: bytes) -> int:
        """Load a module and return its handle."""
        try:
            with self._beside_captures():
                return self._handle("load", binary)
        except CallError as error:
            if error.code in WRONG_IMAGE:
                raise GpuError(
                    f"the binary cannot be loaded on {self.device.arch}: it is damaged, for "
                    f"another GPU or for a newer driver ({error})"
                ) from None
            raise

    def unload(self, module: int) -> None:
        """Free a module."""
        with self._beside_captures():
            self._call("unload", module)

    def function(self, module: int, symbol: str, shared_bytes: int = 0) -> int:
        """The handle of a function, which may use that much shared memory."""
        found = self._handle("function", module, symbol.encode())
        most = self.device.cache_bytes("shared")
        if shared_bytes > most:
            raise GpuError(
                f"kernel {symbol} needs {shared_bytes} bytes of shared memory, a block of "
                f"{self.device.name} has at most {most}"
            )
        self._allow_shared(found, shared_bytes)
        return found

    @abstractmethod
    def _allow_shared(self, function: int, shared_bytes: int) -> None:
        """Allow a function to use that much shared memory, if the driver requires it."""

    def resources(self, function: int) -> dict[str, int]:
        """``registers`` of a thread, ``local_bytes``, ``shared_bytes`` (static)."""
        attributes = {
            "registers": _REGISTERS,
            "local_bytes": _LOCAL,
            "shared_bytes": _STATIC_SHARED,
        }
        return {name: self._attribute_of(function, kind) for name, kind in attributes.items()}

    def _attribute_of(self, function: int, kind: int) -> int:
        found = ctypes.c_int()
        self._call("function attribute", ctypes.byref(found), kind, function)
        return found.value

    # Time

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for the stream; raises what went wrong on it."""
        self._call("wait", self._on(stream))

    def drain(self) -> None:
        """Wait for all streams of the context, those of frameworks too."""
        self._call("wait for all")

    def record_event(self) -> int:
        """An event on the stream, with time."""
        event = self._handle("create event", 0)
        self._call("record event", event, self.stream)
        return event

    def elapsed_ns(self, first: int, second: int) -> float:
        """The time between two events, which are freed; waits for the second."""
        milliseconds = ctypes.c_float()
        try:
            self._call("wait for event", second)
            self._call("elapsed", ctypes.byref(milliseconds), first, second)
        finally:
            for event in (first, second):
                self._call("destroy event", event)
        return float(milliseconds.value) * 1e6

    # Graphs

    def capture(self, queue: Callable[[], None]) -> StreamGraph:
        """A graph of the work that `queue` puts on the stream; nothing runs yet."""
        self._call("begin capture", self.stream, _RELAXED)
        try:
            queue()
        except BaseException:
            self._drop_capture()
            raise
        graph = ctypes.c_void_p()
        self._call("end capture", self.stream, ctypes.byref(graph))
        try:
            running = self._handle("instantiate", graph, 0)
        finally:
            self._call("destroy graph", graph)
        return StreamGraph(self, running)

    def _drop_capture(self) -> None:
        """End a capture after an error, so that the stream can be used again."""
        graph = ctypes.c_void_p()
        try:
            self._call("end capture", self.stream, ctypes.byref(graph))
            if graph.value:
                self._call("destroy graph", graph)
        except GpuError:
            return

    def run_graph(self, running: int) -> None:
        """Queue a graph."""
        self._call("run graph", running, self.stream)

    def free_graph(self, running: int) -> None:
        """Free a graph."""
        self._call("destroy running graph", running)

    def close(self) -> None:
        """Release the stream."""
        if self.stream:
            self._call("destroy stream", self.stream)
            self.stream = 0


class StreamGraph:
    """Implements `skipjack.gpu.driver.Graph`."""

    def __init__(self, gpu: StreamGpu, running: int) -> None:
        self._gpu = gpu
        self._running = running

    def run(self) -> None:
        """Queue all launches on the GPU's stream."""
        self._gpu.run_graph(self._running)

    def close(self) -> None:
        """Free the graph."""
        if self._running:
            self._gpu.free_graph(self._running)
            self._running = 0


def _start(array: npt.NDArray[Any]) -> int:
    if not array.flags.c_contiguous:
        raise GpuError("only contiguous arrays can be copied to and from a GPU")
    return int(array.ctypes.data)
