"""What runs a kernel: a record with three keys, and the peaks that were measured on it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import log

from skipjack.core.cpu_levels import level_of, levels_up_to
from skipjack.errors import UsageError
from skipjack.reading import Field

BY_NAME = ", by name"
"""The end of the model of a device that is described by its name alone."""
_DIGEST_SHOWN = 6
_SPELLING = re.compile(r"([A-Za-z0-9_-]+)/([1-9][0-9]{0,5})")


ABI = "slots-1"
"""How kernels for CPUs are called: ``void symbol(slot *slots)``, each slot 8 bytes, a pointer or an
i64. Those for GPUs carry theirs in the artifact."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device. `units` are its compute units, or for a CPU the threads a kernel may use."""

    kind: str
    arch: str
    units: int
    model: str = ""
    features: tuple[str, ...] = ()
    cores: int = 1
    vector_bytes: int = 16
    caches: tuple[tuple[str, int], ...] = ()
    memory_bytes: int = 0
    serial: str = ""

    @classmethod
    def from_record(cls, record: object, where: str = "device") -> Device:
        """The device that `dataclasses.asdict` and JSON made this record of."""
        return Field(record, where).of(cls)

    @property
    def name(self) -> str:
        """As written on the command line: ``znver4/1``."""
        return f"{self.arch}/{self.units}"

    @property
    def by_name(self) -> bool:
        """Whether nobody has seen it: all that is known is what its name says."""
        return self.model.endswith(BY_NAME)

    @property
    def level(self) -> str:
        """The level of a CPU's instruction set, as ``x86-64-v3``; a GPU's architecture."""
        return level_of(self.arch, self.features) if self.kind == "cpu" else self.arch

    @property
    def compat_key(self) -> str:
        """What machine code is built for here: ``cpu:x86-64-v3``."""
        return self._compat(self.level)

    @property
    def loadable(self) -> tuple[str, ...]:
        """The compat keys of all code that runs here, the best first."""
        levels = levels_up_to(self.level) if self.kind == "cpu" else (self.level,)
        return tuple(map(self._compat, levels))

    def _compat(self, level: str) -> str:
        if self.kind != "cpu":
            return f"{self.kind}:{level}:{_digest(','.join(sorted(self.features)))}"
        # Apple's object files have a format of their own.
        return f"cpu:{level}:macos" if self.arch.startswith("apple") else f"cpu:{level}"

    @property
    def class_key(self) -> str:
        """What a bank entry is for: model, units, memory hierarchy."""
        caches = ",".join(f"{level}={size}" for level, size in self.caches)
        return f"{self.kind}:{self.name}:{_digest(f'{self.model}|{self.vector_bytes}|{caches}')}"

    @property
    def instance_key(self) -> str:
        """This very one: for noise."""
        return f"{self.class_key}:{self.serial}"

    def cache_bytes(self, level: str) -> int:
        """Size of a cache level (``L1``, ``L2``, ``L3``), 0 if there is none."""
        return dict(self.caches).get(level, 0)


@dataclass(frozen=True, slots=True)
class Peaks:
    """What one thread of a device reached in a measurement of its own."""

    flops_per_s: tuple[tuple[str, float], ...]
    """By dtype."""
    bytes_per_s: tuple[tuple[int, float], ...]
    """Bandwidth of two reads and a write, by footprint in bytes, ascending."""
    read_bytes_per_s: tuple[tuple[int, float], ...] = ()
    """Bandwidth of reading alone, likewise."""
    noise: float = 0.0
    """Relative spread (interquartile range over median) of the sentinel kernel."""

    def flops(self, dtype: str) -> float:
        """Peak arithmetic rate for a dtype, 0 if it was not measured."""
        return dict(self.flops_per_s).get(dtype, 0.0)

    def bandwidth(self, footprint_bytes: int, read_share: float = 2 / 3) -> float:
        """Bandwidth at a footprint for a mix of reads and writes, between the measured points."""
        mixed = _between(self.bytes_per_s, footprint_bytes)
        if not self.read_bytes_per_s:
            return mixed
        reading = _between(self.read_bytes_per_s, footprint_bytes)
        toward = min(max((read_share - 2 / 3) * 3, 0.0), 1.0)
        return float(mixed ** (1.0 - toward) * reading**toward)


def parse_device_name(text: str) -> tuple[str, int]:
    """``znver4/1`` as ``("znver4", 1)``."""
    match = _SPELLING.fullmatch(text)
    if not match:
        raise UsageError(f"device {text!r} is not of the form arch/units, as znver4/1 or sm_90/132")
    return match[1], int(match[2])


def display_names(devices: Iterable[Device]) -> dict[str, str]:
    """How tables name these devices, by class key: see `name_apart`."""
    return name_apart((device.class_key, device.name, device.vector_bytes) for device in devices)


def name_apart(
    devices: Iterable[tuple[str, str, int]], *, by_class: bool = False
) -> dict[str, str]:
    """How tables name devices of which class keys, names and bytes of a vector (or 0) are given.

    As on the command line; where two of one name differ in the width of their vectors, with it:
    ``znver4/1 (256-bit)``. Where the width does not tell them apart, `by_class` adds the start of
    the digest that their class keys end in: ``znver4/1 (1f8e0a)``.
    """
    classes: dict[str, tuple[str, int]] = {}
    for key, name, width in devices:
        classes[key] = name, width or classes.get(key, (name, 0))[1]
    widths: dict[str, set[int]] = {}
    for name, width in classes.values():
        widths.setdefault(name, set()).update({width} - {0})
    notes = {
        key: [f"{8 * width}-bit"] if width and len(widths[name]) > 1 else []
        for key, (name, width) in classes.items()
    }
    alike = Counter((name, *notes[key]) for key, (name, _) in classes.items())
    for key, (name, _) in classes.items():
        if by_class and alike[name, *notes[key]] > 1:
            notes[key].append(key.rpartition(":")[2][:_DIGEST_SHOWN])
    return {
        key: f"{name} ({', '.join(notes[key])})" if notes[key] else name
        for key, (name, _) in classes.items()
    }


def name_of_class(class_key: str) -> str:
    """The name in a device's class key: ``znver4/1`` of ``cpu:znver4/1:1f8e0a...``."""
    return class_key.split(":")[1] if class_key.count(":") > 1 else class_key


def arch_of(name: str) -> str:
    """The architecture in a device's name: ``gfx900`` of ``gfx900/56``."""
    return name.partition("/")[0]


def _between(points: tuple[tuple[int, float], ...], at: int) -> float:
    """Interpolate in the logarithm of the footprint; flat beyond the ends."""
    before: tuple[int, float] | None = None
    for point in points:
        if at <= point[0]:
            if before is None:
                return point[1]
            share = log(at / before[0]) / log(point[0] / before[0])
            return float(before[1] ** (1.0 - share) * point[1] ** share)
        before = point
    return before[1] if before else 0.0


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
