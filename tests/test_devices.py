"""Devices by name; GPU drivers are started only if a GPU may be used."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cpus import HASWELL
from skipjack import devices
from skipjack.core import Device, features_of
from skipjack.errors import UsageError
from skipjack.gpu.discovery import only_drivers
from skipjack.native import cpu
from skipjack.testing.fake_gpu import DEVICE, FakeDriver


class Counting(FakeDriver):
    """Counts how often it is asked for its GPUs."""

    asked = 0

    def devices(self) -> list[Device]:
        self.asked += 1
        return [DEVICE]


@pytest.fixture
def driver() -> Iterator[Counting]:
    made = Counting()
    with only_drivers(made):
        yield made


def test_problems_for_the_cpu_leave_gpus_alone(driver: Counting) -> None:
    this = cpu.detect(1)
    for dtypes, text, threads in (
        (["f32"], None, None),
        (["f16"], None, 1),
        ([], this.name, None),
        (["f16"], "cpu", None),
    ):
        assert devices.device_for(dtypes, text, threads) == this
    assert driver.asked == 0


def test_a_gpu_is_found_where_it_is_named_or_needed(driver: Counting) -> None:
    for dtypes, text in ((["f16"], None), (["f32"], "gpu"), (["f32"], DEVICE.name)):
        assert devices.device_for(dtypes, text) == DEVICE
    assert driver.asked == 1, "once in a process"


def test_without_a_gpu_its_name_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no GPU here"):
        devices.device_for(["f32"], "gpu")
    assert devices.device_for(["f16"]).kind == "cpu"


def test_a_cpu_with_a_part_of_this_ones_features_is_here() -> None:
    this = cpu.detect()
    name = "aarch64" if this.level == "aarch64" else "x86-64"
    found = devices.find_device(f"{name}/1")
    assert (found.arch, found.units, found.level, found.vector_bytes) == (name, 1, name, 16)
    assert found.model == f"{this.model}, as {name}"
    assert (found.memory_bytes, found.cores) == (this.memory_bytes, this.cores)
    assert found.compat_key in this.loadable
    assert found.class_key not in (this.class_key, devices.describe(f"{name}/1").class_key)
    with pytest.raises(UsageError, match="threads need as many cores"):
        devices.find_device(f"{name}/{this.cores + 1}")


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_a_cpu_of_a_level_runs_code_for_that_level(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    limited = replace(HASWELL, features=features_of(level))  # as SKIPJACK_CPU_LEVEL gives it
    monkeypatch.setattr(cpu, "detect", lambda threads=1: limited)
    assert devices.find_device(f"{level}/1").features == limited.features
    older = {"x86-64": "k8", "x86-64-v2": "ivybridge", "x86-64-v3": "knl"}[level]  # parts of more
    assert devices.find_device(f"{older}/1").level == level


def test_a_cpu_that_has_more_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "detect", lambda threads=1: HASWELL)
    assert devices.find_device("nehalem/1").level == "x86-64-v2"
    sentence = "CPU is haswell/1, which lacks avx512bw, avx512cd, avx512dq and 2 more"
    with pytest.raises(UsageError, match=sentence):
        devices.find_device("skylake-avx512/1")
