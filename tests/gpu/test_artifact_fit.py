"""Artifacts that cannot run here are refused before they are loaded."""

import pytest

from skipjack.core import Device
from skipjack.gpu import GpuArtifact, GpuError, check_fit, fits


@pytest.mark.parametrize(
    ("target", "arch", "runs"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90", "sm_90", True),
        ("sm_90a", "sm_90", True),
        ("sm_100", "sm_103", False),
        ("sm_100", "sm_100", True),
        ("sm_120", "sm_100", False),
        ("gfx942", "gfx942", True),
        ("gfx90a", "gfx942", False),
        ("gfx942", "sm_90", False),
    ],
)
def test_code_runs_on_its_own_generation(target: str, arch: str, runs: bool) -> None:
    assert fits(target, arch) is runs


def test_the_wrong_gpu_and_an_old_driver_are_said_in_a_sentence() -> None:
    gpu = Device("cuda", "sm_90", 132)
    check_fit(GpuArtifact("sm_90", (), (), least_driver=(12, 8)), gpu, (12, 8))
    with pytest.raises(GpuError, match="the artifact is for sm_80, but this GPU is sm_90"):
        check_fit(GpuArtifact("sm_80", (), ()), gpu, (13, 0))
    with pytest.raises(GpuError, match=r"needs a driver of CUDA 12\.10 or later; this is 12\.9"):
        check_fit(GpuArtifact("sm_90", (), (), least_driver=(12, 10)), gpu, (12, 9))
