"""Kernels of an artifact on a GPU: loaded once, then bound to sets of arrays by a launch plan."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Protocol

from skipjack.errors import SkipjackError
from skipjack.execute.gpu.arguments import packed
from skipjack.gpu.artifact import ABI, GpuArtifact, KernelAbi, unpack
from skipjack.gpu.driver import Gpu, LaunchShape
from skipjack.gpu.fitting import fits
from skipjack.gpu.plan import Fill, Launch, Pointer, Scratch, Step, blocks, scratch_sizes

Queue = Callable[[], None]


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


class LoadedKernel:
    """The functions and lent memory of one candidate. `free` gives all of it back."""

    def __init__(self, gpu: Gpu, artifact: GpuArtifact, steps: Sequence[Step]) -> None:
        self._gpu, self._artifact, self._steps = gpu, artifact, steps
        self._modules: list[int] = []
        self._functions: dict[str, int] = {}
        self._memory: list[int] = []
        try:
            self._load()
            self._scratch = {
                name: self._allocate(size) for name, size in scratch_sizes(steps).items()
            }
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

    def _allocate(self, size: int) -> int:
        address = self._gpu.allocate(max(1, size))
        self._memory.append(address)
        return address

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

    def bind(self, arrays: Placed) -> Queue:
        """What queues all steps on these arrays; everything is checked and packed now."""
        queues = [
            self._fill(step, arrays) if isinstance(step, Fill) else self._launch(step, arrays)
            for step in self._steps
        ]
        if len(queues) == 1:
            return queues[0]

        def queue() -> None:
            for one in queues:
                one()

        return queue

    def _address(self, place: Pointer | Scratch, arrays: Placed) -> int:
        if isinstance(place, Scratch):
            return self._scratch[place.name]
        if place.tensor not in arrays.addresses:
            raise SkipjackError(f"the launch plan names a tensor {place.tensor!r} that is not here")
        return arrays.addresses[place.tensor] + place.offset

    def _fill(self, step: Fill, arrays: Placed) -> Queue:
        at, gpu = self._address(step.where, arrays), self._gpu
        return lambda: gpu.fill(at, step.byte, step.size)

    def _launch(self, step: Launch, arrays: Placed) -> Queue:
        abi = self._artifact.kernel(step.kernel)
        shape = LaunchShape(
            step.grid, abi.threads, abi.shared_bytes, abi.cluster, abi.cooperative, abi.dependent
        )
        values = [
            *packed(step, abi, lambda at: self._address(at, arrays), self._gpu.tensor_map),
            *self._hidden(step, abi),
        ]
        gpu, function = self._gpu, self._functions[step.kernel]
        return lambda: gpu.launch(function, shape, values)

    def _hidden(self, step: Launch, abi: KernelAbi) -> list[bytes]:
        """Pointers behind the arguments: memory for each block, null where none is needed.

        Calls on one stream follow each other, so that all sets of arrays share it.
        """
        count = blocks(step) * prod(abi.cluster)
        addresses = []
        for kind, size in (("global", abi.scratch_bytes), ("profile", abi.profile_bytes)):
            key = f"@{kind} {step.kernel} {count}"
            if size and key not in self._scratch:
                self._scratch[key] = self._allocate(size * count)
            addresses.append(self._scratch[key] if size else 0)
        return [struct.pack("<Q", address) for address in addresses[: abi.hidden_pointers]]

    def free(self) -> None:
        """Modules and memory."""
        for module in self._modules:
            self._gpu.unload(module)
        for address in self._memory:
            self._gpu.free(address)
        self._modules.clear()
        self._memory.clear()
