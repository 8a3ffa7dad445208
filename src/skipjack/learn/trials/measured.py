"""What was measured of a problem on a device, on one scale, as models are trained on it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log
from statistics import fmean, median

from skipjack.core import Config, Device, Problem, Status, Trial

Key = tuple[str, str]
"""A solver and the key of a config."""


@dataclass(frozen=True, slots=True)
class MeasuredConfig:
    """The result of a config of a solver."""

    solver: str
    config: Config
    status: Status = Status.OK
    time_ns: float = inf
    """Infinite if it failed."""
    reason: str = ""

    @property
    def key(self) -> Key:
        """Identifies it among the configs of a problem."""
        return self.solver, self.config.key


@dataclass(frozen=True)
class ProblemTrials:
    """All that was measured of a problem on a device. Times compare with each other only."""

    problem: Problem
    device: Device
    measured: tuple[MeasuredConfig, ...]
    """Each config once."""

    @cached_property
    def best_ns(self) -> float:
        """The lowest time; infinite if everything failed."""
        return min((one.time_ns for one in self.measured), default=inf)

    @cached_property
    def by_key(self) -> Mapping[Key, MeasuredConfig]:
        """The results by solver and config."""
        return {one.key: one for one in self.measured}

    @property
    def successful(self) -> list[MeasuredConfig]:
        """The configs that have a time."""
        return [one for one in self.measured if one.time_ns < inf]

    def quality(self, solver: str, config: Config) -> float | None:
        """The best time over that of a config: 1 is the best, 0 failed, None was not measured."""
        found = self.by_key.get((solver, config.key))
        return None if found is None else self.best_ns / found.time_ns


def solver_trials(solver: str, trials: Iterable[Trial]) -> list[MeasuredConfig]:
    """The trials of one study: of a config that was told several times, the median."""
    told: defaultdict[Config, list[Trial]] = defaultdict(list)
    for trial in trials:
        told[trial.config].append(trial)
    return [_one(solver, config, found) for config, found in told.items()]


def _one(solver: str, config: Config, trials: Sequence[Trial]) -> MeasuredConfig:
    times = [trial.value for trial in trials if trial.ok and trial.value and 0 < trial.value < inf]
    if times:
        return MeasuredConfig(solver, config, time_ns=median(times))
    last = trials[-1]
    status = Status.NO_RESULT if last.ok else last.status
    return MeasuredConfig(solver, config, status, reason=last.reason)


def on_one_scale(sessions: Sequence[Sequence[MeasuredConfig]]) -> tuple[MeasuredConfig, ...]:
    """The results of several sessions of a problem, each config once.

    A machine is faster at one time than at another: sessions are scaled, one after the other, by
    the median ratio of the configs that they share with those before. A session that shares none
    is taken as it is. The largest session gives the scale. A config of several sessions has the
    geometric mean, which makes it less likely that the fastest config is merely the luckiest.
    """
    found: dict[Key, MeasuredConfig] = {}
    logs: defaultdict[Key, list[float]] = defaultdict(list)
    left = sorted(sessions, key=len, reverse=True)
    while left:
        shared = [_ratios(logs, session) for session in left]
        at = max(range(len(left)), key=lambda place: len(shared[place]))
        shift = median(shared[at]) if shared[at] else 0.0
        for one in left.pop(at):
            if one.key not in found or one.time_ns < inf:
                found[one.key] = one
            if one.time_ns < inf:
                logs[one.key].append(log(one.time_ns) + shift)
    return tuple(
        replace(one, time_ns=exp(fmean(logs[key]))) if logs[key] else one
        for key, one in found.items()
    )


def _ratios(known: Mapping[Key, Sequence[float]], session: Iterable[MeasuredConfig]) -> list[float]:
    """Logarithms of the times that are known over those of a session."""
    shared = [one for one in session if known.get(one.key) and one.time_ns < inf]
    return [fmean(known[one.key]) - log(one.time_ns) for one in shared]
