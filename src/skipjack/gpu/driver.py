"""What Skipjack needs of a GPU driver: CUDA's and HIP's stand behind this one small interface.

`skipjack.gpu.opening` gives those that are here. No framework is needed, and nothing is compiled:
binaries come from artifacts. Memory is plain memory of the device; addresses are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from skipjack.core.device import Device
from skipjack.errors import SkipjackError


class GpuError(SkipjackError):
    """The driver refused something."""

    def __init__(self, message: str, *, fault: bool = False, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.fault = fault
        """The context is lost: nothing more can be done in this process."""
        self.out_of_memory = out_of_memory


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """How a function is launched, besides its arguments."""

    grid: tuple[int, int, int]
    """Of programs; each is a cluster of blocks where clusters are more than one block."""
    threads: int
    """Of a block."""
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    dependent: bool = False


class Graph(Protocol):
    """Launches that were recorded once and run again without the host in between."""

    def run(self) -> None:
        """Queue all of them on the GPU's stream."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


class Gpu(Protocol):
    """One GPU, its primary context (shared with frameworks in this process) and one stream.

    What is queued goes to that stream, or to another one whose handle is given. Any thread may
    call; the GPU that is current in it stays so.
    """

    device: Device
    index: int
    stream: int
    """The driver's handle."""

    def allocate(self, size: int) -> int:
        """Address of so many bytes, aligned to 256 at least; `GpuError.out_of_memory` if none."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy a contiguous array to the GPU."""
        ...

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy from the GPU into a contiguous array."""
        ...

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Within the GPU, on the stream."""
        ...

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        """Set bytes, on the stream."""
        ...

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        ...

    def load(self, binary: bytes) -> int:
        """A module's handle; refuses what is for another GPU or a newer driver in one sentence."""
        ...

    def unload(self, module: int) -> None:
        """Free a module."""
        ...

    def function(self, module: int, symbol: str, shared_bytes: int = 0) -> int:
        """A function's handle, allowed to use so much shared memory."""
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
        """Queue it on the stream; each value is an argument's bytes as the kernel reads them."""
        ...

    def launcher(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> Callable[[], None]:
        """What does that launch whenever it is called, by any thread; all is laid out now."""
        ...

    def tensor_map(
        self,
        address: int,
        shape: Sequence[int],
        strides: Sequence[int],
        meta: dict[str, Any],
    ) -> bytes:
        """The copy engine's descriptor (CUtensorMap, 128 bytes); HIP has none and refuses."""
        ...

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for the stream; raises what went wrong on it."""
        ...

    def drain(self) -> None:
        """Wait for all streams of the context, those of frameworks too."""
        ...

    def record_event(self) -> int:
        """An event on the stream, with time."""
        ...

    def elapsed_ns(self, first: int, second: int) -> float:
        """Between two events, which are freed; waits for the second."""
        ...

    def capture(self, queue: Callable[[], None]) -> Graph:
        """What `queue` puts on the stream, as a graph; nothing of it runs now."""
        ...

    def close(self) -> None:
        """Let go of the context."""
        ...


class Driver(Protocol):
    """A vendor's driver."""

    name: str
    """``cuda`` or ``hip``: also the kind of its devices."""

    def version(self) -> tuple[int, int]:
        """Of the CUDA or HIP interface that the driver offers."""
        ...

    def devices(self) -> Sequence[Device]:
        """All GPUs in the driver's order; no context is made."""
        ...

    def open(self, index: int) -> Gpu:
        """Make ready for launches."""
        ...
