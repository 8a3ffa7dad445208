"""An engine of virtual devices: jobs take as long as recorded ones did, and nobody computes."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import fleet_durations
from skipjack.core import Device
from skipjack.fleet.model import Done, Host, JobStage, RunningLog, Slot, Task, TaskOutcome
from skipjack.interrupt import Interrupt

PER_HOST = 8


@dataclass(frozen=True, slots=True)
class Window:
    """When devices are watched, by the monotonic clock; the run ends with it."""

    begins: float
    ends: float

    def within(self, start: float, end: float) -> float:
        """The seconds of an interval that fall into it."""
        return max(0.0, min(end, self.ends) - max(start, self.begins))


@dataclass
class VirtualDevices:
    """Evaluators in real time, each doing its tasks in order; see `Engine` in fleet/model."""

    first_host: int
    devices: int
    device: Device
    outcome: TaskOutcome
    """What comes of every job, but for its number."""
    window: Window
    interrupt: Interrupt
    rng: np.random.Generator
    name: str = "virtual"
    busy_s: float = 0.0
    """Of all devices together, within the window."""
    done: int = 0
    """Jobs that ended within the window."""
    _free_at: dict[str, float] = field(default_factory=dict)
    _running: list[tuple[float, str, int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._quantiles = fleet_durations.load()
        numbers = range(-(-self.devices // PER_HOST))
        self._hosts = [
            Host(f"virtual{self.first_host + number}", PER_HOST, 1 << 36, (self.device,))
            for number in numbers
        ]
        self._slots = [
            Slot(f"{host.name}-{gpu}", JobStage.EVALUATE, host.name, (self.device,), str(gpu))
            for host in self._hosts
            for gpu in range(PER_HOST)
        ][: self.devices]

    def hosts(self) -> Sequence[Host]:
        """The same ones always."""
        return self._hosts

    def slots(self) -> Sequence[Slot]:
        """The same ones always."""
        return self._slots

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """A device begins when it is done with what it had."""
        for task in tasks:
            start = max(time.monotonic(), self._free_at.get(slot, 0.0))
            seconds = fleet_durations.draw(self._quantiles, self.rng)
            end = self._free_at[slot] = start + seconds
            self.busy_s += self.window.within(start, end)
            heapq.heappush(self._running, (end, slot, task.job, seconds))

    def poll(self, timeout_s: float) -> list[Done]:
        """Wait for the first that ends, up to the time that is given."""
        now = time.monotonic()
        if now > self.window.ends:
            self.interrupt.requested = True
        first = self._running[0][0] if self._running else now + timeout_s
        time.sleep(max(0.0, min(first - now, timeout_s)))
        now = time.monotonic()
        found = []
        while self._running and self._running[0][0] <= now:
            end, slot, job, seconds = heapq.heappop(self._running)
            self.done += self.window.begins <= end < self.window.ends
            outcome = replace(self.outcome, job=job)
            found.append(Done(slot, job, outcome, seconds=seconds))
        return found

    def running_logs(self) -> Sequence[RunningLog]:
        """Its devices say nothing."""
        return ()

    def cancel(self, jobs: Sequence[int]) -> None:
        """Only the end of the run does that; what devices did until then has been counted."""

    def close(self) -> None:
        """Nothing to end."""
