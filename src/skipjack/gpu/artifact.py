"""What a built GPU kernel carries: its binaries, the launch ABI of each, and on which GPUs they
run.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from skipjack.core import Device
from skipjack.errors import MalformedError, SkipjackError
from skipjack.gpu.driver import GpuError
from skipjack.reading import read_json

# The artifact of a GPU build: its binaries, each with the complete launch ABI.
#
# An artifact holds all kernels that a config launches (a split-K product has two). Serialized, it
# is a magic line, the length of a JSON header, the header, and the concatenated binaries. Headers
# of another version are rejected: a launch with a misread ABI would write to arbitrary addresses.

MAGIC = b"skipjack gpu artifact\n"
ABI = "gpu-1"
"""Version of the header and of launch plans; goes into `Blob.abi`."""
_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 1 << 24


@dataclass(frozen=True, slots=True)
class Argument:
    """A run-time argument with Triton's name of its type, as ``*fp16`` or ``tensordesc<...>``."""

    type: str
    divisible: int = 1
    """The compiler assumed that the value or address is a multiple of this."""


@dataclass(frozen=True, slots=True)
class KernelAbi:
    """Everything that a launch of a kernel needs, except the values of its arguments."""

    name: str
    """Its name in launch plans."""
    symbol: str
    """Its name in the binary."""
    arguments: tuple[Argument, ...]
    threads: int
    """Threads of a block."""
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    dependent: bool = False
    """Programmatic dependent launch: it may start before its predecessor has ended."""
    scratch_bytes: int = 0
    """Global scratch memory of each block, which the launcher passes as an extra argument."""
    scratch_align: int = 1
    profile_bytes: int = 0
    profile_align: int = 1
    hidden_pointers: int = 2
    """Pointers after the last argument: global scratch, then profile scratch."""
    descriptors: tuple[Mapping[str, Any], ...] = ()
    """The encoding of the hardware's descriptor for each ``tensordesc`` argument, in order."""
    registers: int = 0
    spill_bytes: int = 0


@dataclass(frozen=True, slots=True)
class GpuArtifact:
    """The binaries of a config for one target."""

    target: str
    """``sm_90``, ``gfx942``."""
    kernels: tuple[KernelAbi, ...]
    binaries: tuple[bytes, ...]
    """One for each kernel."""
    compiler: str = ""
    least_driver: tuple[int, int] = (0, 0)
    """The least CUDA or HIP version that the binaries need."""
    notes: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, name: str) -> KernelAbi:
        """The kernel that a launch plan names."""
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        have = ", ".join(kernel.name for kernel in self.kernels)
        raise SkipjackError(f"the artifact has no kernel {name!r}, only {have}")


def pack(artifact: GpuArtifact) -> bytes:
    """Serialize an artifact; equal artifacts give equal bytes."""
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
    """Deserialize an artifact; `SkipjackError` if the bytes are not one of this version."""
    if not data.startswith(MAGIC):
        raise SkipjackError("these bytes are not a GPU artifact")
    try:
        start = len(MAGIC) + _LENGTH.size
        (length,) = _LENGTH.unpack(data[len(MAGIC) : start])
        header = read_json(data[start : start + length], most=_LARGEST_HEADER)
        if header["abi"].plain != ABI:
            raise SkipjackError(
                f"launch ABI {header['abi'].plain!r} is not known here, only {ABI!r}"
            )
        parsed = header.of(_Header)
        binaries = _cut(data[start + length :], parsed.lengths)
        if len(binaries) != len(parsed.kernels):
            raise MalformedError(f"{len(parsed.kernels)} kernels have {len(binaries)} binaries")
    except (MalformedError, struct.error) as error:
        raise SkipjackError(f"the GPU artifact is damaged: {error}") from None
    return GpuArtifact(
        parsed.target, parsed.kernels, binaries, parsed.compiler, parsed.least_driver, parsed.notes
    )


@dataclass(frozen=True, slots=True)
class _Header:
    """The header before the binaries."""

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
            f"the header states {sum(lengths)} bytes of binaries, but there are {len(rest)}"
        )
    binaries, at = [], 0
    for length in lengths:
        binaries.append(rest[at : at + length])
        at += length
    return tuple(binaries)


# Whether an artifact can run on a GPU, checked before anything is loaded.

_NVIDIA = re.compile(r"sm_(\d+)(\d)([af]?)")
_OWN_INSTRUCTIONS = 9
"""From this generation on, compilers use instructions of one chip only (``sm_90a``)."""


def fits(target: str, arch: str) -> bool:
    """Whether code for a target runs on an architecture.

    Older NVIDIA code runs on later chips of its generation (sm_80 on sm_86); all other code runs
    only on the architecture that it was built for.
    """
    built, here = _NVIDIA.fullmatch(target), _NVIDIA.fullmatch(arch)
    if not built or not here:
        return target == arch
    if int(built[1]) >= _OWN_INSTRUCTIONS or built[3]:
        return built.group(1, 2) == here.group(1, 2)
    return built[1] == here[1] and int(built[2]) <= int(here[2])


def check_fit(artifact: GpuArtifact, device: Device, driver: tuple[int, int]) -> None:
    """`GpuError` if the artifact cannot run on this GPU with this driver."""
    if not fits(artifact.target, device.arch):
        raise GpuError(f"the artifact is for {artifact.target}, but this GPU is {device.arch}")
    if driver < artifact.least_driver:
        need, have = (".".join(map(str, pair)) for pair in (artifact.least_driver, driver))
        vendor = "CUDA" if device.kind == "cuda" else "HIP"
        raise GpuError(
            f"the artifact needs a driver of {vendor} {need} or later; this is {have}, update it"
        )
