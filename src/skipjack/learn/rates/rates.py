"""How long schedules take: the interface; times replayed from tables, estimated, or mixed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Protocol

from skipjack.core import Device, Problem
from skipjack.errors import MalformedError, ScheduleError, UsageError
from skipjack.learn.rates.table import LoopTable
from skipjack.operations import get
from skipjack.settings import Settings, load_settings
from skipjack.solvers.cpu.nest import Schedule

# The interface for times of schedules.


class Rates(Protocol):
    """Times of schedules. Times of one problem are comparable.

    A schedule that cannot be built, crashes, hangs or computes wrong results has no time; that is
    never an exception. Repeated requests for a schedule return the same time.
    """

    @property
    def measured(self) -> int:
        """The number of distinct schedules requested, over all problems."""

    @property
    def sources(self) -> dict[str, int]:
        """How many of them were ``measured``, ``replayed``, ``estimated`` or ``unknown``.

        Results record these counts to show what they were trained or evaluated on.
        """

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """The time of each schedule, in order; None for one without a time."""


class CountedRates:
    """Counts distinct schedules by the source of their times."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, Schedule], str] = {}

    def count(self, problem: Problem, schedule: Schedule, source: str) -> None:
        """Count a schedule once, with its first source."""
        self._asked.setdefault((problem.key, schedule), source)

    @property
    def measured(self) -> int:
        """The number of distinct schedules."""
        return len(self._asked)

    @property
    def sources(self) -> dict[str, int]:
        """The number of schedules by source."""
        found: dict[str, int] = {}
        for source in self._asked.values():
            found[source] = found.get(source, 0) + 1
        return found


def peak_gflops(problem: Problem, device: Device, settings: Settings | None = None) -> float:
    """The peak of a device in the problem's type, in GFLOP/s.

    ``MAX_GFLOPS`` if it is set; otherwise the measured peak of one thread of this machine, times
    the number of threads.
    """
    chosen = settings or load_settings()
    if chosen.max_gflops is not None:
        return chosen.max_gflops
    from skipjack.native import cpu
    from skipjack.tuning.study import measured_peaks

    if device.arch != cpu.detect().arch:
        raise UsageError(
            f"the peak of {device.name} is not known here; set MAX_GFLOPS to its GFLOP/s"
        )
    _, peaks = measured_peaks(chosen)
    return peaks.flops(problem.dtype) * device.units * 1e-9


def close_rates(rates: object) -> None:
    """Close rates that have processes; other rates need no closing."""
    close = getattr(rates, "close", None)
    if close is not None:
        close()


def gflops(problem: Problem, seconds: float | None) -> float:
    """The rate of a time in GFLOP/s; 0 without a time."""
    return get(problem.operation).flops(problem) / seconds * 1e-9 if seconds else 0.0


# Times from tables, estimated times, and mixtures.

_ANCHORS = 32
"""The number of schedules by which estimates are scaled to a table."""


class CostModel(Protocol):
    """A model that estimates times."""

    def log_seconds(
        self, problem: Problem, device: Device, schedules: Sequence[Schedule]
    ) -> Sequence[float]:
        """The logarithm of each schedule's seconds; infinite for an impossible schedule."""


