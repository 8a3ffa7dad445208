"""PTDaemon's power log (``spl.txt``): average power of a LoadGen run, and its efficiency.

A line is ``Time,10-12-2021 02:13:19.352,Watts,293.14,Volts,207.28,...``: the second field is the
time, the fourth the power. LoadGen logs its start and end in the same format, but possibly in
another time zone: if there is no sample between them, both are shifted by the local time zone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from statistics import fmean

from skipjack.core import Metric
from skipjack.errors import UsageError

TIME_FORMAT = "%m-%d-%Y %H:%M:%S.%f"
_FIELDS = 4
_NAMED = 5
"""Maximum number of damaged lines in a message."""
_RATES = {
    "offline": ("result_samples_per_second",),
    "server": ("result_scheduled_samples_per_sec", "result_completed_samples_per_sec"),
}
_LATENCIES = {
    "singlestream": ("result_mean_latency_ns",),
    "multistream": ("result_mean_query_latency_ns", "result_mean_latency_ns"),
}


@dataclass(frozen=True, slots=True)
class PowerLog:
    """The samples of a log, in the order of the file."""

    path: Path
    samples: tuple[tuple[datetime, float], ...]
    broken: tuple[int, ...] = ()
    """Numbers of lines that could not be parsed."""

    def remarks(self) -> tuple[str, ...]:
        """A sentence about damaged lines, if there are any."""
        if not self.broken:
            return ()
        named = ", ".join(map(str, self.broken[:_NAMED]))
        more = f" and {len(self.broken) - _NAMED} more" if len(self.broken) > _NAMED else ""
        one = len(self.broken) == 1
        lines, were = ("line", "was") if one else ("lines", "were")
        return (f"{self.path}: {lines} {named}{more} could not be read and {were} left out",)


def read_power_log(path: Path) -> PowerLog:
    """All samples of a log; damaged lines are recorded, not fatal."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read the power log {path}: {error.strerror or error}") from error
    samples, broken = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        sample = _sample(line)
        if sample is None:
            broken.append(number)
        else:
            samples.append(sample)
    if not samples:
        raise UsageError(
            f"{path} has no power samples; "
            "lines must have the form Time,MM-DD-YYYY HH:MM:SS.mmm,Watts,W"
        )
    return PowerLog(path, tuple(samples), tuple(broken))


def _sample(line: str) -> tuple[datetime, float] | None:
    fields = line.split(",")
    if len(fields) < _FIELDS:
        return None
    try:
        when, watts = parse_time(fields[1]), float(fields[3])
    except ValueError:
        return None
    # Meters write a negative number if a measurement failed.
    return (when, watts) if isfinite(watts) and watts >= 0.0 else None


def parse_time(text: str) -> datetime:
    """Parse a time such as ``10-12-2021 02:13:19.352``, without a time zone."""
    return datetime.strptime(text.strip(), TIME_FORMAT)


def average_watts(
    log: PowerLog, begin: str, end: str, zone: timedelta | None = None
) -> float | None:
    """The mean power from LoadGen's ``power_begin`` to ``power_end``; None without samples.

    `zone` is the offset of the local time from UTC; by default, that of this machine at the time.
    """
    try:
        start, stop = parse_time(begin), parse_time(end)
    except ValueError:
        raise UsageError(
            f"power_begin {begin!r} and power_end {end!r} must be MM-DD-YYYY HH:MM:SS.mmm"
        ) from None
    shift = _local_zone(start) if zone is None else zone
    for offset in dict.fromkeys((timedelta(0), shift, -shift)):
        found = [w for when, w in log.samples if start + offset <= when <= stop + offset]
        if found:
            return fmean(found)
    return None


def _local_zone(when: datetime) -> timedelta:
    return when.astimezone().utcoffset() or timedelta(0)


def efficiency(metrics: Mapping[str, Metric], watts: float, scenario: str) -> dict[str, Metric]:
    """Additional metrics of a run: ``qps_per_watt``, or ``joules_per_stream`` for streams."""
    if not isfinite(watts) or watts <= 0.0:
        raise UsageError(f"{watts} watts is not a valid average power; check the power log")
    kind = scenario.replace("_", "").replace("-", "").lower()
    if kind in _RATES:
        rate = _first(metrics, _RATES[kind], scenario)
        return {"average_watts": watts, "qps_per_watt": rate / watts}
    if kind in _LATENCIES:
        latency_ns = _first(metrics, _LATENCIES[kind], scenario)
        return {"average_watts": watts, "joules_per_stream": latency_ns * 1e-9 * watts}
    raise UsageError(
        f"unknown scenario {scenario!r}; choose Offline, Server, SingleStream or MultiStream"
    )


def _first(metrics: Mapping[str, Metric], names: Sequence[str], scenario: str) -> float:
    for name in names:
        value = metrics.get(name)
        if value is not None and not isinstance(value, str):
            return value
    raise UsageError(
        f"the {scenario} run has no {' or '.join(names)}, so its efficiency cannot be computed"
    )
