"""The interface of engines: workers that each do one task at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.core import Device
from skipjack.fleet.model.states import JobStage
from skipjack.fleet.model.tasks import Task, TaskOutcome


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as an engine detected it."""

    name: str
    cores: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    """The devices that can be measured there."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one worker. Its name is unique within the engine."""

    name: str
    stage: JobStage
    host: str
    """The machine's name."""
    devices: tuple[Device, ...] = ()
    """Devices that an evaluator measures on; builders build for all devices."""
    gpu: str = ""
    """The GPU of its host as users write it, ``0``; or ``cpu1`` for a core."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that a slot has ended, with its outcome or as lost."""

    slot: str
    job: int
    outcome: TaskOutcome | None = None
    lost: str = ""
    """Why there is no outcome: for example the worker died or hung."""
    attempt: int = 0
    """The attempt of the task: the job may have been claimed again meanwhile."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The log so far of a running task."""

    job: int
    attempt: int
    text: str
    """The whole log, or its beginning and its end."""


class Engine(Protocol):
    """Workers on this machine or on others. Used from one thread.

    An engine starts its processes when it is entered as a context manager, and ends all of them.
    When a worker dies, only its task is lost: the engine reports it and starts another worker.
    """

    name: str

    def hosts(self) -> Sequence[Host]:
        """The current machines; a cluster may grow and shrink."""
        ...

    def slots(self) -> Sequence[Slot]:
        """The slots of all current workers, busy or idle."""
        ...

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order, after those that it has already."""
        ...

    def poll(self, timeout_s: float) -> list[Done]:
        """Ended tasks; waits up to this long for the first."""
        ...

    def running_logs(self) -> Sequence[RunningLog]:
        """Logs of running tasks that have grown since the last call. They may be a second or two
        old.
        """
        ...

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once. `poll` does not report them: the same job may have
        been claimed again by then, and the answer would be taken for that claim's.
        """
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...
