"""Where a tuning goes that names no device, and what is said where it can go nowhere."""

from pathlib import Path

import pytest

import skipjack
from skipjack.errors import UsageError
from skipjack.gpu.discovery import only_drivers
from skipjack.operations import parse
from skipjack.runtime import NoGpuError, select_device
from skipjack.testing.fake_gpu import FakeDriver

HALF, SINGLE = parse("matmul:64x64x64:f16"), parse("matmul:64x64x64:f32")


def test_what_a_cpu_computes_stays_there() -> None:
    with only_drivers(FakeDriver()):
        assert select_device([SINGLE]).kind == "cpu"


def test_what_is_for_gpus_alone_goes_to_the_first() -> None:
    with only_drivers(FakeDriver()):
        assert select_device([SINGLE, HALF]).kind == "fake"


def test_without_a_gpu_it_is_refused_in_words_that_are_not_of_the_command_line(
    user_dir: Path,
) -> None:
    with only_drivers(), pytest.raises(NoGpuError, match="there is no GPU here, and") as caught:
        skipjack.tune("matmul:64x64x64", dtype="f16")
    assert "--" not in str(caught.value)


def test_a_cpu_that_is_named_is_not_exchanged_for_a_gpu() -> None:
    with only_drivers(FakeDriver()), pytest.raises(NoGpuError, match="is a CPU, and"):
        select_device([HALF], threads=1)


def test_a_program_that_names_a_missing_device_is_told_of_no_option() -> None:
    with only_drivers(), pytest.raises(UsageError) as refused:
        skipjack.lookup("relu:8", device="sm_90/132")
    assert str(refused.value) == "device sm_90/132 is not on this machine: it has no GPU"
