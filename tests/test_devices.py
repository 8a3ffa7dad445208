"""A device by its name; drivers of GPUs are started where a GPU may be meant alone."""

from collections.abc import Iterator

import pytest

from skipjack import devices
from skipjack.core.device import Device
from skipjack.errors import UsageError
from skipjack.gpu.opening import only_drivers
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
    for dtypes, text, threads in ((["f32"], None, None), (["f16"], None, 1), ([], this.name, None)):
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
