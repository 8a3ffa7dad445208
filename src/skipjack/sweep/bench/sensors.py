"""Temperature, power and throttling, as far as this machine reports them."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from skipjack.errors import MalformedError
from skipjack.reading import parse_json

# Readings of sensors, and the interface of their sources.


@dataclass(frozen=True, slots=True)
class SensorReading:
    """The present reading of one device; None for values that it does not report."""

    temperature_c: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] | None = None
    """Reasons why its clocks are throttled; empty if they are not."""
    power_capped: bool = False
    """Whether it runs at its power limit."""


class SensorSource(Protocol):
    """A source of readings."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    def read(self) -> list[SensorReading]:
        """One reading for each device; empty if there is none or reading failed."""
        ...


def mean_temperature(readings: Iterable[SensorReading]) -> float | None:
    """The mean over devices, used for cooling; None if no device reports it."""
    known = [r.temperature_c for r in readings if r.temperature_c is not None]
    return fmean(known) if known else None


def total_power(readings: Iterable[SensorReading]) -> float | None:
    """The sum over devices; None if no device reports it."""
    known = [reading.power_w for reading in readings if reading.power_w is not None]
    return sum(known) if known else None


def number(text: Any) -> float | None:
    """A finite number; None for ``[N/A]`` and the like."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None


# Sensors of accelerators, read with the programs that come with their drivers.

_log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""The time limit of such a program: a driver may hang."""

