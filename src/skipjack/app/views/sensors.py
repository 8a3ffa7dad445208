"""Temperature, power and throttling of this machine, read in the background.

Programs of drivers take up to seconds, for which no page waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.sweep.bench import SensorReading, Sensors

_FRESH_S = 5.0
_PATIENCE_S = 0.05
"""How long the first page waits: the processor's sensors are files."""


@dataclass(frozen=True, slots=True)
class MachineSensors:
    """The readings of a machine's devices together; None for what none reports."""

    temperature_c: float | None = None
    """The highest."""
    power_w: float | None = None
    """The sum."""
    throttled: Sequence[str] = ()
    """Why clocks are throttled."""

    @classmethod
    def of(cls, readings: Sequence[SensorReading]) -> MachineSensors:
        """Summarize readings."""
        degrees = [one.temperature_c for one in readings if one.temperature_c is not None]
        watts = [one.power_w for one in readings if one.power_w is not None]
        reasons = dict.fromkeys(why for one in readings for why in one.throttle or ())
        return cls(max(degrees, default=None), sum(watts) if watts else None, tuple(reasons))


class LiveSensors:
    """The newest readings. Threads may share it; reading begins when they are first asked for."""

    def __init__(
        self,
        detect: Callable[[], Sensors] = Sensors.detect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._detect, self._clock = detect, clock
        self._lock = threading.Lock()
        self._sensors: Sensors | None = None
        self._found = MachineSensors()
        self._read_at: float | None = None
        self._reader: threading.Thread | None = None

    def latest(self) -> MachineSensors:
        """The newest readings; has older ones read again in the background."""
        with self._lock:
            is_first = self._read_at is None
            is_old = is_first or self._clock() - (self._read_at or 0.0) > _FRESH_S
            if is_old and (self._reader is None or not self._reader.is_alive()):
                self._reader = threading.Thread(
                    target=self._read, name="skipjack sensors", daemon=True
                )
                self._reader.start()
            reader = self._reader
        if is_first and reader is not None:
            reader.join(_PATIENCE_S)
        return self._found

    def _read(self) -> None:
        if self._sensors is None:
            self._sensors = self._detect()
        self._found = MachineSensors.of(self._sensors.read())
        self._read_at = self._clock()