class TableRates(CountedRates):
    """`Rates` that replay a table exactly.

    Schedules that are not in the table are estimated by the model, scaled so that its estimates for
    the problem's fastest schedules in the table are right in the median. Without a model they have
    no time, and `sources` counts them as ``unknown``.
    """

    def __init__(self, table: LoopTable, model: CostModel | None = None) -> None:
        super().__init__()
        self.table, self._model = table, model
        self.device = table.header.device
        self._shifts: dict[str, float] = {}
        self._estimates: dict[tuple[str, Schedule], float] = {}

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Times from the table if it has them, otherwise estimates."""
        known = self.table.of(problem)
        missing = [one for one in dict.fromkeys(schedules) if one.text() not in known]
        self._estimate(problem, missing)
        found: list[float | None] = []
        for schedule in schedules:
            text = schedule.text()
            if text in known:
                self.count(problem, schedule, "replayed")
                time_ns = known[text]
                found.append(None if time_ns is None else time_ns * 1e-9)
            else:
                self.count(problem, schedule, "estimated" if self._model else "unknown")
                found.append(self._estimates.get((problem.key, schedule)))
        return found

    def _estimate(self, problem: Problem, schedules: Sequence[Schedule]) -> None:
        new = [one for one in schedules if (problem.key, one) not in self._estimates]
        if not new or self._model is None:
            return
        shift = self._shift(problem)
        for schedule, value in zip(
            new, self._model.log_seconds(problem, self.device, new), strict=True
        ):
            self._estimates[problem.key, schedule] = exp(value + shift)

    def _shift(self, problem: Problem) -> float:
        """The median error of the model on the fastest schedules of the table, as a logarithm."""
        if problem.key not in self._shifts:
            timed = [(ns, text) for text, ns in self.table.of(problem).items() if ns is not None]
            anchors = sorted(timed)[:_ANCHORS]
            self._shifts[problem.key] = 0.0
            if anchors and self._model is not None:
                estimated = self._estimated_logs(
                    self._model, problem, [text for _, text in anchors]
                )
                off = [log(ns * 1e-9) - g for (ns, _), g in zip(anchors, estimated, strict=True)]
                self._shifts[problem.key] = median(off)
        return self._shifts[problem.key]

    def _estimated_logs(
        self, model: CostModel, problem: Problem, texts: list[str]
    ) -> Sequence[float]:
        try:
            schedules = [Schedule.parse(text) for text in texts]
            return model.log_seconds(problem, self.device, schedules)
        except (ScheduleError, KeyError):  # a loop that the problem does not have
            raise MalformedError(
                f"the table of {self.device.name} has invalid schedules of {problem.key}; "
                "measure it again"
            ) from None


class ModelRates(CountedRates):
    """`Rates` that a model estimates, without measuring."""

    def __init__(self, model: CostModel, device: Device) -> None:
        super().__init__()
        self._model, self.device = model, device
        self._known: dict[tuple[str, Schedule], float] = {}

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """The model's estimates."""
        new = [one for one in dict.fromkeys(schedules) if (problem.key, one) not in self._known]
        values = self._model.log_seconds(problem, self.device, new) if new else []
        for schedule, value in zip(new, values, strict=True):
            self._known[problem.key, schedule] = exp(value)
        for schedule in schedules:
            self.count(problem, schedule, "estimated")
        return [self._known[problem.key, schedule] for schedule in schedules]


class MixedRates:
    """A share of schedules have their times from the second rates, all others from the first.

    A hash of problem and schedule decides, so it is the same in every process. This mixes estimates
    with measurements; both must be times of the same device.
    """

    def __init__(self, most: Rates, some: Rates, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise UsageError(f"the share {share:g} is not between 0 and 1")
        self._most, self._some, self._share = most, some, share

    @property
    def measured(self) -> int:
        """The total of both rates."""
        return self._most.measured + self._some.measured

    @property
    def sources(self) -> dict[str, int]:
        """The total of both rates."""
        found = dict(self._most.sources)
        for source, count in self._some.sources.items():
            found[source] = found.get(source, 0) + count
        return found

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Times from the first or the second rates."""
        chosen = [self._is_of_some(problem, schedule) for schedule in schedules]
        parts = {
            one: iter(
                rates.seconds(
                    problem, [s for s, own in zip(schedules, chosen, strict=True) if own is one]
                )
            )
            for one, rates in ((False, self._most), (True, self._some))
        }
        return [next(parts[own]) for own in chosen]

    def close(self) -> None:
        """Close both rates."""
        close_rates(self._most)
        close_rates(self._some)

    def _is_of_some(self, problem: Problem, schedule: Schedule) -> bool:
        digest = hashlib.sha256(f"{problem.key} {schedule.text()}".encode()).digest()
        return int.from_bytes(digest[:4], "big") < self._share * 2**32
