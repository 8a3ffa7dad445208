"""GPUs next to the CPU, as text and as JSON."""

from dataclasses import replace

import pytest

from skipjack.core import Device, Peaks
from skipjack.gpu import find_gpus
from skipjack.gpu.discovery import only_drivers
from skipjack.report import device_record, print_device
from skipjack.report.doctor import gpu_findings
from skipjack.testing.fake_gpu import DEVICE, FakeDriver

CPU = Device("cpu", "znver4", 1, "a CPU")
PEAKS = Peaks((("f32", 1e11),), ((1 << 14, 1e11),), ((1 << 14, 1e11),))


def test_a_record_of_this_machine_lists_its_gpus() -> None:
    with only_drivers(FakeDriver()):
        record = device_record(CPU, PEAKS, find_gpus())
    assert record["device"] == "znver4/1"
    (gpu,) = record["gpus"]
    assert (gpu["device"], gpu["kind"], gpu["units"]) == ("fake_1/4", "fake", 4)
    assert (gpu["gpu"], gpu["driver"], gpu["device_instance"]) == (
        "fake:0",
        "1.0",
        DEVICE.instance_key,
    )
    assert device_record(CPU, PEAKS)["gpus"] == []


def test_people_read_how_a_gpu_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with only_drivers(FakeDriver()):
        print_device(CPU, PEAKS, find_gpus())
    text = capsys.readouterr().out
    assert "fake_1/4 (a fake GPU)" in text
    assert "fake:0, driver of FAKE 1.0" in text


class Old(FakeDriver):
    """With a GPU that nothing can be built for."""

    name = "hip"

    def devices(self) -> list[Device]:
        return [replace(DEVICE, kind="hip", arch="gfx906", units=60)]


def test_the_doctor_says_what_a_gpu_is_for() -> None:
    with only_drivers(Old()):
        (finding,) = gpu_findings()
    assert finding.level == "note"
    assert "hip:0 is gfx906/60" in finding.text and "Triton cannot build for gfx906" in finding.text


class New(FakeDriver):
    """As they are now."""

    name = "cuda"

    def devices(self) -> list[Device]:
        return [replace(DEVICE, kind="cuda", arch="sm_90", units=132)]


def test_the_doctor_names_the_driver_and_torch() -> None:
    with only_drivers(New()):
        gpu, torch = gpu_findings()
    assert gpu.level == "good" and "cuda:0 is sm_90/132" in gpu.text and "CUDA 1.0" in gpu.text
    assert torch.part == "torch for GPUs"


def test_the_doctor_says_why_there_is_none() -> None:
    (finding,) = gpu_findings()
    assert finding.level == "note"
    assert "none found (" in finding.text and "known" in finding.text
