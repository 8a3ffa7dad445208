"""Entries of another compiler or driver are stale; without a known change they are not."""

from typing import Any

import pytest

from skipjack.bank import Toolchain, stale_reason
from skipjack.native import llvm
from skipjack.runtime.local_kernels import fresh_first, why_stale

MakeEntry = Any
HERE = Toolchain(("llvmlite-0.45.1 -disable-lsr", "triton 3.6.0"), ("cuda 12.8",))


@pytest.mark.parametrize(
    ("toolchain", "driver", "reason"),
    [
        ("llvm-20.1.8/llvmlite-0.45.1 -disable-lsr", "", ""),
        ("llvm-15.0.7/llvmlite-0.44.0 -disable-lsr", "", "-disable-lsr, but this machine"),
        ("llvm-20.1.8/llvmlite-0.45.1", "", "llvmlite-0.45.1, but this machine has"),
        ("triton 3.5.0", "cuda 12.8", "triton 3.5.0, but this machine has triton 3.6.0"),
        ("triton 3.6.0", "cuda 12.4", "driver cuda 12.4, but this machine has cuda 12.8"),
        ("triton 3.6.0", "hip 6.2", ""),
        ("nvcc 12.1", "", ""),
        ("", "", ""),
        ("3", "12.4", ""),
    ],
)
def test_a_compiler_or_a_driver_that_has_changed_makes_an_entry_stale(
    entry: MakeEntry, toolchain: str, driver: str, reason: str
) -> None:
    made = entry(toolchain=toolchain, evidence={"driver": driver} if driver else {})
    found = stale_reason(made, HERE)
    assert reason in found and bool(found) == bool(reason)


def test_an_entry_that_was_built_here_is_fresh_and_stands_before_a_stale_one(
    entry: MakeEntry,
) -> None:
    stale = entry(toolchain="llvm-1.0.0/llvmlite-0.0.1")
    fresh = entry(toolchain=llvm.compiler_version())
    assert why_stale(stale) and not why_stale(fresh) and not why_stale(entry())
    assert fresh_first([stale, fresh]) == (fresh, stale)
