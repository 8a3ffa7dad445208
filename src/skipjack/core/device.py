"""Devices: their identities and measured peaks, and the levels of CPU instruction sets."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import log

from skipjack.errors import UsageError
from skipjack.reading import Field

# Levels of CPU instruction sets, for which machine code is built.
#
# The levels of x86-64 are those of its psABI, which LLVM, GCC and glibc know by the same names. A
# CPU has a level if it has all of its features. 64-bit ARM has one level: NEON, which every such
# CPU has.

AARCH64 = "aarch64"
_FEATURES_ADDED = {
    "x86-64": ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2"),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
"""The features that each level of x86-64 adds to the one below, by LLVM's names."""
X86_LEVELS = tuple(_FEATURES_ADDED)
"""The levels of x86-64, the lowest first."""
_VECTOR_BYTES = {"x86-64-v3": 32, "x86-64-v4": 64}
# Prefixes of LLVM's names of 64-bit ARM processors.
_ARM_PREFIXES = (
    "a64fx",
    AARCH64,
    "ampere",
    "apple",
    "carmel",
    "cortex-",
    "neoverse",
    "oryon",
    "thunderx",
)


def is_arm(arch: str, features: Collection[str]) -> bool:
    """Whether it is 64-bit ARM: by the features or, if these are empty, by the name."""
    return "neon" in features or arch.startswith(_ARM_PREFIXES)


def level_of(arch: str, features: Collection[str]) -> str:
    """The highest level whose features are all in `features`; the name implies none."""
    if is_arm(arch, features):
        return AARCH64
    found = X86_LEVELS[0]
    for level in X86_LEVELS[1:]:
        if not set(_FEATURES_ADDED[level]) <= set(features):
            break
        found = level
    return found


def features_of(level: str) -> tuple[str, ...]:
    """All features of a level, sorted; `UsageError` if the level does not exist."""
    if level == AARCH64:
        return ("fp-armv8", "neon")
    if level not in X86_LEVELS:
        raise UsageError(
            f"{level!r} is not an instruction set level; "
            f"choose from {', '.join((*X86_LEVELS, AARCH64))}"
        )
    below = X86_LEVELS[: X86_LEVELS.index(level) + 1]
    return tuple(sorted(feature for each in below for feature in _FEATURES_ADDED[each]))


def used_features(arch: str, features: Collection[str]) -> tuple[str, ...]:
    """Features that code for a CPU may use: its whole level, and those of no level (``avxvnni``).

    If a CPU has only some features of the next level, code uses none of these.
    """
    graded = {feature for added in _FEATURES_ADDED.values() for feature in added}
    level = features_of(level_of(arch, features))
    return tuple(sorted({*level, *(set(features) - graded)}))


def levels_up_to(level: str) -> tuple[str, ...]:
    """The levels whose code a CPU of this level can run, its own first."""
    if level not in X86_LEVELS:
        return (level,)
    return X86_LEVELS[X86_LEVELS.index(level) :: -1]


def vector_bytes(level: str) -> int:
    """The width of the widest vectors that kernels use; SVE counts as NEON."""
    return _VECTOR_BYTES.get(level, 16)


def lanes_for(size: int, lanes: int) -> int:
    """Lanes of a vector for `size` elements, at most `lanes`: narrower instead of masked."""
    return min(lanes, 1 << (size - 1).bit_length())


def missing_features(needed: str, features: Iterable[str]) -> tuple[str, ...]:
    """Features of the level `needed` that are not among `features`."""
    return tuple(sorted(set(features_of(needed)) - set(features)))


# Devices that run kernels: a record with three keys, and measured peaks.

BY_NAME = ", by name"
"""Suffix of the model of a device that is known only by its name."""
_DIGEST_SHOWN = 6
_SPELLING = re.compile(r"([A-Za-z0-9_-]+)/([1-9][0-9]{0,5})")


