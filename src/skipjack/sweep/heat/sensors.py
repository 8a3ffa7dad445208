"""Temperature, power and throttling, as far as this machine can tell them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from skipjack.sweep.heat.gpu_sensors import AmdSmi, Nvidia, RocmSmi
from skipjack.sweep.heat.reading import SensorReading, SensorSource, number

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sensors:
    """The source that answered when one was looked for. Reading never raises."""

    source: SensorSource | None = None

    @classmethod
    def detect(cls, sys_root: Path = Path("/sys")) -> Sensors:
        """Accelerators if there are any, else the processor: what gets hot is what is used."""
        sources: tuple[SensorSource, ...] = (Nvidia(), AmdSmi(), RocmSmi(), Processor(sys_root))
        return next((one for one in map(cls, sources) if one.read()), cls())

    @property
    def name(self) -> str:
        """``nvidia-smi``, or ``not available``."""
        return self.source.name if self.source else "not available"

    def read(self) -> list[SensorReading]:
        """All devices; a source that raises has none this time."""
        try:
            return self.source.read() if self.source else []
        except Exception:
            _log.debug("%s could not be read", self.name, exc_info=True)
            return []


class Processor:
    """Linux: the hottest sensor of the processor, from hwmon or else from thermal zones."""

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
    """From thousandths; sensors that are not connected say zero, or less."""
    values = [number(_text(file)) for file in files]
    return [value / 1000.0 for value in values if value is not None and 0.0 < value < 200_000.0]
