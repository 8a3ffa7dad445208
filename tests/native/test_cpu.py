"""What CPU this is, and what the compiler is told about others."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from cpus import HASWELL, cpu_of
from skipjack.errors import UsageError
from skipjack.native import detect, llvm, registers_of, target_of
from skipjack.native.cpu import usable_cores


def test_this_cpu_describes_itself() -> None:
    device = detect()
    triple, arch, features = llvm.host()
    assert (device.kind, device.arch, device.units) == ("cpu", arch, 1)
    assert device.vector_bytes in (16, 32, 64)
    assert device.memory_bytes > 0
    assert device.features == features
    assert target_of(device) == f"{triple}|{device.level}||{arch}"


def test_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(UsageError, match="threads need as many cores"):
        detect(len(usable_cores()) + 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux knows affinity")
def test_cores_are_those_that_this_process_may_use() -> None:
    assert usable_cores() == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("arch", "level", "triple", "registers"),
    [
        ("nehalem", "x86-64-v2", "x86_64-unknown-linux-gnu", 16),
        ("haswell", "x86-64-v3", "x86_64-unknown-linux-gnu", 16),
        ("skylake-avx512", "x86-64-v4", "x86_64-unknown-linux-gnu", 32),
        ("skylake-avx512", "x86-64-v3", "x86_64-unknown-linux-gnu", 16),
        ("neoverse-n1", "aarch64", "aarch64-unknown-linux-gnu", 32),
        ("cortex-a72", "aarch64", "aarch64-unknown-linux-gnu", 32),
        ("apple-m1", "aarch64", "arm64-apple-macosx", 32),
    ],
)
def test_a_cpu_that_is_not_here_has_a_target(
    arch: str, level: str, triple: str, registers: int
) -> None:
    if arch == detect().arch:
        pytest.skip("it is here")
    device = cpu_of(arch, level)
    assert target_of(device) == f"{triple}|{level}||{arch}"
    assert registers_of(device) == registers


def test_a_solver_may_ask_for_more_than_the_level_has() -> None:
    device = replace(HASWELL, features=(*HASWELL.features, "avxvnni"))
    assert target_of(device, ["avxvnni"]).split("|")[1:3] == ["x86-64-v3", "+avxvnni"]
    with pytest.raises(UsageError, match="haswell/1 has no avxvnni"):
        target_of(HASWELL, ["avxvnni"])


def test_a_serial_does_not_tell_the_machines_id() -> None:
    serial = detect().serial
    assert len(serial) == 12
    assert int(serial, 16) >= 0
