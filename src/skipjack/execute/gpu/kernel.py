"""Kernels of an artifact on a GPU: loaded once, bound to arrays by a launch plan, launched with
arguments that were checked against their ABI.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from threading import Lock
from typing import Any, Protocol

from skipjack.errors import SkipjackError
from skipjack.gpu import (
    ABI,
    Argument,
    Descriptor,
    Fill,
    Gpu,
    GpuArtifact,
    KernelAbi,
    Launch,
    LaunchShape,
    Number,
    Pointer,
    Scratch,
    Step,
    Value,
    blocks,
    fits,
    scratch_sizes,
    unpack,
)

# The arguments of a launch as the bytes that a kernel reads, checked against its ABI.

Address = Callable[[Pointer | Scratch], int]
TensorMap = Callable[[int, Sequence[int], Sequence[int], dict[str, Any]], bytes]

_INTEGERS = {
    "i1": "<b",
    "i8": "<b",
    "i16": "<h",
    "i32": "<i",
    "i64": "<q",
    "u1": "<B",
    "u8": "<B",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
}
_FLOATS = {"fp32": "<f", "f32": "<f", "fp64": "<d", "f64": "<d"}


def packed(
    launch: Launch, abi: KernelAbi, address: Address, tensor_map: TensorMap
) -> Iterator[bytes]:
    """The bytes of each argument in order, including those that descriptors expand to."""
    if len(launch.values) != len(abi.arguments):
        raise SkipjackError(
            f"kernel {abi.name} takes {len(abi.arguments)} arguments, "
            f"but its launch plan has {len(launch.values)}"
        )
    descriptors = iter(abi.descriptors)
    for number, (value, argument) in enumerate(zip(launch.values, abi.arguments, strict=True)):
        where = f"argument {number} of kernel {abi.name}"
        if isinstance(value, Descriptor):
            meta = dict(next(descriptors)) if abi.descriptors else None
            yield from _descriptor(value, argument, meta, address, tensor_map, where)
        elif isinstance(value, Number):
            yield _number(value, argument, where)
        else:
            yield _pointer(value, argument, address, where)


def _pointer(value: Value, argument: Argument, address: Address, where: str) -> bytes:
    if not isinstance(value, Pointer | Scratch) or not argument.type.startswith("*"):
        raise SkipjackError(f"{where} is {argument.type}, but the launch plan has an address")
    at = address(value)
    _check_divisible(at, argument, where)
    return struct.pack("<Q", at)


def _number(value: Number, argument: Argument, where: str) -> bytes:
    integer = value.type in _INTEGERS
    form = (_INTEGERS if integer else _FLOATS).get(argument.type)
    if form is None:
        raise SkipjackError(f"{where} is {argument.type}, but the launch plan has a {value.type}")
    if integer:
        _check_divisible(int(value.value), argument, where)
    try:
        return struct.pack(form, int(value.value) if integer else float(value.value))
    except (struct.error, OverflowError):
        raise SkipjackError(f"{where} is {argument.type}; {value.value} is out of range") from None


def _descriptor(
    value: Descriptor,
    argument: Argument,
    meta: dict[str, Any] | None,
    address: Address,
    tensor_map: TensorMap,
    where: str,
) -> Iterator[bytes]:
    """The hardware's descriptor or, without one, base, shape and strides; then shape and strides.

    That is how Triton passes descriptors.
    """
    if not argument.type.startswith("tensordesc"):
        raise SkipjackError(f"{where} is {argument.type}, but the launch plan has a descriptor")
    at = address(value.of)
    if meta is None:
        yield struct.pack("<Q", at)
        for size in (*value.shape, *value.strides):
            yield struct.pack("<q", size)
        yield b"\0"  # elements outside are read as 0, not as NaN
    else:
        yield tensor_map(at, value.shape, value.strides, meta)
    for size in value.shape:
        yield struct.pack("<i", size)
    for stride in value.strides:
        yield struct.pack("<q", stride)


def _check_divisible(value: int, argument: Argument, where: str) -> None:
    if value % argument.divisible:
        raise SkipjackError(
            f"{where} was compiled for multiples of {argument.divisible}; {value} is not one"
        )


# Kernels of an artifact on a GPU: loaded once, then bound to sets of arrays by a launch plan.

Queue = Callable[[], None]

_POISON = 0xFF
"""The value of every byte: NaN in all types that we use."""


class Placed(Protocol):
    """Tensors in the GPU's memory."""

    @property
    def addresses(self) -> Mapping[str, int]:
        """Addresses by the names of the tensors."""
        ...


