"""The CPU of this machine: architecture, features, caches, memory, and an identifier."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path

from skipjack.core import AARCH64, Device, level_of, vector_bytes
from skipjack.errors import UsageError
from skipjack.native import llvm

_CACHE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def detectable() -> bool:
    """Whether llvmlite is installed, which describes CPUs; hosts of GPUs may lack it."""
    return importlib.util.find_spec("llvmlite") is not None


@functools.cache
def detect(threads: int = 1) -> Device:
    """The CPU of this machine as a device with a number of threads."""
    cores = len(usable_cores())
    if threads > cores:
        raise UsageError(f"{threads} threads need as many cores, and this process may use {cores}")
    if not detectable():
        raise UsageError(
            "LLVM is needed to identify this CPU and is not installed: pip install llvmlite"
        )
    _, arch, features = llvm.host()
    return Device(
        kind="cpu",
        arch=arch,
        units=threads,
        model=_model(),
        features=features,
        cores=cores,
        vector_bytes=vector_bytes(level_of(arch, features)),
        caches=_caches(),
        memory_bytes=memory_bytes(),
        serial=_serial(),
    )


def detect_all() -> list[Device]:
    """The CPU of this machine with each possible number of threads; empty without LLVM."""
    return [detect(count + 1) for count in range(len(usable_cores()))] if detectable() else []


def target_of(device: Device, beyond: Sequence[str] = ()) -> str:
    """The target to compile for: triple, level, flags, and the CPU to schedule for.

    Code for a level runs on every CPU of that level. `beyond` are additional features that a solver
    uses, such as ``avx512vnni``.
    """
    lacking = sorted(set(beyond) - set(device.features))
    if lacking:
        raise UsageError(f"device {device.name} has no {', '.join(lacking)}")
    flags = tuple(f"+{feature}" for feature in sorted(beyond))
    return str(llvm.Target(_triple(device), device.level, flags, llvm_name(device.arch)))


def llvm_name(arch: str) -> str:
    """LLVM's name of a CPU."""
    return "generic" if arch == AARCH64 else arch


def _triple(device: Device) -> str:
    """This host's triple for its own CPU; for others that of Linux (or macOS)."""
    triple, here, _ = llvm.host()
    if device.arch == here:
        return triple
    if device.arch.startswith("apple"):
        return "arm64-apple-macosx"
    return f"{'aarch64' if device.level == AARCH64 else 'x86_64'}-unknown-linux-gnu"


def _model() -> str:
    text = _read("/proc/cpuinfo")
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def _caches() -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if _read(entry / "type").strip() == "Instruction":
            continue
        size = _read(entry / "size").strip()
        if size and size[-1] in _CACHE_UNITS:
            found[f"L{_read(entry / 'level').strip()}"] = int(size[:-1]) * _CACHE_UNITS[size[-1]]
    return tuple(sorted(found.items()))


def memory_bytes() -> int:
    """Memory of this machine, or the limit of its container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    return min(physical, int(limit)) if limit.isdigit() else physical


def _serial() -> str:
    """A digest of the machine's id, so that the id itself is not disclosed."""
    identity = _read("/etc/machine-id") or platform.node()
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def registers_of(device: Device) -> int:
    """The number of vector registers of the instruction set."""
    return 32 if device.vector_bytes == 64 or device.level == AARCH64 else 16
