"""What learners and searches ask: how long schedules of a problem take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.operations import get
from skipjack.settings import Settings, load_settings
from skipjack.solvers.cpu.nest import Schedule


class Rates(Protocol):
    """Says how long schedules take. Times of one problem compare with each other.

    A schedule that cannot be built, crashes, hangs or computes something else has no time; that is
    never an exception. The same schedule has the same time however often it is asked for.
    """

    @property
    def measured(self) -> int:
        """How many distinct schedules it was asked for, over all problems."""

    @property
    def sources(self) -> dict[str, int]:
        """How many of them were ``measured``, ``replayed`` from a table, ``estimated``, unknown.

        Every result says by this what it was trained or judged on.
        """

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Of each, in order; None for one that has no time."""


class Counted:
    """Counts distinct schedules by what their times are from."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Schedule], str] = {}

    def count(self, problem: Problem, schedule: Schedule, source: str) -> None:
        """A schedule counts once, with its first source."""
        self._asked.setdefault((problem.key, schedule), source)

    @property
    def measured(self) -> int:
        """How many distinct schedules there were."""
        return len(self._asked)

    @property
    def sources(self) -> dict[str, int]:
        """How many of each source."""
        found: dict[str, int] = {}
        for source in self._asked.values():
            found[source] = found.get(source, 0) + 1
        return found


def peak_gflops(problem: Problem, device: Device, settings: Settings | None = None) -> float:
    """What a device reaches at most in the problem's type, in GFLOP/s.

    ``MAX_GFLOPS``, if it is set; else what was measured on this machine for one thread, times the
    threads.
    """
    chosen = settings or load_settings()
    if chosen.max_gflops is not None:
        return chosen.max_gflops
    from skipjack.native import cpu
    from skipjack.tuning import measured_peaks

    if device.arch != cpu.detect().arch:
        raise UsageError(
            f"the peak of {device.name} is not known here; set MAX_GFLOPS to its GFLOP/s"
        )
    _, peaks = measured_peaks(chosen)
    return peaks.flops(problem.dtype) * device.units * 1e-9


def close_rates(rates: object) -> None:
    """End the processes of rates that measure; others have nothing to end."""
    close = getattr(rates, "close", None)
    if close is not None:
        close()


def gflops(problem: Problem, seconds: float | None) -> float:
    """The rate of a time; 0 for none."""
    return get(problem.operation).flops(problem) / seconds * 1e-9 if seconds else 0.0