ABI = "slots-1"
"""How kernels for CPUs are called: ``void symbol(slot *slots)``, each slot 8 bytes, a pointer or an
i64. The artifact of a GPU kernel has an ABI of its own."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device. `units` is its number of compute units, or on a CPU of threads a kernel may use."""

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
        """The device from the record that `dataclasses.asdict` and JSON made of it."""
        return Field(record, where).of(cls)

    @property
    def name(self) -> str:
        """The name on the command line: ``znver4/1``."""
        return f"{self.arch}/{self.units}"

    @property
    def by_name(self) -> bool:
        """Whether the device was never detected, so that only its name is known."""
        return self.model.endswith(BY_NAME)

    @property
    def level(self) -> str:
        """The instruction set level of a CPU, such as ``x86-64-v3``; the architecture of a GPU."""
        return level_of(self.arch, self.features) if self.kind == "cpu" else self.arch

    @property
    def compat_key(self) -> str:
        """The target of machine code for this device: ``cpu:x86-64-v3``."""
        return self._compat(self.level)

    @property
    def loadable(self) -> tuple[str, ...]:
        """The compat keys of all code that runs on this device, the best first."""
        levels = levels_up_to(self.level) if self.kind == "cpu" else (self.level,)
        return tuple(map(self._compat, levels))

    def _compat(self, level: str) -> str:
        if self.kind != "cpu":
            return f"{self.kind}:{level}:{_digest(','.join(sorted(self.features)))}"
        # Apple's object files have their own format.
        return f"cpu:{level}:macos" if self.arch.startswith("apple") else f"cpu:{level}"

    @property
    def class_key(self) -> str:
        """The class of devices that a bank entry is for: model, units and memory hierarchy."""
        caches = ",".join(f"{level}={size}" for level, size in self.caches)
        return f"{self.kind}:{self.name}:{_digest(f'{self.model}|{self.vector_bytes}|{caches}')}"

    @property
    def instance_key(self) -> str:
        """This one device, for measurements of its noise."""
        return f"{self.class_key}:{self.serial}"

    def cache_bytes(self, level: str) -> int:
        """Size of a cache level (``L1``, ``L2``, ``L3``); 0 if the device does not have it."""
        return dict(self.caches).get(level, 0)


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates of one thread of a device, measured by dedicated kernels."""

    flops_per_s: tuple[tuple[str, float], ...]
    """Arithmetic rate by dtype."""
    bytes_per_s: tuple[tuple[int, float], ...]
    """Bandwidth of two reads and a write, by footprint in bytes in ascending order."""
    read_bytes_per_s: tuple[tuple[int, float], ...] = ()
    """Bandwidth of reads alone, by footprint."""
    noise: float = 0.0
    """Relative spread (interquartile range over median) of a reference kernel."""

    def flops(self, dtype: str) -> float:
        """Peak arithmetic rate for a dtype, 0 if it was not measured."""
        return dict(self.flops_per_s).get(dtype, 0.0)

    def bandwidth(self, footprint_bytes: int, read_share: float = 2 / 3) -> float:
        """Bandwidth at a footprint for a mix of reads and writes, interpolated."""
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
        raise UsageError(
            f"device {text!r} is not of the form arch/units, such as znver4/1 or sm_90/132"
        )
    return match[1], int(match[2])


def display_names(devices: Iterable[Device]) -> dict[str, str]:
    """Names of these devices in tables, by class key: see `distinct_names`."""
    return distinct_names(
        (device.class_key, device.name, device.vector_bytes) for device in devices
    )


def distinct_names(
    devices: Iterable[tuple[str, str, int]], *, by_class: bool = False
) -> dict[str, str]:
    """Distinct names for tables, by class key, of devices given as (class key, name, vector bytes).

    A name is that of the command line. If two devices of one name differ in the width of their
    vectors, it is added: ``znver4/1 (256-bit)``. If they have the same width, `by_class` adds the
    start of the digest at the end of their class keys: ``znver4/1 (1f8e0a)``.
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
    """The name in a class key: ``znver4/1`` for ``cpu:znver4/1:1f8e0a...``."""
    return class_key.split(":")[1] if class_key.count(":") > 1 else class_key


def arch_of(name: str) -> str:
    """The architecture in a device's name: ``gfx900`` for ``gfx900/56``."""
    return name.partition("/")[0]


def _between(points: tuple[tuple[int, float], ...], at: int) -> float:
    """Interpolate linearly in the logarithm of the footprint; constant beyond the ends."""
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