def checked_artifact(data: bytes, digest: str, abi: str, arch: str) -> GpuArtifact:
    """The artifact, after checking its digest, its ABI and that it is for this GPU."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise SkipjackError("the artifact's bytes do not match its digest; it was not loaded")
    if abi != ABI:
        raise SkipjackError(f"launch ABI {abi!r} is unknown here; it must be {ABI!r}")
    artifact = unpack(data)
    if not fits(artifact.target, arch):
        raise SkipjackError(f"the artifact is for {artifact.target}, but this GPU is {arch}")
    return artifact


def hidden_scratch(step: Launch, abi: KernelAbi) -> list[Scratch]:
    """Memory whose addresses are passed after the arguments; of size 0 if none is needed."""
    count = blocks(step) * prod(abi.cluster)
    kinds = (("global", abi.scratch_bytes), ("profile", abi.profile_bytes))
    found = [Scratch(f"@{kind} {step.kernel} {count}", size * count) for kind, size in kinds]
    return found[: abi.hidden_pointers]


class LoadedKernel:
    """The functions and scratch memory of one candidate, which `free` releases.

    Calls on one stream follow each other and share scratch memory; every stream has its own.
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
            self._artifact.kernel(name)  # raises an error that names a missing kernel
        for abi, binary in zip(self._artifact.kernels, self._artifact.binaries, strict=True):
            if abi.name in used:
                module = self._gpu.load(binary)
                self._modules.append(module)
                self._functions[abi.name] = self._gpu.function(module, abi.symbol, abi.shared_bytes)

    def _lent(self, name: str, size: int, stream: int | None) -> int:
        """The address of the scratch memory of this name, which steps on a stream share."""
        with self._lending:
            key = stream, name
            if key not in self._scratch:
                self._scratch[key] = self._gpu.allocate(max(1, size))
                self._memory.append(self._scratch[key])
            return self._scratch[key]

    def poison(self) -> None:
        """Fill scratch memory with NaN, so that old content cannot look like a result."""
        for name, size in self._sizes.items():
            self._gpu.fill(self._lent(name, size, None), _POISON, size)

    @property
    def alignment(self) -> int:
        """The alignment of addresses that the compiler assumed."""
        pointers = (
            argument
            for abi in self._artifact.kernels
            for argument in abi.arguments
            if argument.type.startswith("*")
        )
        return max((argument.divisible for argument in pointers), default=1)

    @property
    def gpu(self) -> Gpu:
        """The GPU on which it is loaded."""
        return self._gpu

    @property
    def steps(self) -> Sequence[Step]:
        """The launch plan."""
        return self._steps

    def launched(self, step: Launch) -> tuple[int, LaunchShape, KernelAbi]:
        """The function of a step, the shape of its launch, and its ABI."""
        abi = self._artifact.kernel(step.kernel)
        shape = LaunchShape(
            step.grid, abi.threads, abi.shared_bytes, abi.cluster, abi.cooperative, abi.dependent
        )
        return self._functions[step.kernel], shape, abi

    def bind(self, arrays: Placed, stream: int | None = None) -> Queue:
        """A function that queues all steps on these arrays; arguments are checked and packed now.

        The steps go to the GPU's own stream, or to the one whose handle is passed.
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
            raise SkipjackError(f"the launch plan names an unknown tensor {place.tensor!r}")
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
        """Pointers after the arguments: memory for each block, null if none is needed."""
        addresses = [
            self._lent(one.name, one.size, stream) if one.size else 0
            for one in hidden_scratch(step, abi)
        ]
        return [struct.pack("<Q", address) for address in addresses]

    def free(self) -> None:
        """Unload the modules and free the memory."""
        for module in self._modules:
            self._gpu.unload(module)
        for address in self._memory:
            self._gpu.free(address)
        self._modules.clear()
        self._memory.clear()
        self._scratch.clear()
