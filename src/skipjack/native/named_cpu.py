"""CPUs described by name only: their features according to LLVM, and typical caches."""

from __future__ import annotations

import difflib
import functools
import re
import subprocess
from dataclasses import dataclass, replace

from skipjack.core import (
    AARCH64,
    BY_NAME,
    X86_LEVELS,
    Device,
    features_of,
    level_of,
    parse_device_name,
    vector_bytes,
)
from skipjack.errors import SkipjackError, UsageError
from skipjack.native import cpu, llvm
from skipjack.processes import python_command
from skipjack.reading import read_json

_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_PROCESSOR = re.compile(r"^\s+(\S+)\s+- Select the .* processor", re.MULTILINE)
_PROBE_TIMEOUT_S = 60.0
# LLVM does not know caches. These are the least that most CPUs of a kind have; blocks chosen for
# them fit larger caches, too.
_CACHES = {
    "x86": (("L1", 32 << 10), ("L2", 256 << 10), ("L3", 8 << 20)),
    "x86 with AVX-512": (("L1", 32 << 10), ("L2", 1 << 20), ("L3", 16 << 20)),
    "arm": (("L1", 64 << 10), ("L2", 512 << 10), ("L3", 8 << 20)),
}


def describe(text: str) -> Device:
    """The CPU that ``arch/units`` names, with the units as its threads.

    `arch` is a name that LLVM knows, or ``aarch64`` for any 64-bit ARM with NEON. The CPU of this
    machine is described as detected, so that builds for it are used by tunings here.
    """
    arch, units = parse_device_name(text)
    if arch == llvm.host()[1]:
        return replace(cpu.detect(), units=units)
    features = _features(arch)
    device = Device("cpu", arch, units, f"{arch}{BY_NAME}", features, cores=units)
    width = vector_bytes(device.level)
    kind = "arm" if device.level == AARCH64 else "x86 with AVX-512" if width == 64 else "x86"
    return replace(device, vector_bytes=width, caches=_CACHES[kind])


def emulated(named: Device, here: Device) -> Device:
    """A named CPU emulated by this machine: its level and caches, with the memory and cores here.

    Its model names the CPU on which it is timed, so that results form a separate device class: a
    real CPU of that name uses them as hints and not as answers.
    """
    return replace(
        named,
        model=f"{here.model}, as {named.arch}",
        cores=here.cores,
        memory_bytes=here.memory_bytes,
        serial=here.serial,
    )


def absent_features(device: Device) -> tuple[str, ...]:
    """Features that the name of this machine's CPU implies and the processor lacks."""
    if device.arch == "generic":
        return ()
    return tuple(sorted(set(_features(device.arch)) - set(llvm.host_features())))


def level_text(device: Device) -> str:
    """The level of this machine's CPU, what limits it, and features that it lacks."""
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
        raise UsageError("generic is not an instruction set: write x86-64 or aarch64")
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
    hint = f"did you mean {close[0]}?" if close else "haswell, znver4 and neoverse-n1 are examples"
    raise UsageError(f"LLVM does not know the CPU {arch!r}: {hint}")


@dataclass(frozen=True, slots=True)
class _Answer:
    processors: tuple[str, ...]
    features: tuple[str, ...] | None
    """None if LLVM ended the process."""


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
            f"LLVM did not describe the CPU {name} within {_PROBE_TIMEOUT_S:g} s; try again"
        ) from None
    processors = tuple(_PROCESSOR.findall(done.stderr))
    if not processors:
        raise SkipjackError(
            f"LLVM does not list its CPUs for {triple}: {done.stderr.strip()[-300:]}"
        )
    listed = read_json(done.stdout, "LLVM's features").elements() if done.returncode == 0 else None
    features = None if listed is None else tuple(sorted(feature.text() for feature in listed))
    return _Answer(processors, features)
