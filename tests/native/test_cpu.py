"""What CPU this is, and what the compiler is told about others."""

from __future__ import annotations

import os

import pytest

from skipjack.core.device import Device
from skipjack.errors import UsageError
from skipjack.native import llvm
from skipjack.native.cpu import detect, registers_of, target_of, usable_cores


def test_this_cpu_describes_itself() -> None:
    device = detect()
    triple, arch, features = llvm.host()
    assert (device.kind, device.arch, device.units) == ("cpu", arch, 1)
    assert device.vector_bytes in (16, 32, 64)
    assert device.memory_bytes > 0
    assert target_of(device) == f"{triple}|{arch}|{','.join(features)}"


def test_more_threads_than_cores_are_refused() -> None:
    with pytest.raises(UsageError, match="threads asked for"):
        detect(len(usable_cores()) + 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux knows affinity")
def test_cores_are_those_that_this_process_may_use() -> None:
    assert usable_cores() == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("arch", "vector_bytes", "triple", "registers"),
    [
        ("haswell", 32, "x86_64-unknown-linux-gnu", 16),
        ("skylake-avx512", 64, "x86_64-unknown-linux-gnu", 32),
        ("neoverse-n1", 16, "aarch64-unknown-linux-gnu", 32),
        ("cortex-a72", 16, "aarch64-unknown-linux-gnu", 32),
        ("apple-m1", 16, "arm64-apple-macosx", 32),
    ],
)
def test_a_cpu_that_is_not_here_has_a_target_by_its_name(
    arch: str, vector_bytes: int, triple: str, registers: int
) -> None:
    if arch == detect().arch:
        pytest.skip("it is here")
    device = Device("cpu", arch, 1, vector_bytes=vector_bytes)
    assert target_of(device) == f"{triple}|{arch}|"
    assert registers_of(device) == registers


def test_a_serial_does_not_tell_the_machines_id() -> None:
    serial = detect().serial
    assert len(serial) == 12
    assert int(serial, 16) >= 0
