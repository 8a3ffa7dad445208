"""The same conditions for every run: cooling down, warming up, and watching the sensors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from skipjack.core import Metric
from skipjack.errors import UsageError
from skipjack.sweep.bench.outcome import RunOutcome
from skipjack.sweep.bench.sensors import (
    TIMEOUT_S,
    SensorReading,
    Sensors,
    mean_temperature,
    total_power,
)

WATCH_S = 1.0
"""Seconds between two readings during a run."""


@dataclass(frozen=True, slots=True)
class RunCondition:
    """The conditions of one run."""

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """``start_temp``, ``max_temp``, ``power_w`` and ``throttled`` (1 or 0), if known."""
    notes: tuple[str, ...] = ()

    def added_to(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome with these metrics and notes; metrics of the run itself take precedence."""
        return replace(
            outcome,
            metrics={**self.metrics, **outcome.metrics},
            notes=(*outcome.notes, *self.notes),
        )


@dataclass(slots=True)
class Thermal:
    """Waits before runs and watches the sensors; problems are notes, never errors.

    Use it like this::

        notes = [thermal.before_build()]  # where there is something to build
        notes.append(thermal.before_run())
        with thermal.watch() as watch:
            outcome = run()
        outcome = watch.condition(*notes).added_to(outcome)
    """

    cool_to_c: float | None = None
    """The mean temperature to wait for before builds and runs."""
    cool_timeout_s: float = 0.0
    """The longest wait; 0 for no waiting."""
    warm_up_s: float = 0.0
    """Seconds of uncounted runs at the start."""
    warm_up_runs: int = 0
    """The least number of uncounted runs at the start."""
    poll_s: float = 2.0
    """Seconds between two readings while waiting."""
    sensors: Sensors = field(default_factory=Sensors.detect)
    watch_s: float = WATCH_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    stopped: Callable[[], bool] = bool
    """Whether the user wants to stop, which ends waiting. By default: no."""
    _ran: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name in ("cool_timeout_s", "warm_up_s", "warm_up_runs"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        if not self.poll_s > 0:
            raise UsageError(f"poll_s is {self.poll_s}; it must be above 0")

    def remarks(self) -> tuple[str, ...]:
        """Remarks about the whole sweep."""
        wanted = self.cool_to_c is not None and self.cool_timeout_s > 0.0
        if wanted and mean_temperature(self.sensors.read()) is None:
            return ("the temperature is not available here, so runs do not wait for cooling",)
        return ()

    def before_build(self) -> str:
        """Cool down, except before the first build; returns a note if it stays too hot."""
        return self.before_run() if self._ran else ""

    def before_run(self) -> str:
        """Cool down; returns a note if it stays too hot."""
        target, patience = self.cool_to_c, self.cool_timeout_s
        if target is None or patience <= 0.0:
            return ""
        deadline = self.clock() + patience
        while True:
            now = mean_temperature(self.sensors.read())
            if now is None or now <= target or self.stopped():
                return ""
            left = deadline - self.clock()
            if left <= 0.0:
                return f"still {now:.0f} °C after {patience:g} s of cooling to {target:g} °C"
            self.sleep(min(self.poll_s, left))

    def warm_up(self, run: Callable[[], object]) -> int:
        """Call `run` until the warm-up is complete; returns the number of calls."""
        start, runs = self.clock(), 0
        while runs < self.warm_up_runs or (
            self.warm_up_s > 0.0 and self.clock() - start < self.warm_up_s
        ):
            run()
            runs += 1
        return runs

    def watch(self) -> SensorWatch:
        """A context for one run; its `condition` is available afterwards."""
        self._ran = True
        return SensorWatch(self.sensors, self.watch_s)


class SensorWatch:
    """A context manager that reads the sensors in a thread while something runs."""

    def __init__(self, sensors: Sensors, every_s: float) -> None:
        self._sensors, self._every_s = sensors, every_s
        self._start_temp: float | None = None
        self._looks: list[list[SensorReading]] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SensorWatch:
        if self._sensors.source is not None:
            self._start_temp = mean_temperature(self._sensors.read())
            self._thread = threading.Thread(target=self._look, name="skipjack-sensors", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread is not None:
            # Do not wait for a driver that hangs.
            self._thread.join(TIMEOUT_S)

    def _look(self) -> None:
        # Wait before the first reading: at the start the device is still idle.
        while not self._over.wait(self._every_s):
            self._looks.append(self._sensors.read())

    def condition(self, *notes: str) -> RunCondition:
        """The conditions of the run, with further notes; empty notes are dropped."""
        metrics: dict[str, Metric] = {}
        if self._start_temp is not None:
            metrics["start_temp"] = self._start_temp
        readings = [reading for look in self._looks for reading in look]
        hot = [r.temperature_c for r in readings if r.temperature_c is not None]
        if hot:
            metrics["max_temp"] = max(hot)
        powers = [power for look in self._looks if (power := total_power(look)) is not None]
        if powers:
            metrics["power_w"] = fmean(powers)
        if any(reading.throttle is not None for reading in readings):
            metrics["throttled"] = float(any(reading.throttle for reading in readings))
        return RunCondition(metrics, (*filter(None, notes), *self._notes()))

    def _notes(self) -> tuple[str, ...]:
        reasons = sorted({text for look in self._looks for r in look for text in r.throttle or ()})
        notes = [f"throttled: {', '.join(reasons)}"] if reasons else []
        if any(reading.power_capped for look in self._looks for reading in look):
            notes.append("ran at the power limit")
        return tuple(notes)
