"""A CPU that is not here, described by its name alone: what LLVM says of it, and usual caches."""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
from dataclasses import dataclass, replace

from skipjack.children import python_command
from skipjack.core.cpu_levels import AARCH64, X86_LEVELS, features_of, level_of, vector_bytes
from skipjack.core.device import BY_NAME, Device, parse_device_name
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import cpu, llvm
from skipjack.reading import read_json

_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_PROCESSOR = re.compile(r"^\s+(\S+)\s+- Select the .* processor", re.MULTILINE)
_PROBE_TIMEOUT_S = 60.0
# LLVM knows no caches. These are what most CPUs of a kind have at least; blocks chosen for them
# fit larger ones too.
_CACHES = {
    "x86": (("L1", 32 << 10), ("L2", 256 << 10), ("L3", 8 << 20)),
    "x86 with AVX-512": (("L1", 32 << 10), ("L2", 1 << 20), ("L3", 16 << 20)),
    "arm": (("L1", 64 << 10), ("L2", 512 << 10), ("L3", 8 << 20)),
}


def describe(text: str) -> Device:
    """The CPU that ``arch/units`` names, with the units as its threads.

    `arch` is a name that LLVM knows, or ``aarch64`` for any 64-bit ARM with NEON. This machine's
    own CPU is described as it is found here, so that what is built for it is used by tunings here.
    """
    arch, units = parse_device_name(text)
    if arch == llvm.host()[1]:
        return replace(cpu.detect(), units=units)
    features = _features(arch)
    device = Device("cpu", arch, units, f"{arch}{BY_NAME}", features, cores=units)
    width = vector_bytes(device.level)
    kind = "arm" if device.level == AARCH64 else "x86 with AVX-512" if width == 64 else "x86"
    return replace(device, vector_bytes=width, caches=_CACHES[kind])


def stand_in(named: Device, here: Device) -> Device:
    """A named CPU as this machine runs its code: its level and caches, the memory and cores here.

    Its model says on which one it is timed, so that results are of a class of their own: a real CPU
    of that name takes them for hints and not for answers.
    """
    return replace(
        named,
        model=f"{here.model}, as {named.arch}",
        cores=here.cores,
        memory_bytes=here.memory_bytes,
        serial=here.serial,
    )


def absent_features(device: Device) -> tuple[str, ...]:
    """What the name of this machine's CPU implies and the processor does not have."""
    if device.arch == "generic":
        return ()
    return tuple(sorted(set(_features(device.arch)) - set(llvm.host_features())))


def level_text(device: Device) -> str:
    """The level of this machine's CPU, why it is no higher, and what its name promises in vain."""
    has = level_of(device.arch, llvm.host_features())
    text = device.level
    if has != device.level:
        text += f" (set by {llvm.LEVEL_VARIABLE}; the CPU has {has})"
    if absent := absent_features(device):
        text += f"; {device.arch} implies {', '.join(absent)}, which this machine lacks"
    return text


def named_level(arch: str) -> str:
    """The level that the name of a CPU implies; `UsageError` if LLVM does not know it."""
    return level_of(arch, _features(arch))


def _features(arch: str) -> tuple[str, ...]:
    if arch == "generic":
        raise UsageError("device generic is no instruction set: write x86-64 or aarch64")
    if arch in X86_LEVELS:
        return features_of(arch)
    known = [AARCH64]
    name = cpu.llvm_name(arch)
    for triple in (_ARM,) if arch == AARCH64 else (_X86, _ARM):
        answer = _ask(triple, name)
        if name in answer.processors:
            if answer.features is None:
                raise UsageError(f"device {arch} has no 64-bit mode, so nothing is built for it")
            return answer.features
        known += answer.processors
    close = difflib.get_close_matches(arch, known, 1)
    hint = f"did you mean {close[0]}?" if close else "haswell, znver4 and neoverse-n1 are some"
    raise UsageError(f"LLVM knows no CPU {arch!r}: {hint}")


@dataclass(frozen=True, slots=True)
class _Answer:
    processors: tuple[str, ...]
    features: tuple[str, ...] | None
    """None if LLVM ended on it."""


@functools.cache
def _ask(triple: str, name: str) -> _Answer:
    command = python_command("skipjack.native.cpu_probe", triple, name)
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SkipjackError(
            f"LLVM did not say within {_PROBE_TIMEOUT_S:g} s what CPU {name} is; try again"
        ) from None
    processors = tuple(_PROCESSOR.findall(done.stderr))
    if not processors:
        raise SkipjackError(
            f"LLVM does not list its CPUs for {triple}: {done.stderr.strip()[-300:]}"
        )
    said = read_json(done.stdout, "LLVM's features").elements() if done.returncode == 0 else None
    features = None if said is None else tuple(sorted(feature.text() for feature in said))
    return _Answer(processors, features)
