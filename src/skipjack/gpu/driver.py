"""The interface to GPU drivers, which CUDA's and HIP's implement.

`skipjack.gpu.discovery` finds those that are installed. No framework is needed, and nothing is
compiled: binaries come from artifacts. Memory is device memory; addresses are integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from skipjack.core import Device
from skipjack.errors import SkipjackError


class GpuError(SkipjackError):
    """An error of the driver."""

    def __init__(self, message: str, *, fault: bool = False, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.fault = fault
        """Whether the context is lost, so that this process can no longer use the GPU."""
        self.out_of_memory = out_of_memory


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """The configuration of a launch, without its arguments."""

    grid: tuple[int, int, int]
    """Number of programs; with clusters, each program is a cluster of blocks."""
    threads: int
    """Threads of a block."""
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    dependent: bool = False


class Graph(Protocol):
    """Launches that were recorded once and are repeated without the host."""

    def run(self) -> None:
        """Queue all launches on the GPU's stream."""
        ...

    def close(self) -> None:
        """Free the graph."""
        ...


class Gpu(Protocol):
    """A GPU with its primary context (shared with frameworks in this process) and one stream.

    Work is queued on that stream, or on another one whose handle is given. Any thread may call; the
    GPU that is current in the thread does not change.
    """

    device: Device
    index: int
    stream: int
    """The driver's handle of the stream."""

    def allocate(self, size: int) -> int:
        """The address of `size` bytes, aligned to 256 or more; `GpuError.out_of_memory` if none."""
        ...

    def free(self, address: int) -> None:
        """Free memory."""
        ...

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a contiguous array to the GPU."""
        ...

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy from the GPU into a contiguous array."""
        ...

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy within the GPU, on the stream."""
        ...

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        """Set bytes, on the stream."""
        ...

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        ...

    def load(self, binary: bytes) -> int:
        """Load a module and return its handle; `GpuError` for other GPUs or newer drivers."""
        ...

    def unload(self, module: int) -> None:
        """Free a module."""
        ...

    def function(self, module: int, symbol: str, shared_bytes: int = 0) -> int:
        """The handle of a function, which may use that much shared memory."""
        ...

    def resources(self, function: int) -> dict[str, int]:
        """``registers`` of a thread, ``local_bytes``, ``shared_bytes`` (static)."""
        ...

    def launch(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> None:
        """Queue a launch; each value is the bytes of an argument as the kernel reads them."""
        ...

    def launcher(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> Callable[[], None]:
        """A function that repeats the launch, in any thread; its arguments are prepared now."""
        ...

    def tensor_map(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: dict[str, Any],
    ) -> bytes:
        """The descriptor of the copy engine (CUtensorMap, 128 bytes); HIP raises an error."""
        ...

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for the stream; raises the errors of its work."""
        ...

    def drain(self) -> None:
        """Wait for all streams of the context, including those of frameworks."""
        ...

    def record_event(self) -> int:
        """Record a timed event on the stream."""
        ...

    def elapsed_ns(self, first: int, second: int) -> float:
        """The time between two events, which are freed; waits for the second."""
        ...

    def capture(self, queue: Callable[[], None]) -> Graph:
        """A graph of the work that `queue` puts on the stream; nothing runs yet."""
        ...

    def close(self) -> None:
        """Release the context."""
        ...


class Driver(Protocol):
    """The driver of a vendor."""

    name: str
    """``cuda`` or ``hip``, which is also the kind of its devices."""

    def version(self) -> tuple[int, int]:
        """The CUDA or HIP version that the driver supports."""
        ...

    def devices(self) -> Sequence[Device]:
        """All GPUs in the driver's order; no context is created."""
        ...

    def open(self, index: int) -> Gpu:
        """Open a GPU for launches."""
        ...
