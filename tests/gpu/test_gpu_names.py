"""GPUs by their names, which is all that building needs."""

import pytest
from stand_in_library import Drawer

from skipjack.core import Device
from skipjack.devices import describe, find_device
from skipjack.errors import UsageError
from skipjack.gpu import KNOWN, describe_gpu, is_gpu_arch
from skipjack.gpu.architectures import kind_of, limits_of
from skipjack.gpu.discovery import only_drivers


@pytest.mark.parametrize("arch", sorted(KNOWN))
def test_every_known_architecture_is_described(arch: str) -> None:
    device = describe_gpu(f"{arch}/{KNOWN[arch].units}")
    assert (device.arch, device.kind) == (arch, kind_of(arch))
    assert is_gpu_arch(arch)
    assert 0 < device.cache_bytes("shared") < device.cache_bytes("L2")
    assert limits_of(device).warp in (32, 64)


@pytest.mark.parametrize("arch", ["sm_50", "sm_70", "gfx900", "gfx906", "gfx1030"])
def test_what_cannot_be_built_for_is_refused_with_what_can(arch: str) -> None:
    alike = "sm_90" if arch.startswith("sm") else "gfx942"
    with pytest.raises(UsageError, match=rf"Triton cannot build for {arch}: .*{alike}") as caught:
        describe_gpu(f"{arch}/60")
    assert "\n" not in str(caught.value)


def test_no_gpu_has_so_many_units() -> None:
    with pytest.raises(UsageError, match="no sm_90 has 99999 compute units"):
        describe_gpu("sm_90/99999")


def test_one_function_describes_cpus_and_gpus() -> None:
    assert describe("sm_90/132").kind == "cuda"
    assert describe("gfx942/304").kind == "hip"
    assert describe("haswell/2").kind == "cpu"


REAL = Device("cuda", "sm_90", 132, "NVIDIA Real", serial="a")


def test_a_gpu_that_is_here_is_described_as_it_is() -> None:
    with only_drivers(Drawer(REAL)):
        assert describe("sm_90/132") == find_device("sm_90/132") == REAL
        assert describe("sm_90/114").model == "sm_90, by name"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sm_90/132", "sm_90/132 is not on this machine: it has no GPU"),
        ("gfx906/60", "Triton cannot build for gfx906"),
        ("neoverse-n1/1", "not on this machine: its CPU is .* lacks "),
        ("sm_90", "arch/units"),
    ],
)
def test_a_device_that_is_not_here_says_what_is(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        find_device(text)


def test_another_gpu_is_named_instead() -> None:
    with only_drivers(Drawer(REAL)), pytest.raises(UsageError, match="its GPUs are sm_90/132"):
        find_device("sm_80/108")


def test_threads_are_not_for_gpus() -> None:
    with pytest.raises(UsageError, match="--threads is for CPUs"):
        find_device("sm_90/132", threads=2)
