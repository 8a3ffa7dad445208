"""What a sensor says, and who can be asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class SensorReading:
    """What one device says now; None where it does not say."""

    temperature_c: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] | None = None
    """Why its clocks are held down, where that is not normal; empty if they are not."""
    power_capped: bool = False
    """Whether it runs at its power limit."""


class SensorSource(Protocol):
    """A way to read devices."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        ...

    def read(self) -> list[SensorReading]:
        """One reading for each device; empty where there is none or reading failed."""
        ...


def mean_temperature(readings: Iterable[SensorReading]) -> float | None:
    """Over devices, as one waits for them to cool; None where none tells it."""
    known = [r.temperature_c for r in readings if r.temperature_c is not None]
    return fmean(known) if known else None


def total_power(readings: Iterable[SensorReading]) -> float | None:
    """Of all devices together; None where none tells it."""
    known = [reading.power_w for reading in readings if reading.power_w is not None]
    return sum(known) if known else None


def number(text: Any) -> float | None:
    """A number that is one; None for ``[N/A]`` and the like."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None
