"""Sensors are read where there are any; where there are none, that is an answer."""

import json
from pathlib import Path

import pytest

from skipjack.sweep.bench import Sensors, sensors
from skipjack.sweep.bench.sensors import (
    AmdSmi,
    Nvidia,
    Processor,
    RocmSmi,
    SensorReading,
    mean_temperature,
    total_power,
)
from stand_ins import NVIDIA, printing, sensor_files, stand_in

MI300 = {
    "gpu": 0,
    "power": {"socket_power": {"value": 140, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
    "temperature": {"edge": "N/A", "hotspot": {"value": 45, "unit": "C"}, "mem": "N/A"},
    "throttle": {"ppt_violation_status": "NOT ACTIVE", "prochot_violation_status": "N/A"},
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", str(place))
    return place


def test_nvidia_tells_temperature_and_power(programs: Path) -> None:
    printing(programs, "nvidia-smi", NVIDIA * 2)
    assert Nvidia().read() == [SensorReading(35.0, 95.43, ())] * 2


@pytest.mark.parametrize(
    ("bits", "reasons", "capped"),
    [
        ("0x0000000000000004", (), True),
        ("0x0000000000000040", ("too hot (hardware)",), False),
        ("0x0000000000000068", ("hardware slowdown", "too hot (software)", "too hot (hardware)"),
         False),
        ("0x0000000000000113", (), False),
    ],
)  # fmt: skip
def test_nvidia_tells_throttling_from_the_power_limit(
    programs: Path, bits: str, reasons: tuple[str, ...], capped: bool
) -> None:
    printing(programs, "nvidia-smi", f"58, {bits}, 692.42\n")
    assert Nvidia().read() == [SensorReading(58.0, 692.42, reasons, capped)]


def test_an_older_driver_knows_the_older_name_and_is_asked_for_it_from_then_on(
    programs: Path, tmp_path: Path
) -> None:
    refusal = 'Field "clocks_event_reasons.active" is not a valid field to query.\\n\\n'
    stand_in(
        programs, "nvidia-smi",
        f"open({str(tmp_path / 'asked')!r}, 'a').write(asked + '\\n')\n"
        f"if 'event' in asked: sys.stdout.write('{refusal}'); sys.exit(2)\n"
        f"sys.stdout.write({NVIDIA!r})",
    )  # fmt: skip
    source = Nvidia()
    assert source.read() == source.read() == [SensorReading(35.0, 95.43, ())]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert ["event" in line for line in asked] == [True, False, False]
    assert asked[1] == (
        "--query-gpu=temperature.gpu,clocks_throttle_reasons.active,power.draw "
        "--format=csv,noheader,nounits"
    )


@pytest.mark.parametrize("cell", ["[N/A]", "[Not Supported]", "[Unknown Error]", "nan"])
def test_nvidia_may_leave_things_out(programs: Path, cell: str) -> None:
    printing(programs, "nvidia-smi", f"41, {cell}, {cell}\n")
    assert Nvidia().read() == [SensorReading(41.0)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_is_read_in_both_of_its_forms(programs: Path, wrapped: bool) -> None:
    record = {"gpu_data": [MI300]} if wrapped else [MI300]
    printing(programs, "amd-smi", "WARNING: old driver\n" + json.dumps(record))
    assert AmdSmi().read() == [SensorReading(45.0, 140.0, ())]


def test_amd_smi_tells_throttling_from_the_power_limit(programs: Path) -> None:
    hot = {"ppt_violation_status": "ACTIVE", "hbm_thermal_violation_status": "ACTIVE"}
    printing(programs, "amd-smi", json.dumps([{**MI300, "throttle": hot}]))
    assert AmdSmi().read() == [SensorReading(45.0, 140.0, ("hbm thermal",), power_capped=True)]


def test_an_older_amd_smi_says_only_that_it_throttles(programs: Path) -> None:
    power = {"socket_power": 99, "throttle_status": "THROTTLED"}
    printing(programs, "amd-smi", json.dumps([{"temperature": {"edge": 61}, "power": power}]))
    assert AmdSmi().read() == [SensorReading(61.0, 99.0, ("throttled",))]


def test_an_amd_device_that_tells_no_throttling_is_not_taken_for_unthrottled(
    programs: Path,
) -> None:
    device = {"temperature": {"edge": 61}, "throttle": {"ppt_violation_status": "N/A"}}
    printing(programs, "amd-smi", json.dumps([device]))
    assert AmdSmi().read() == [SensorReading(61.0)]


def test_rocm_smi_is_read(programs: Path) -> None:
    cards = {
        "card0": {
            "Temperature (Sensor edge) (C)": "35.0",
            "Temperature (Sensor junction) (C)": "38.0",
            "Average Graphics Package Power (W)": "42.0",
        },
        "card1": {
            "Temperature (Sensor edge) (C)": 31,
            "Current Socket Graphics Package Power (W)": "N/A",
        },
        "system": {"Driver version": "6.7.0"},
    }
    printing(programs, "rocm-smi", json.dumps(cards))
    assert RocmSmi().read() == [SensorReading(38.0, 42.0), SensorReading(31.0)]


@pytest.mark.parametrize("text", ["", "no devices found\n", "{", "[1, 2]", "null", '{"card0": 5}'])
@pytest.mark.parametrize("code", [0, 9])
def test_nonsense_is_no_reading_and_no_error(programs: Path, text: str, code: int) -> None:
    for name in ("nvidia-smi", "amd-smi", "rocm-smi"):
        printing(programs, name, text, code)
    assert [source.read() for source in (Nvidia(), AmdSmi(), RocmSmi())] == [[], [], []]


def test_a_program_that_hangs_is_not_waited_for(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "TIMEOUT_S", 0.2)
    stand_in(programs, "nvidia-smi", "time.sleep(60)")
    assert Nvidia().read() == []


def test_a_program_that_cannot_be_run_is_no_error(programs: Path) -> None:
    (programs / "nvidia-smi").write_text("not a program")
    (programs / "nvidia-smi").chmod(0o755)
    assert Nvidia().read() == []


def test_the_processor_is_as_hot_as_its_hottest_sensor(tmp_path: Path) -> None:
    sensor_files(
        tmp_path,
        class__hwmon__hwmon0__name="nvme\n", class__hwmon__hwmon0__temp1_input="80000\n",
        class__hwmon__hwmon1__name="coretemp\n", class__hwmon__hwmon1__temp1_input="51000\n",
        class__hwmon__hwmon1__temp2_input="53500\n", class__hwmon__hwmon1__temp3_input="-1\n",
    )  # fmt: skip
    assert Processor(tmp_path).read() == [SensorReading(53.5)]


def test_thermal_zones_serve_where_there_is_no_hwmon(tmp_path: Path) -> None:
    sensor_files(
        tmp_path,
        class__thermal__thermal_zone0__type="acpitz\n",
        class__thermal__thermal_zone0__temp="99000\n",
        class__thermal__thermal_zone1__type="CPU-therm\n",
        class__thermal__thermal_zone1__temp="44000\n",
        class__thermal__thermal_zone2__type="cpu-broken\n",
    )
    assert Processor(tmp_path).read() == [SensorReading(44.0)]


def test_accelerators_come_before_the_processor(programs: Path, tmp_path: Path) -> None:
    sensor_files(
        tmp_path, class__hwmon__hwmon0__name="k10temp", class__hwmon__hwmon0__temp1_input="40000"
    )
    assert Sensors.detect(tmp_path).name == "the processor's sensors"
    printing(programs, "rocm-smi", json.dumps({"card0": {"Temperature (Sensor edge) (C)": 31}}))
    assert Sensors.detect(tmp_path).name == "rocm-smi"
    printing(programs, "nvidia-smi", NVIDIA)
    found = Sensors.detect(tmp_path)
    assert (found.name, found.source is not None, found.read()) == (
        "nvidia-smi",
        True,
        [SensorReading(35.0, 95.43, ())],
    )


def test_nothing_to_read_is_not_available(programs: Path, tmp_path: Path) -> None:
    found = Sensors.detect(tmp_path)
    assert (found.name, found.source, found.read()) == ("not available", None, [])


def test_temperatures_are_averaged_and_powers_added() -> None:
    readings = [SensorReading(40.0, 100.0), SensorReading(60.0, 50.0), SensorReading()]
    assert mean_temperature(readings) == 50.0
    assert total_power(readings) == 150.0
    assert mean_temperature([SensorReading()]) is None
    assert total_power([]) is None
