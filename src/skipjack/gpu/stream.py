"""A GPU with one stream: what CUDA and HIP do alike."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from skipjack.core.device import Device
from skipjack.gpu.driver import GpuError, LaunchShape
from skipjack.gpu.library import WRONG_IMAGE, CallError, Library

_NON_BLOCKING = 1
"""A stream that does not wait for the default one."""
_RELAXED = 2
"""While a graph is captured this thread may do anything else: a first launch loads code lazily."""
_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
_ALIGNMENT = 128
"""Of arguments on the host: descriptors need it and are as large, the others do not mind."""


class Arguments:
    """A kernel's arguments in memory as a launch reads them: an array of addresses of values."""

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
    """See `skipjack.gpu.driver.Gpu`. Memory is copied on the stream and waited for, since copies
    elsewhere are not in order with a stream that does not block."""

    def __init__(self, library: Library, device: Device, index: int) -> None:
        self.device = device
        self.index = index
        self._library = library
        self.stream = self._handle("create stream", _NON_BLOCKING)

    @abstractmethod
    def _enter(self) -> int | None:
        """Make this GPU the one that calls of this thread are for; gives what `_leave` needs.

        A framework in the same thread works on the GPU that is current: it has to stay so.
        """

    @abstractmethod
    def _leave(self, before: int) -> None:
        """Make current again what was so before; not asked for where `_enter` gave None."""

    @abstractmethod
    def _launch(
        self, function: int, shape: LaunchShape, arguments: Arguments, stream: int
    ) -> tuple[str, tuple[Any, ...]]:
        """The role of the call that queues a kernel, and its parameters."""

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
        """Let memory be lent and given back while somebody in this process captures a graph.

        None of it is part of what is captured, and it would make that end in an error.
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
        """What queues a kernel: one call of the driver, with parameters that never change."""
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
        """Address of so many bytes."""
        try:
            with self._beside_captures():
                return self._handle("allocate", max(1, size))
        except CallError as error:
            if error.out_of_memory:
                free, total = self.memory()
                raise GpuError(
                    f"{size} bytes are asked of {self.device.name}, which has {free} of {total} "
                    "bytes free",
                    out_of_memory=True,
                ) from None
            raise

    def free(self, address: int) -> None:
        """Give memory back."""
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
            raise GpuError("nothing can be copied into an array that is read-only")
        if array.nbytes:
            self._call("download", _start(array), address, array.nbytes, self.stream)
            self.synchronize()

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Within the GPU, on the stream."""
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
        """A module's handle."""
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
        """A function's handle, allowed to use so much shared memory."""
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
        """Let a function use so much shared memory, where that has to be asked for."""

    def resources(self, function: int) -> dict[str, int]:
        """``registers`` of a thread, ``local_bytes``, ``shared_bytes`` (static)."""
        wanted = {"registers": _REGISTERS, "local_bytes": _LOCAL, "shared_bytes": _STATIC_SHARED}
        return {name: self._attribute_of(function, kind) for name, kind in wanted.items()}

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
        """Between two events, which are freed; waits for the second."""
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
        """What `queue` puts on the stream, as a graph; nothing of it runs now."""
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
        """Let the stream be used again; the error that led here is the one to tell."""
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
        """Let go of the stream and of the context."""
        if self.stream:
            self._call("destroy stream", self.stream)
            self.stream = 0


class StreamGraph:
    """See `skipjack.gpu.driver.Graph`."""

    def __init__(self, gpu: StreamGpu, running: int) -> None:
        self._gpu = gpu
        self._running = running

    def run(self) -> None:
        """Queue all of it on the GPU's stream."""
        self._gpu.run_graph(self._running)

    def close(self) -> None:
        """Free it."""
        if self._running:
            self._gpu.free_graph(self._running)
            self._running = 0


def _start(array: npt.NDArray[Any]) -> int:
    if not array.flags.c_contiguous:
        raise GpuError("only contiguous arrays are copied to and from a GPU")
    return int(array.ctypes.data)
