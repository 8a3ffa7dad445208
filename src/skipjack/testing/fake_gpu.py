"""A simulated GPU in host memory, without a driver or a compiler.

Its binaries are JSON with the name of a function and its behaviour; its time is simulated. It is
registered as the driver ``fake``: load this module as a plug-in, here and in every worker, and open
``fake:0``.
"""

from __future__ import annotations

import ctypes
import json
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import Device
from skipjack.gpu import Argument, GpuArtifact, GpuError, KernelAbi, LaunchShape, register_driver

KIND, ARCH = "fake", "fake_1"
MEMORY = 1 << 28
DEVICE = Device(
    KIND,
    ARCH,
    4,
    "a fake GPU",
    caches=(("shared", 64 << 10), ("L2", 1 << 20)),
    memory_bytes=MEMORY,
    serial="fake-0",
)
_ALIGNMENT = 256
_COPY_BYTES_PER_NS = 100.0

BEHAVIOURS = (
    *("right", "wrong", "before", "behind", "input", "forgets"),
    *("fault", "fault_later", "hang", "hang_later", "memory", "refuse"),
)
"""Behaviours of a kernel. Those with ``_later`` apply to captured launches, which are timed."""


def fake_artifact(behaviour: str = "right", time_ns: float = 5000.0, **abi: Any) -> GpuArtifact:
    """An artifact with one kernel ``add`` of x, y, out and n, in float32."""
    pointer = Argument("*fp32", 16)
    arguments = (pointer, pointer, pointer, Argument("i32"))
    binary = json.dumps({"function": "add", "behaviour": behaviour, "time_ns": time_ns}).encode()
    kernel = KernelAbi("add", "add", arguments, 128, **abi)
    return GpuArtifact(ARCH, (kernel,), (binary,), "fake compiler 1")


@dataclass
class _Clock:
    now_ns: float = 0.0


