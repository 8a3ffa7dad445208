"""What is measured: samples under a name, each with a unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from skipjack.core.objective import Metric

TIME = "time_ns"
"""A kernel's time, as objectives call it."""

NOT_FINITE = ("inf", "-inf", "nan")
"""JSON has no such numbers: they are written as text."""


class MetricSamples(NamedTuple):
    """What was measured under one name."""

    unit: str
    """``ns``, ``s``, ``1`` for a number of things; empty where it is not known, or a word."""
    values: tuple[Metric, ...]
    """In the order in which they were taken; none where the run gave none."""


_UNITS = {
    "ns": "ns",
    "us": "us",
    "ms": "ms",
    "s": "s",
    "sec": "s",
    "secs": "s",
    "seconds": "s",
    "second": "s",
    "bytes": "B",
    "percent": "%",
    "watts": "W",
    "joules": "J",
    "celsius": "C",
    "hz": "Hz",
    "mhz": "MHz",
    "ghz": "GHz",
    "count": "1",
    "calls": "1",
    "qps": "1/s",
    "fps": "1/s",
}


def unit_of(name: str) -> str:
    """The unit that a metric's name ends with, as in ``latency_ns``; empty if it names none.

    What is counted by time, as in ``samples_per_second``, has a unit such as ``1/s``.
    """
    before, _, last = name.lower().rpartition("_")
    unit = _UNITS.get(last, "")
    return f"1/{unit}" if unit and before.endswith("_per") else unit


def single(metrics: Mapping[str, Metric]) -> dict[str, MetricSamples]:
    """Metrics of which there is one value each, in the units that their names say."""
    return {
        name: MetricSamples("" if isinstance(value, str) else unit_of(name), (value,))
        for name, value in metrics.items()
    }
