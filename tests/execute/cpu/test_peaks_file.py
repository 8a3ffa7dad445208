"""devices.json is a cache: damage costs a warning and a measurement."""

import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.core import Device, Peaks
from skipjack.execute.cpu import peaks_of, peaks_to_json, read_peaks
from skipjack.execute.cpu.peaks import FILE_NAME, VERSION

DEVICE = Device("cpu", "znver4", 1)
PEAKS = Peaks((("f32", 1e11),), ((4096, 1e11), (8192, 5e10)), ((4096, 2e11),), 0.01)


class _Session:
    """Stands in for a run session, which would take a second."""

    measured = 0

    def measure_peaks(self, device: Device) -> dict[str, Any]:
        self.measured += 1
        return peaks_to_json(PEAKS)


def _write(directory: Path, record: object, others: dict[str, Any] | None = None) -> None:
    devices = {**(others or {}), DEVICE.instance_key: record}
    (directory / FILE_NAME).write_text(json.dumps({"format": 1, "devices": devices}))


def test_what_was_measured_is_read_again(tmp_path: Path) -> None:
    session: Any = _Session()
    assert peaks_of(session, DEVICE, tmp_path) == PEAKS
    assert peaks_of(session, DEVICE, tmp_path) == PEAKS == read_peaks(DEVICE, tmp_path)
    assert session.measured == 1


@pytest.mark.parametrize(
    "record",
    [
        {"version": VERSION},
        {"version": VERSION, "peaks": {}},
        {"version": VERSION, "peaks": {**peaks_to_json(PEAKS), "noise": None}},
        {"version": VERSION, "peaks": {**peaks_to_json(PEAKS), "flops_per_s": [["f32"]]}},
        {"version": VERSION, "peaks": {**peaks_to_json(PEAKS), "bytes_per_s": [[0, 1], [0, 1]]}},
        [],
    ],
)
def test_a_record_that_is_damaged_is_measured_again(
    record: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = {"cpu:haswell/1": {"version": VERSION, "peaks": peaks_to_json(PEAKS)}}
    _write(tmp_path, record, other)
    session: Any = _Session()
    assert peaks_of(session, DEVICE, tmp_path) == PEAKS
    assert session.measured == 1
    assert "devices.json: " in caplog.text and "znver4/1 will be measured again" in caplog.text
    assert read_peaks(DEVICE, tmp_path) == PEAKS
    kept = json.loads((tmp_path / FILE_NAME).read_text())["devices"]
    assert kept["cpu:haswell/1"] == other["cpu:haswell/1"]


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"[]", b'{"format": 1}', b'{"format": 1, "devices": 3}', b"\xff", b"[" * 5000],
)
def test_a_file_that_is_damaged_is_written_anew(text: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(text)
    session: Any = _Session()
    assert peaks_of(session, DEVICE, tmp_path) == PEAKS == read_peaks(DEVICE, tmp_path)
