"""Kernels of an artifact on a GPU: loaded once, then bound to sets of arrays by a launch plan."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from threading import Lock
from typing import Protocol

from skipjack.errors import SkipjackError
from skipjack.execute.gpu.arguments import Address, packed
from skipjack.gpu.artifact import ABI, GpuArtifact, KernelAbi, unpack
from skipjack.gpu.driver import Gpu, LaunchShape
from skipjack.gpu.fitting import fits
from skipjack.gpu.plan import Fill, Launch, Pointer, Scratch, Step, blocks, scratch_sizes

Queue = Callable[[], None]

_POISON = 0xFF
"""In every byte: NaN in each of our types."""


class Placed(Protocol):
    """Tensors in the GPU's memory, whoever they belong to."""

    @property
    def addresses(self) -> Mapping[str, int]:
        """By name."""
        ...


def checked_artifact(data: bytes, digest: str, abi: str, arch: str) -> GpuArtifact:
    """The artifact, if its bytes are those promised, in a version known here, for this GPU."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise SkipjackError("the artifact's bytes do not match its digest; it was not loaded")
    if abi != ABI:
        raise SkipjackError(f"launch ABI {abi!r} is not known here, only {ABI!r}")
    artifact = unpack(data)
    if not fits(artifact.target, arch):
        raise SkipjackError(f"the artifact is for {artifact.target}, this GPU is {arch}")
    return artifact


def hidden_scratch(step: Launch, abi: KernelAbi) -> list[Scratch]:
    """Memory whose addresses are passed behind the arguments; of no size where none is needed."""
    count = blocks(step) * prod(abi.cluster)
    kinds = (("global", abi.scratch_bytes), ("profile", abi.profile_bytes))
    found = [Scratch(f"@{kind} {step.kernel} {count}", size * count) for kind, size in kinds]
    return found[: abi.hidden_pointers]


class LoadedKernel:
    """The functions and lent memory of one candidate. `free` gives all of it back.

    Calls on one stream follow each other and share lent memory; every stream has its own.
    """

    def __init__(self, gpu: Gpu, artifact: GpuArtifact, steps: Sequence[Step]) -> None:
        self._gpu, self._artifact, self._steps = gpu, artifact, steps
        self._modules: list[int] = []
        self._functions: dict[str, int] = {}
        self._memory: list[int] = []
        self._sizes = scratch_sizes(steps)
        self._scratch: dict[tuple[int | None, str], int] = {}
        self._lending = Lock()
        try:
            self._load()
        except BaseException:
            self.free()
            raise

    def _load(self) -> None:
        used = {step.kernel for step in self._steps if isinstance(step, Launch)}
        for name in used:
            self._artifact.kernel(name)  # names the missing one
        for abi, binary in zip(self._artifact.kernels, self._artifact.binaries, strict=True):
            if abi.name in used:
                module = self._gpu.load(binary)
                self._modules.append(module)
                self._functions[abi.name] = self._gpu.function(module, abi.symbol, abi.shared_bytes)

    def _lent(self, name: str, size: int, stream: int | None) -> int:
        """The address of memory that steps on a stream share under a name."""
        with self._lending:
            key = stream, name
            if key not in self._scratch:
                self._scratch[key] = self._gpu.allocate(max(1, size))
                self._memory.append(self._scratch[key])
            return self._scratch[key]

    def poison(self) -> None:
        """Fill lent memory with NaN: what an earlier run left there must not look like a result."""
        for name, size in self._sizes.items():
            self._gpu.fill(self._lent(name, size, None), _POISON, size)

    @property
    def alignment(self) -> int:
        """Of addresses, as the compiler took them to be."""
        pointers = (
            argument
            for abi in self._artifact.kernels
            for argument in abi.arguments
            if argument.type.startswith("*")
        )
        return max((argument.divisible for argument in pointers), default=1)

    @property
    def gpu(self) -> Gpu:
        """Where it is loaded."""
        return self._gpu

    @property
    def steps(self) -> Sequence[Step]:
        """Its launch plan."""
        return self._steps

    def launched(self, step: Launch) -> tuple[int, LaunchShape, KernelAbi]:
        """The function of a step, how it is launched, and what it takes."""
        abi = self._artifact.kernel(step.kernel)
        shape = LaunchShape(
            step.grid, abi.threads, abi.shared_bytes, abi.cluster, abi.cooperative, abi.dependent
        )
        return self._functions[step.kernel], shape, abi

    def bind(self, arrays: Placed, stream: int | None = None) -> Queue:
        """What queues all steps on these arrays; everything is checked and packed now.

        It goes to the GPU's own stream, or to the one whose handle is given.
        """

        def address(place: Pointer | Scratch) -> int:
            return self._address(place, arrays, stream)

        queues = [
            self._fill(step, address, stream)
            if isinstance(step, Fill)
            else self._launch(step, address, stream)
            for step in self._steps
        ]
        if len(queues) == 1:
            return queues[0]

        def queue() -> None:
            for one in queues:
                one()

        return queue

    def _address(self, place: Pointer | Scratch, arrays: Placed, stream: int | None) -> int:
        if isinstance(place, Scratch):
            return self._lent(place.name, self._sizes[place.name], stream)
        if place.tensor not in arrays.addresses:
            raise SkipjackError(f"the launch plan names a tensor {place.tensor!r} that is not here")
        return arrays.addresses[place.tensor] + place.offset

    def _fill(self, step: Fill, address: Address, stream: int | None) -> Queue:
        at, gpu = address(step.where), self._gpu
        return lambda: gpu.fill(at, step.byte, step.size, stream)

    def _launch(self, step: Launch, address: Address, stream: int | None) -> Queue:
        function, shape, abi = self.launched(step)
        values = [
            *packed(step, abi, address, self._gpu.tensor_map),
            *self._hidden(step, abi, stream),
        ]
        return self._gpu.launcher(function, shape, values, stream)

    def _hidden(self, step: Launch, abi: KernelAbi, stream: int | None) -> list[bytes]:
        """Pointers behind the arguments: memory for each block, null where none is needed."""
        addresses = [
            self._lent(one.name, one.size, stream) if one.size else 0
            for one in hidden_scratch(step, abi)
        ]
        return [struct.pack("<Q", address) for address in addresses]

    def free(self) -> None:
        """Modules and memory."""
        for module in self._modules:
            self._gpu.unload(module)
        for address in self._memory:
            self._gpu.free(address)
        self._modules.clear()
        self._memory.clear()
        self._scratch.clear()
