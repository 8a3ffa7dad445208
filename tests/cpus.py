"""CPUs of every level, for tests that build for one without asking LLVM what its name means."""

from __future__ import annotations

import pytest

from skipjack.core import Device, features_of, vector_bytes
from skipjack.core.device import missing_features
from skipjack.native import llvm


def cpu_of(arch: str, level: str) -> Device:
    """One thread of a CPU that has a level and nothing beyond it, and usual caches."""
    caches = (("L1", 32 << 10), ("L2", 1 << 20), ("L3", 16 << 20))
    width = vector_bytes(level)
    return Device("cpu", arch, 1, features=features_of(level), vector_bytes=width, caches=caches)


NEHALEM = cpu_of("nehalem", "x86-64-v2")
HASWELL = cpu_of("haswell", "x86-64-v3")
SKYLAKE_AVX512 = cpu_of("skylake-avx512", "x86-64-v4")
NEOVERSE_N1 = cpu_of("neoverse-n1", "aarch64")
APPLE_M1 = cpu_of("apple-m1", "aarch64")


def skip_unless_it_runs_here(device: Device) -> None:
    """Skip a test that runs code which was built for another CPU, if this one lacks its level."""
    lacking = missing_features(device.level, llvm.host()[2])
    if lacking:
        pytest.skip(f"this CPU cannot run code for {device.name}: it lacks {', '.join(lacking)}")
