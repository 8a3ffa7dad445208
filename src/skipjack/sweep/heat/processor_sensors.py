"""The processor's temperature, from the files that Linux has for it."""

from __future__ import annotations

from pathlib import Path

from skipjack.sweep.heat.reading import Reading, number


class Processor:
    """Linux: the hottest sensor of the processor, from hwmon or else from thermal zones."""

    name = "the processor's sensors"
    _CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "scpi_sensors")
    _ZONES = ("x86_pkg_temp", "cpu", "soc")

    def __init__(self, sys_root: Path = Path("/sys")) -> None:
        self._root = sys_root

    def read(self) -> list[Reading]:
        found = self._hwmon() or self._zones()
        return [Reading(max(found))] if found else []

    def _hwmon(self) -> list[float]:
        chips = _entries(self._root / "class" / "hwmon", "hwmon*")
        ours = [chip for chip in chips if _text(chip / "name") in self._CHIPS]
        return [
            value
            for chip in ours
            for file in _entries(chip, "temp*_input")
            if (value := _millidegrees(file)) is not None
        ]

    def _zones(self) -> list[float]:
        zones = _entries(self._root / "class" / "thermal", "thermal_zone*")
        ours = [zone for zone in zones if _text(zone / "type").lower().startswith(self._ZONES)]
        return [value for zone in ours if (value := _millidegrees(zone / "temp")) is not None]


def _entries(directory: Path, pattern: str) -> list[Path]:
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _millidegrees(path: Path) -> float | None:
    value = number(_text(path))
    # Sensors that are not connected say zero, or less.
    return value / 1000.0 if value is not None and 0.0 < value < 200_000.0 else None
