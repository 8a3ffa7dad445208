"""Times from tables, and estimates for what a table does not have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import exp, log
from statistics import median
from typing import Protocol

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import MalformedError, ScheduleError, UsageError
from skipjack.learn.rates.rates import Counted, Rates, close_rates
from skipjack.learn.rates.table import LoopTable
from skipjack.solvers.cpu.nest import Schedule

_ANCHORS = 32
"""Schedules of a problem by which estimates are scaled to its table."""


class CostModel(Protocol):
    """Estimates times."""

    def log_seconds(
        self, problem: Problem, device: Device, schedules: Sequence[Schedule]
    ) -> Sequence[float]:
        """The logarithm of each schedule's time in seconds; infinite for one that cannot be."""


class TableRates(Counted):
    """`Rates` that replay a table exactly.

    A schedule that the table does not have is estimated by the model, scaled so that the estimates
    of the problem's schedules in the table are right in the median. Without a model it has no time;
    `sources` counts it as ``unknown``.
    """

    def __init__(self, table: LoopTable, model: CostModel | None = None) -> None:
        super().__init__()
        self.table, self._model = table, model
        self.device = table.header.device
        self._shifts: dict[str, float] = {}
        self._estimates: dict[tuple[str, Schedule], float] = {}

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Of the table where it has them."""
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
        """By how much the model is off on the fastest schedules that the table has."""
        if problem.key not in self._shifts:
            timed = [(ns, text) for text, ns in self.table.of(problem).items() if ns is not None]
            anchors = sorted(timed)[:_ANCHORS]
            self._shifts[problem.key] = 0.0
            if anchors and self._model is not None:
                guessed = self._guessed(self._model, problem, [text for _, text in anchors])
                off = [log(ns * 1e-9) - g for (ns, _), g in zip(anchors, guessed, strict=True)]
                self._shifts[problem.key] = median(off)
        return self._shifts[problem.key]

    def _guessed(self, model: CostModel, problem: Problem, texts: list[str]) -> Sequence[float]:
        try:
            schedules = [Schedule.parse(text) for text in texts]
            return model.log_seconds(problem, self.device, schedules)
        except (ScheduleError, KeyError):  # of a loop that the problem does not have
            raise MalformedError(
                f"the table of {self.device.name} has schedules of {problem.key} that are not of "
                "its loops; measure it again"
            ) from None


class ModelRates(Counted):
    """`Rates` that a model estimates; nothing is measured."""

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
    """Some schedules are asked of the second rates, all others of the first.

    Which, the text of problem and schedule decides, so it is the same in every process. It is for
    estimates with real measurements mixed in: both must be times of the same device.
    """

    def __init__(self, most: Rates, some: Rates, share: float) -> None:
        if not 0.0 <= share <= 1.0:
            raise UsageError(f"a share of {share:g} is not between 0 and 1")
        self._most, self._some, self._share = most, some, share

    @property
    def measured(self) -> int:
        """Of both."""
        return self._most.measured + self._some.measured

    @property
    def sources(self) -> dict[str, int]:
        """Of both."""
        found = dict(self._most.sources)
        for source, count in self._some.sources.items():
            found[source] = found.get(source, 0) + count
        return found

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        """Each of its own rates."""
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
        """End the processes of the rates that measure."""
        close_rates(self._most)
        close_rates(self._some)

    def _is_of_some(self, problem: Problem, schedule: Schedule) -> bool:
        digest = hashlib.sha256(f"{problem.key} {schedule.text()}".encode()).digest()
        return int.from_bytes(digest[:4], "big") < self._share * 2**32
