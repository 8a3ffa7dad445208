"""What a built GPU kernel carries: its binaries, and with each the whole launch ABI.

One artifact holds every kernel that a config launches (a split-K product has two). As bytes it is a
magic line, the length of a JSON header, the header, and the binaries one after the other. A header
of another version is refused by name: a launch with a misread ABI would write anywhere.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import read_json

MAGIC = b"skipjack gpu artifact\n"
ABI = "gpu-1"
"""Version of the header and of launch plans; goes into `Blob.abi`."""
_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 1 << 24


@dataclass(frozen=True, slots=True)
class Argument:
    """A run-time argument, in Triton's words: ``*fp16``, ``i32``, ``tensordesc<...>``."""

    type: str
    divisible: int = 1
    """The compiler took the value, or the address, to be a multiple of this."""


@dataclass(frozen=True, slots=True)
class KernelAbi:
    """Everything that a launch of one kernel needs besides its arguments' values."""

    name: str
    """As launch plans call it."""
    symbol: str
    """As the binary calls it."""
    arguments: tuple[Argument, ...]
    threads: int
    """Of a block."""
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    dependent: bool = False
    """Programmatic dependent launch: it may start before the kernel before it has ended."""
    scratch_bytes: int = 0
    """Global scratch memory of each block, which the launcher gives as an argument of its own."""
    scratch_align: int = 1
    profile_bytes: int = 0
    profile_align: int = 1
    hidden_pointers: int = 2
    """Pointers after the last argument: global scratch, then profile scratch."""
    descriptors: tuple[Mapping[str, Any], ...] = ()
    """One for each ``tensordesc`` argument in order: how the hardware's descriptor is encoded."""
    registers: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GpuArtifact:
    """Binaries for one target."""

    target: str
    """``sm_90``, ``gfx942``."""
    kernels: tuple[KernelAbi, ...]
    binaries: tuple[bytes, ...]
    """One for each kernel."""
    compiler: str = ""
    least_driver: tuple[int, int] = (0, 0)
    """CUDA or HIP version that the binaries need."""
    notes: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, name: str) -> KernelAbi:
        """The one that a launch plan names."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        have = ", ".join(kernel.name for kernel in self.kernels)
        raise SkipjackError(f"the artifact has no kernel {name!r}, only {have}")


def pack(artifact: GpuArtifact) -> bytes:
    """As bytes; equal artifacts give equal bytes."""
    header = {
        "abi": ABI,
        "target": artifact.target,
        "compiler": artifact.compiler,
        "least_driver": list(artifact.least_driver),
        "notes": dict(artifact.notes),
        "kernels": [asdict(kernel) for kernel in artifact.kernels],
        "lengths": [len(binary) for binary in artifact.binaries],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return b"".join([MAGIC, _LENGTH.pack(len(text)), text, *artifact.binaries])


def unpack(data: bytes) -> GpuArtifact:
    """The artifact; `SkipjackError` in one sentence if these bytes are none of this version."""
    if not data.startswith(MAGIC):
        raise SkipjackError("these bytes are no GPU artifact")
    try:
        start = len(MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack(data[len(MAGIC) : start])
        header = read_json(data[start : start + length], most=_LARGEST_HEADER)
        if header["abi"].plain != ABI:
            raise SkipjackError(
                f"launch ABI {header['abi'].plain!r} is not known here, only {ABI!r}"
            )
        said = header.of(_Header)
        binaries = _cut(data[start + length :], said.lengths)
        if len(binaries) != len(said.kernels):
            raise MalformedError(f"{len(said.kernels)} kernels have {len(binaries)} binaries")
    except (MalformedError, struct.error) as error:
        raise SkipjackError(f"the GPU artifact is damaged: {error}") from None
    return GpuArtifact(
        said.target, said.kernels, binaries, said.compiler, said.least_driver, said.notes
    )


@dataclass(frozen=True, slots=True)
class _Header:
    """What stands before the binaries."""

    abi: str
    target: str
    compiler: str
    least_driver: tuple[int, int]
    notes: Mapping[str, str]
    kernels: tuple[KernelAbi, ...]
    lengths: tuple[int, ...]


def _cut(rest: bytes, lengths: Sequence[int]) -> tuple[bytes, ...]:
    if min(lengths, default=0) < 0 or sum(lengths) != len(rest):
        raise MalformedError(
            f"{sum(lengths)} bytes of binaries are announced, {len(rest)} are there"
        )
    binaries, at = [], 0
    for length in lengths:
        binaries.append(rest[at : at + length])
        at += length
    return tuple(binaries)
