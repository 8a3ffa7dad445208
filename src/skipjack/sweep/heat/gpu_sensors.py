"""Accelerators, asked through the programs that come with their drivers."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from skipjack.errors import MalformedError
from skipjack.reading import parse_json
from skipjack.sweep.heat.reading import SensorReading, number

_log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""A driver that hangs is not waited for."""

_POWER_CAP = 0x4
_THROTTLES = {
    0x8: "hardware slowdown",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power brake",
}
"""Bits of NVIDIA's clocks_event_reasons.active that mean that something is wrong.

The others are idling, clocks that somebody set, and the power limit, which a busy device runs into
when all is well: it is told apart as `SensorReading.power_capped`.
"""

_VIOLATION = "_violation_status"
_AMD_POWER_CAP = "ppt"
_HARMLESS = (_AMD_POWER_CAP, "low utilization")


class Nvidia:
    """One call of ``nvidia-smi`` for all devices."""

    name = "nvidia-smi"

    def __init__(self) -> None:
        # Newer drivers call throttle reasons event reasons; the first name that works is kept.
        self._fields = ["clocks_event_reasons.active", "clocks_throttle_reasons.active"]

    def read(self) -> list[SensorReading]:
        for field in tuple(self._fields):
            query = f"--query-gpu=temperature.gpu,{field},power.draw"
            text = printed_by(["nvidia-smi", query, "--format=csv,noheader,nounits"])
            readings = [_nvidia_reading(line) for line in (text or "").splitlines() if line.strip()]
            if any(reading is not None for reading in readings):
                self._fields = [field]
                return [reading for reading in readings if reading is not None]
        return []


def _nvidia_reading(line: str) -> SensorReading | None:
    """``35, 0x0000000000000001, 95.43``; ``[N/A]`` and the like stand for what is not told."""
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
    """``amd-smi metric --json``."""

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
        # Older versions do not say why.
        return SensorReading(measured, watts, ("throttled",) if status == "THROTTLED" else ())
    active = [name for name, is_active in told.items() if is_active]
    reasons = tuple(name for name in active if name not in _HARMLESS)
    return SensorReading(measured, watts, reasons if told else None, _AMD_POWER_CAP in active)


def _violations(throttle: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each limit is violated, for those that the device tells."""
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
    """``rocm-smi``, which older installations have. It does not tell throttling."""

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
    """What it printed, from the first bracket on: warnings may stand before."""
    text = printed_by(command) or ""
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    ends = max(text.rfind("}"), text.rfind("]")) + 1
    try:
        return parse_json(text[min(starts) : ends], finite=False) if starts else None
    except MalformedError:
        _log.debug("%s printed no JSON", command[0])
        return None


def printed_by(command: Sequence[str], timeout_s: float | None = None) -> str | None:
    """What a program prints; None where it is not there, fails or hangs."""
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
        _log.debug("%s could not be asked: %s", command[0], error)
        return None
    return done.stdout if done.returncode == 0 else None
