"""What an engine is: workers somewhere, each of which takes a task at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.core.device import Device
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task


@dataclass(frozen=True, slots=True)
class Host:
    """A machine as an engine found it."""

    name: str
    cores: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    """What can be measured there, as detected."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One worker's place. Its name is unique within the engine."""

    name: str
    stage: Stage
    host: str
    """The machine's name."""
    devices: tuple[Device, ...] = ()
    """What an evaluator measures on; builders build for all."""
    gpu: str = ""
    """Which one of its host, as people write it: ``0``, or ``cpu1`` for a core."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that a slot no longer works on."""

    slot: str
    job: int
    outcome: Outcome | None = None
    lost: str = ""
    """Why there is no outcome: the worker died or hung."""
    attempt: int = 0
    """That of the task: a job may have been given away and claimed again meanwhile."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class RunningLog:
    """What a worker has logged of a task that it is at."""

    job: int
    attempt: int
    text: str
    """All of it, or its beginning and its end."""


class Engine(Protocol):
    """Workers, here or elsewhere. Used from one thread.

    An engine starts what it needs when it is entered and leaves nothing behind. A worker that dies
    costs its task only: the engine reports it lost and starts another worker in its place.
    """

    name: str

    def hosts(self) -> Sequence[Host]:
        """The machines there are now; a cluster may grow and shrink."""
        ...

    def slots(self) -> Sequence[Slot]:
        """The workers there are now, busy or not."""
        ...

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order; it may have others still to do."""
        ...

    def poll(self, timeout_s: float) -> list[Done]:
        """What is done, waiting up to this long for the first."""
        ...

    def heard(self) -> Sequence[RunningLog]:
        """What workers have said about the tasks they are at, where it grew since the last call.
        It may be a second or two old.
        """
        ...

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once. They do not come out of `poll`: the same job may have
        been claimed again by then, and the answer would be taken for that claim's.
        """
        ...

    def close(self) -> None:
        """End all workers now."""
        ...
