"""Every run under the same conditions: cool down before it, warm up, and watch it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean

from skipjack.core.objective import Metric
from skipjack.errors import UsageError
from skipjack.sweep.heat.gpu_sensors import TIMEOUT_S
from skipjack.sweep.heat.reading import SensorReading, mean_temperature, total_power
from skipjack.sweep.heat.sensors import Sensors
from skipjack.sweep.outcome import Outcome

WATCH_S = 1.0
"""Between two looks during a run."""


@dataclass(frozen=True, slots=True)
class RunCondition:
    """What is known of one run."""

    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """``start_temp``, ``max_temp``, ``power_w`` and ``throttled`` (1 or 0), where they are told."""
    notes: tuple[str, ...] = ()

    def added_to(self, outcome: Outcome) -> Outcome:
        """The outcome with this in it; what the run itself said under these names stands."""
        return replace(
            outcome,
            metrics={**self.metrics, **outcome.metrics},
            notes=(*outcome.notes, *self.notes),
        )


@dataclass(slots=True)
class Thermal:
    """Waits and watches; never an error, at worst a note.

    Whoever runs a benchmark asks for it like this::

        notes = [thermal.before_build()]  # where there is something to build
        notes.append(thermal.before_run())
        with thermal.watch() as watch:
            outcome = run()
        outcome = watch.condition(*notes).added_to(outcome)
    """

    cool_to_c: float | None = None
    """Wait before builds and runs until devices are as cool as this, on average."""
    cool_timeout_s: float = 0.0
    """Wait no longer than this; 0 means no waiting."""
    warm_up_s: float = 0.0
    """Run for so long, uncounted, before anything counts."""
    warm_up_runs: int = 0
    """At least so many times."""
    poll_s: float = 2.0
    """Between two looks while waiting."""
    sensors: Sensors = field(default_factory=Sensors.detect)
    watch_s: float = WATCH_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    stopped: Callable[[], bool] = bool
    """Whether the user wants to stop; then nothing is waited for. By default: no."""
    _ran: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name in ("cool_timeout_s", "warm_up_s", "warm_up_runs"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it cannot be less than 0")
        if not self.poll_s > 0:
            raise UsageError(f"poll_s is {self.poll_s}; it must be more than 0")

    def remarks(self) -> tuple[str, ...]:
        """What to say once for the whole sweep."""
        wanted = self.cool_to_c is not None and self.cool_timeout_s > 0.0
        if wanted and mean_temperature(self.sensors.read()) is None:
            return ("temperature is not available here: nothing is waited for",)
        return ()

    def before_build(self) -> str:
        """Cool down, but not before the very first build; a note if it was too long."""
        return self.before_run() if self._ran else ""

    def before_run(self) -> str:
        """Cool down; a note if it was too long."""
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
        """Call `run` until it is warm; how often it was."""
        start, runs = self.clock(), 0
        while runs < self.warm_up_runs or (
            self.warm_up_s > 0.0 and self.clock() - start < self.warm_up_s
        ):
            run()
            runs += 1
        return runs

    def watch(self) -> SensorWatch:
        """Around one run; ask the watch for its `condition` afterwards."""
        self._ran = True
        return SensorWatch(self.sensors, self.watch_s)


class SensorWatch:
    """Looks at the sensors while something runs, in a thread of its own; a context manager."""

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
            # A driver that hangs keeps nobody from going on.
            self._thread.join(TIMEOUT_S)

    def _look(self) -> None:
        # The first look comes after a moment: an idle device says nothing about the run.
        while not self._over.wait(self._every_s):
            self._looks.append(self._sensors.read())

    def condition(self, *notes: str) -> RunCondition:
        """What was seen, and notes from before the run; empty ones do not count."""
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