class FakeGpu:
    """Implements `skipjack.gpu.driver.Gpu`. Work is done at once; faults are raised on waiting."""

    def __init__(self, device: Device = DEVICE, memory: int = MEMORY, index: int = 0) -> None:
        self.device, self.index, self.stream = device, index, 1
        self._total = memory
        self._memory: dict[int, npt.NDArray[np.uint8]] = {}
        self._modules: dict[int, dict[str, Any]] = {}
        self._events: dict[int, float] = {}
        self._handle = 0
        self._clock = _Clock()
        self._fault = ""
        self._recording: list[Callable[[], None]] | None = None

    def _next(self) -> int:
        self._handle += 1
        return self._handle

    # Memory

    def allocate(self, size: int) -> int:
        """Allocate host memory."""
        if size > self.memory()[0]:
            raise GpuError(f"{size} bytes are not free", out_of_memory=True)
        room = np.zeros(size + _ALIGNMENT, np.uint8)
        address = -(-room.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self._memory[address] = room
        return int(address)

    def free(self, address: int) -> None:
        """Free memory."""
        del self._memory[address]

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self._total - sum(len(room) for room in self._memory.values()), self._total

    def upload(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy at once."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy at once."""
        self.synchronize()
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy, in simulated time."""
        self._do(size / _COPY_BYTES_PER_NS, lambda: ctypes.memmove(to, source, size))

    def fill(self, address: int, byte: int, size: int, stream: int | None = None) -> None:
        """Set bytes, in simulated time."""
        self._do(size / _COPY_BYTES_PER_NS, lambda: ctypes.memset(address, byte, size))

    # Code

    def load(self, binary: bytes) -> int:
        """Load a module from its JSON."""
        module = self._next()
        self._modules[module] = json.loads(binary)
        if self._modules[module]["behaviour"] == "refuse":
            raise GpuError("the binary is for a newer driver")
        return module

    def unload(self, module: int) -> None:
        """Unload a module."""
        del self._modules[module]

    def function(self, module: int, symbol: str, shared_bytes: int = 0) -> int:
        """The only function of a module."""
        if self._modules[module]["function"] != symbol:
            raise GpuError(f"there is no function {symbol}")
        return module

    def resources(self, function: int) -> dict[str, int]:
        """Fixed values."""
        return {"registers": 32, "local_bytes": 0, "shared_bytes": 0}

    def launch(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> None:
        """Add, with the behaviour of the binary."""
        how = self._modules[function]
        behaviour = str(how["behaviour"])
        later = behaviour.endswith("_later")
        if self._recording is not None and later:
            behaviour = behaviour.removesuffix("_later")
        if behaviour == "memory":
            raise GpuError("the launch asks for more memory than is free", out_of_memory=True)
        x, y, out = (struct.unpack("<Q", value)[0] for value in values[:3])
        (n,) = struct.unpack("<i", values[3])
        self._do(how["time_ns"], lambda: self._add(behaviour, x, y, out, n))

    def launcher(
        self,
        function: int,
        shape: LaunchShape,
        values: Sequence[bytes],
        stream: int | None = None,
    ) -> Callable[[], None]:
        """A function that repeats the launch."""
        return lambda: self.launch(function, shape, values, stream)

    def _add(self, behaviour: str, x: int, y: int, out: int, n: int) -> None:
        if behaviour == "hang":
            time.sleep(1000)
        if behaviour == "fault":
            self._fault = "an illegal memory access was encountered"
            return
        a, b, result = (_floats(address, n) for address in (x, y, out))
        result[:] = a if behaviour == "wrong" else a + b
        if behaviour == "forgets":
            result[-1] = np.nan
        if behaviour == "input":
            a[0] = 9.0
        if behaviour in ("before", "behind"):
            _floats(out + (-4 if behaviour == "before" else 4 * n), 1)[0] = 1.0

    def tensor_map(
        self, address: int, shape: Sequence[int], strides: Sequence[int], meta: dict[str, Any]
    ) -> bytes:
        """Not supported."""
        raise GpuError("a fake GPU has no descriptors")

    # Time

    def _do(self, time_ns: float, work: Callable[[], object]) -> None:
        def both() -> None:
            if not self._fault:
                work()
            self._clock.now_ns += time_ns

        if self._recording is None:
            both()
        else:
            self._recording.append(both)

    def synchronize(self, stream: int | None = None) -> None:
        """Raise a pending fault."""
        if self._fault:
            raise GpuError(self._fault, fault=True)

    def drain(self) -> None:
        """Raise a pending fault."""
        self.synchronize()

    def record_event(self) -> int:
        """An event at the simulated time."""
        event = self._next()
        self._events[event] = self._clock.now_ns
        return event

    def elapsed_ns(self, first: int, second: int) -> float:
        """The difference of two simulated times."""
        self.synchronize()
        return self._events.pop(second) - self._events.pop(first)

    def capture(self, queue: Callable[[], None]) -> FakeGraph:
        """Record launches as a graph."""
        recorded: list[Callable[[], None]] = []
        self._recording = recorded
        try:
            queue()
        finally:
            self._recording = None
        return FakeGraph(recorded)

    def close(self) -> None:
        """Nothing to do."""


class FakeGraph:
    """Recorded launches."""

    def __init__(self, steps: Sequence[Callable[[], None]]) -> None:
        self._steps = steps

    def run(self) -> None:
        """Run all recorded steps."""
        for step in self._steps:
            step()

    def close(self) -> None:
        """Nothing to do."""


class FakeDriver:
    """Implements `skipjack.gpu.driver.Driver`."""

    name = KIND

    def __init__(self, devices: Sequence[Device] = (DEVICE,)) -> None:
        self._devices = devices

    def version(self) -> tuple[int, int]:
        """Fixed values."""
        return 1, 0

    def devices(self) -> Sequence[Device]:
        """The devices that were given, by default one."""
        return self._devices

    def open(self, index: int) -> FakeGpu:
        """A new GPU."""
        return FakeGpu(self._devices[index], index=index)


def _floats(address: int, count: int) -> npt.NDArray[np.float32]:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


register_driver(FakeDriver())
