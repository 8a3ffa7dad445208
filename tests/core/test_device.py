"""Devices: three keys that each see what they should, and peaks between measured points."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Device, Peaks, display_names, features_of, parse_device_name
from skipjack.errors import UsageError

DEVICE = Device(
    kind="cpu",
    arch="znver4",
    units=2,
    model="A CPU",
    features=features_of("x86-64-v3"),
    vector_bytes=32,
    caches=(("L1", 32768), ("L2", 1 << 20)),
    serial="abc",
)
PEAKS = Peaks(
    flops_per_s=(("f32", 1e11),),
    bytes_per_s=((1 << 14, 1e11), (1 << 20, 5e10), (1 << 26, 1e10)),
    read_bytes_per_s=((1 << 14, 2e11), (1 << 20, 8e10), (1 << 26, 2e10)),
)


@settings(derandomize=True)
@given(st.from_regex(r"[a-z][a-z0-9_-]{0,12}", fullmatch=True), st.integers(1, 999_999))
def test_a_devices_name_reads_back(arch: str, units: int) -> None:
    assert parse_device_name(Device("cpu", arch, units).name) == (arch, units)


@pytest.mark.parametrize(
    "text", ["", "znver4", "znver4/", "/1", "a/0", "a/-1", "a/1/2", "a/1\n", "a/٣"]
)
def test_a_malformed_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="arch/units"):
        parse_device_name(text)


def test_a_binary_loads_wherever_the_level_is() -> None:
    assert replace(DEVICE, model="B", serial="x", units=1).compat_key == DEVICE.compat_key
    assert replace(DEVICE, arch="znver3").compat_key == DEVICE.compat_key == "cpu:x86-64-v3"
    more = replace(DEVICE, features=(*DEVICE.features, "avx512f", "vaes"))
    assert more.compat_key == DEVICE.compat_key
    wide = replace(DEVICE, features=features_of("x86-64-v4"))
    assert wide.loadable == ("cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:x86-64")
    assert DEVICE.loadable == wide.loadable[1:]


def test_code_of_macs_and_gpus_stays_there() -> None:
    arm, mac = Device("cpu", "neoverse-n1", 1), Device("cpu", "apple-m1", 1)
    assert arm.loadable == (arm.compat_key,) == ("cpu:aarch64",)
    assert mac.loadable == (mac.compat_key,) == ("cpu:aarch64:macos",)
    gpu = Device("cuda", "sm_90", 132)
    assert gpu.loadable == (gpu.compat_key,)
    assert gpu.compat_key.startswith("cuda:sm_90:")


def test_tables_tell_devices_of_one_name_apart_by_their_vectors() -> None:
    wide, other = replace(DEVICE, vector_bytes=64), replace(DEVICE, arch="haswell")
    assert display_names([DEVICE, replace(DEVICE, model="B"), other]) == {
        DEVICE.class_key: "znver4/2",
        replace(DEVICE, model="B").class_key: "znver4/2",
        other.class_key: "haswell/2",
    }
    assert display_names([DEVICE, wide, other]) == {
        DEVICE.class_key: "znver4/2 (256-bit)",
        wide.class_key: "znver4/2 (512-bit)",
        other.class_key: "haswell/2",
    }


def test_a_class_tells_apart_what_performs_differently() -> None:
    assert replace(DEVICE, serial="x").class_key == DEVICE.class_key
    for other in (
        replace(DEVICE, model="B"),
        replace(DEVICE, units=1),
        replace(DEVICE, caches=()),
        replace(DEVICE, vector_bytes=64),
    ):
        assert other.class_key != DEVICE.class_key


def test_an_instance_is_one_machine() -> None:
    assert replace(DEVICE, serial="x").instance_key != DEVICE.instance_key
    assert DEVICE.instance_key.startswith(DEVICE.class_key)


def test_a_missing_cache_has_no_size() -> None:
    assert DEVICE.cache_bytes("L2") == 1 << 20
    assert DEVICE.cache_bytes("L3") == 0


def test_bandwidth_is_met_at_measured_points_and_flat_beyond() -> None:
    assert PEAKS.bandwidth(1 << 20) == pytest.approx(5e10)
    assert PEAKS.bandwidth(1) == pytest.approx(1e11)
    assert PEAKS.bandwidth(1 << 40) == pytest.approx(1e10)


@settings(derandomize=True)
@given(st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_bandwidth_falls_as_the_footprint_grows(first: int, second: int) -> None:
    small, large = sorted((first, second))
    assert PEAKS.bandwidth(small) >= PEAKS.bandwidth(large) * (1 - 1e-12)


@settings(derandomize=True)
@given(st.integers(1, 1 << 30), st.floats(0, 1))
def test_a_mix_of_reads_and_writes_lies_between_the_two(footprint: int, share: float) -> None:
    low, high = PEAKS.bandwidth(footprint, 2 / 3), PEAKS.bandwidth(footprint, 1.0)
    assert low * (1 - 1e-12) <= PEAKS.bandwidth(footprint, share) <= high * (1 + 1e-12)


def test_what_was_not_measured_is_zero() -> None:
    assert PEAKS.flops("f64") == 0.0
    assert Peaks((), ()).bandwidth(1000) == 0.0