_POWER_CAP = 0x4
_THROTTLES = {
    0x8: "hardware slowdown",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
"""Bits of NVIDIA's clocks_event_reasons.active that indicate a problem.

The others are idling, clocks that the user set, and the power limit, which a busy device normally
reaches: it is reported separately as `SensorReading.power_capped`.
"""

_VIOLATION = "_violation_status"
_AMD_POWER_CAP = "ppt"
_NORMAL_LIMITS = (_AMD_POWER_CAP, "low utilization")


class Nvidia:
    """All devices that ``nvidia-smi`` lists."""

    name = "nvidia-smi"

    def __init__(self) -> None:
        # Newer drivers call throttle reasons event reasons; use the first name that works.
        self._fields = ["clocks_event_reasons.active", "clocks_throttle_reasons.active"]

    def read(self) -> list[SensorReading]:
        for field in tuple(self._fields):
            query = f"--query-gpu=temperature.gpu,{field},power.draw"
            text = program_output(["nvidia-smi", query, "--format=csv,noheader,nounits"])
            readings = [_nvidia_reading(line) for line in (text or "").splitlines() if line.strip()]
            if any(reading is not None for reading in readings):
                self._fields = [field]
                return [reading for reading in readings if reading is not None]
        return []


def _nvidia_reading(line: str) -> SensorReading | None:
    """Parse ``35, 0x0000000000000001, 95.43``; missing values are ``[N/A]`` or the like."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 3:
        return None
    temperature, power = number(cells[0]), number(cells[2])
    try:
        bits = int(cells[1], 16)
    except ValueError:
        known = temperature is not None or power is not None
        return SensorReading(temperature, power) if known else None
    reasons = tuple(text for bit, text in _THROTTLES.items() if bits & bit)
    return SensorReading(temperature, power, reasons, bool(bits & _POWER_CAP))


class AmdSmi:
    """All devices that ``amd-smi metric --json`` lists."""

    name = "amd-smi"

    def read(self) -> list[SensorReading]:
        record = _json_output(["amd-smi", "metric", "--json"])
        # Newer versions wrap the list.
        devices = record.get("gpu_data") if isinstance(record, dict) else record
        if not isinstance(devices, list):
            return []
        return [_amd_reading(device) for device in devices if isinstance(device, dict)]


def _amd_reading(device: Mapping[str, Any]) -> SensorReading:
    temperature, power = _part(device, "temperature"), _part(device, "power")
    measured = _first(temperature, ("hotspot", "edge"))
    told = _violations(_part(device, "throttle"))
    status = str(power.get("throttle_status", "")).upper()
    watts = _quantity(power.get("socket_power"))
    if not told and status in ("THROTTLED", "UNTHROTTLED"):
        # Older versions do not give a reason.
        return SensorReading(measured, watts, ("throttled",) if status == "THROTTLED" else ())
    active = [name for name, is_active in told.items() if is_active]
    reasons = tuple(name for name in active if name not in _NORMAL_LIMITS)
    return SensorReading(measured, watts, reasons if told else None, _AMD_POWER_CAP in active)


def _violations(throttle: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each limit that the device reports is violated."""
    states = {
        name.removesuffix(_VIOLATION).replace("_", " "): str(state).strip().upper()
        for name, state in throttle.items()
        if name.endswith(_VIOLATION)
    }
    return {
        name: state == "ACTIVE"
        for name, state in states.items()
        if state in ("ACTIVE", "NOT ACTIVE")
    }


def _part(device: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = device.get(name)
    return part if isinstance(part, dict) else {}


def _quantity(value: Any) -> float | None:
    """``{"value": 45, "unit": "C"}``, a bare number, or ``"N/A"``."""
    return number(value.get("value") if isinstance(value, dict) else value)


class RocmSmi:
    """``rocm-smi`` of older installations, which does not report throttling."""

    name = "rocm-smi"
    _TEMPERATURES = ("Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)")
    _POWERS = (
        "Current Socket Graphics Package Power (W)",
        "Average Graphics Package Power (W)",
    )

    def read(self) -> list[SensorReading]:
        record = _json_output(["rocm-smi", "--showtemp", "--showpower", "--json"])
        if not isinstance(record, dict):
            return []
        cards = [card for name, card in record.items() if name.startswith("card")]
        return [
            SensorReading(_first(card, self._TEMPERATURES), _first(card, self._POWERS))
            for card in cards
            if isinstance(card, dict)
        ]


def _first(card: Mapping[str, Any], names: Sequence[str]) -> float | None:
    known = (_quantity(card.get(name)) for name in names)
    return next((value for value in known if value is not None), None)


def _json_output(command: Sequence[str]) -> Any:
    """The JSON in a program's output, which warnings may precede."""
    text = program_output(command) or ""
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    ends = max(text.rfind("}"), text.rfind("]")) + 1
    try:
        return parse_json(text[min(starts) : ends], finite=False) if starts else None
    except MalformedError:
        _log.debug("%s printed no JSON", command[0])
        return None


def program_output(command: Sequence[str], timeout_s: float | None = None) -> str | None:
    """The output of a program; None if it does not exist, fails or hangs."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s or TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _log.debug("%s could not be run: %s", command[0], error)
        return None
    return done.stdout if done.returncode == 0 else None


# The sensors of this machine.


@dataclass(frozen=True, slots=True)
class Sensors:
    """The sensors of this machine. Reading never raises."""

    source: SensorSource | None = None

    @classmethod
    def detect(cls, sys_root: Path = Path("/sys")) -> Sensors:
        """The first source that has readings: accelerators, otherwise the processor."""
        sources: tuple[SensorSource, ...] = (Nvidia(), AmdSmi(), RocmSmi(), Processor(sys_root))
        return next((one for one in map(cls, sources) if one.read()), cls())

    @property
    def name(self) -> str:
        """``nvidia-smi``, or ``not available``."""
        return self.source.name if self.source else "not available"

    def read(self) -> list[SensorReading]:
        """Readings of all devices; none if the source raises."""
        try:
            return self.source.read() if self.source else []
        except Exception:
            _log.debug("%s could not be read", self.name, exc_info=True)
            return []


class Processor:
    """The hottest sensor of the processor on Linux, from hwmon or else from thermal zones."""

    name = "the processor's sensors"
    _CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "scpi_sensors")
    _ZONES = ("x86_pkg_temp", "cpu", "soc")

    def __init__(self, sys_root: Path = Path("/sys")) -> None:
        self._root = sys_root

    def read(self) -> list[SensorReading]:
        found = self._hwmon() or self._zones()
        return [SensorReading(max(found))] if found else []

    def _hwmon(self) -> list[float]:
        chips = sorted((self._root / "class" / "hwmon").glob("hwmon*"))
        ours = [chip for chip in chips if _text(chip / "name") in self._CHIPS]
        return _degrees(file for chip in ours for file in sorted(chip.glob("temp*_input")))

    def _zones(self) -> list[float]:
        zones = sorted((self._root / "class" / "thermal").glob("thermal_zone*"))
        ours = [zone for zone in zones if _text(zone / "type").lower().startswith(self._ZONES)]
        return _degrees(zone / "temp" for zone in ours)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _degrees(files: Iterable[Path]) -> list[float]:
    """Degrees from thousandths; sensors that are not connected report zero or less."""
    values = [number(_text(file)) for file in files]
    return [value / 1000.0 for value in values if value is not None and 0.0 < value < 200_000.0]
