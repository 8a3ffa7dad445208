"""CPUs by name: what LLVM says of them is what kernels are built for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cpus import HASWELL, cpu_of
from skipjack.errors import UsageError
from skipjack.native import describe, detect, llvm, registers_of, target_of
from skipjack.native.named_cpu import absent_features, level_text


@pytest.mark.parametrize(
    ("arch", "vector_bytes", "registers"),
    [
        ("haswell", 32, 16),
        ("znver3", 32, 16),
        ("znver4", 64, 32),
        ("skylake-avx512", 64, 32),
        ("nehalem", 16, 16),
        ("knl", 32, 16),
        ("neoverse-n1", 16, 32),
        ("exynos-m3", 16, 32),
        ("aarch64", 16, 32),
    ],
)
def test_a_name_gives_the_vectors_and_registers(
    arch: str, vector_bytes: int, registers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    triple, _, features = llvm.host()  # this machine may have the name, and less than it implies
    monkeypatch.setattr(llvm, "host", lambda: (triple, "elsewhere", features))
    device = describe(f"{arch}/3")
    assert (device.kind, device.name, device.units) == ("cpu", f"{arch}/3", 3)
    assert device.vector_bytes == vector_bytes
    assert registers_of(device) == registers
    assert all(device.cache_bytes(level) for level in ("L1", "L2", "L3"))


def test_features_are_those_that_the_name_implies() -> None:
    haswell = set(describe("x86-64-v3/1").features)
    assert {"avx2", "fma"} <= haswell
    assert not {"avx512f", "neon"} & haswell
    assert "sve" in describe("neoverse-v1/1").features
    assert "sve" not in describe("neoverse-n1/1").features


@pytest.mark.parametrize(
    ("arch", "triple", "level", "tune"),
    [
        ("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3"),
        ("nehalem", "x86_64-unknown-linux-gnu", "x86-64-v2", "nehalem"),
        ("haswell", "x86_64-unknown-linux-gnu", "x86-64-v3", "haswell"),
        ("knl", "x86_64-unknown-linux-gnu", "x86-64-v3", "knl"),
        ("icelake-server", "x86_64-unknown-linux-gnu", "x86-64-v4", "icelake-server"),
        ("cyclone", "aarch64-unknown-linux-gnu", "aarch64", "cyclone"),
        ("aarch64", "aarch64-unknown-linux-gnu", "aarch64", "generic"),
        ("apple-m1", "arm64-apple-macosx", "aarch64", "apple-m1"),
    ],
)
def test_a_name_gives_the_target(arch: str, triple: str, level: str, tune: str) -> None:
    if arch == detect().arch:
        pytest.skip("it is here")
    assert target_of(describe(f"{arch}/1")) == f"{triple}|{level}||{tune}"


def test_this_machines_name_gives_this_machine_with_any_number_of_threads() -> None:
    here = detect()
    named = describe(f"{here.arch}/{here.cores + 7}")
    assert named.units == here.cores + 7
    assert named.compat_key == here.compat_key
    assert target_of(named) == target_of(here)


def test_what_the_name_implies_in_vain_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = cpu_of("skylake-avx512", "x86-64-v3")
    monkeypatch.setattr(llvm, "host_features", lambda: hidden.features)
    text = level_text(hidden)
    assert absent_features(hidden) == ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
    assert text == f"x86-64-v3; skylake-avx512 implies {', '.join(absent_features(hidden))}, " + (
        "which this machine lacks"
    )
    assert level_text(replace(hidden, arch="haswell")) == "x86-64-v3"
    assert level_text(cpu_of("generic", "x86-64-v3")) == "x86-64-v3"


def test_a_level_that_was_lowered_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "host_features", lambda: HASWELL.features)
    assert level_text(cpu_of("haswell", "x86-64-v2")) == (
        "x86-64-v2 (set by SKIPJACK_CPU_LEVEL; the CPU has x86-64-v3)"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("haswel/1", "did you mean haswell?"),
        ("neoverse-n11/1", "did you mean neoverse-n1?"),
        ("arm64/1", "did you mean aarch64?"),
        ("qqqqq/1", "LLVM does not know the CPU 'qqqqq'"),
        ("pentium/1", "no 64-bit mode"),
        ("help/1", "LLVM does not know the CPU 'help'"),
        ("haswell", "arch/units"),
        ("haswell/0", "arch/units"),
    ],
)
def test_a_name_that_is_no_cpu_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        describe(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(llvm.host()[1] == "generic", reason="LLVM calls this CPU generic")
def test_generic_is_no_instruction_set() -> None:
    with pytest.raises(UsageError, match="x86-64 or aarch64"):
        describe("generic/1")
