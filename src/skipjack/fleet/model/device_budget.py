"""Which jobs get device time: those whose next slice is expected to save the most per second.

A slice is a round of a job. The best time of a search is modelled as that of records: the logarithm
of the best time falls in proportion to the logarithm of the number of trials, at a rate that is
estimated for each job and drawn towards the mean of the label where little is known. The expected
gain of a slice is the fall of the best time in it, times the number of calls. Nothing here has side
effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SLICE_TRIALS = 8
"""Maximum number of trials of a slice."""
_FORGET = 0.7
"""Weight of a slice's gain relative to the next one: a search near its optimum gains less."""
_PRIOR_RATE = 0.15
"""Rate before anything is known: the first eight trials gain about a quarter."""
_SHRINKAGE = 0.7
"""Exposure that the mean of the label counts as."""
_WORTHWHILE = 0.5
"""Share of the value of what is in work that is worth a slice in its place."""
_PRIOR_VERDICTS = 4
"""Number of verdicts as long as a slice that are assumed before any was reached."""
_PRIOR_SLICE_S = 1.0


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """An evaluated round."""

    trials: int
    """Trials of the job up to its end."""
    best_ns: float | None
    """The best time up to its end; None if no config has run."""
    seconds: float
    """Device-seconds."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """What decides about the next slice of a job."""

    id: int
    slices: tuple[SliceRecord, ...] = ()
    """The evaluated rounds, in order."""
    first_ns: float | None = None
    """The time of the first config that ran."""
    budget: int = 32
    """Maximum number of trials."""
    trials: int = 0
    calls: float = 1.0
    priority: int = 0
    retries: int = 0
    size: float = 1.0
    """An estimate of the time of a call in any unit that is the same for all jobs."""
    waiting: bool = True
    """Whether it waits for its next round; otherwise it is in work."""
    evaluating: bool = False
    """Whether an evaluator has it."""
    ended: bool = False
    """Whether it has a verdict, which was reached early."""
    device: str = ""
    """The name of its device."""

    @property
    def coming(self) -> bool:
        """Whether its next round is being built, or waits for an evaluator."""
        return not (self.waiting or self.evaluating)

    @property
    def best_ns(self) -> float | None:
        return min((one.best_ns for one in self.slices if one.best_ns is not None), default=None)

    @property
    def won_ns(self) -> float:
        """The time that its calls save by now, relative to the first config."""
        if self.first_ns is None or self.best_ns is None:
            return 0.0
        return max(0.0, self.first_ns - self.best_ns) * self.calls

    @property
    def open(self) -> bool:
        """Whether trials are left."""
        return self.trials < self.budget

    @property
    def touched(self) -> bool:
        """Whether it has results, but no verdict on them yet."""
        return self.trials > 0 and not self.ended


@dataclass(frozen=True, slots=True)
class SliceChoice:
    """What to do next."""

    slices: tuple[int, ...] = ()
    """Jobs for a further round, the most valuable first."""
    verdicts: tuple[int, ...] = ()
    """Jobs to be ended now with a verdict, because the budget allows no further rounds."""
    spent: bool = False
    """Whether no further job may begin."""


@dataclass(frozen=True, slots=True)
class LabelBudget:
    """The device time of a label."""

    seconds: float
    """The limit."""
    used: float = 0.0
    verdict_slices: float = 1.0
    """The expected duration of a verdict in slices of the same job."""
    rate: float | None = None
    """The rate of earlier, similar jobs, if there are any."""

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.used)


def choose_slices(
    jobs: Sequence[JobProgress], budget: LabelBudget, count: int, ahead: int = 0
) -> SliceChoice:
    """The next jobs for a round, or those that need a verdict before the budget ends.

    Up to `count` for evaluators that wait for one, and `ahead` more for later, if they are nearly
    as valuable as what is in work: its next round may be the better one.
    """
    if budget.left <= 0.0:
        return SliceChoice(spent=True)
    model = GainModel.of(jobs, budget)
    left = budget.left - sum(model.slice_s(one) for one in jobs if not one.waiting)
    left -= sum(model.verdict_s(one) for one in jobs if one.touched or not one.waiting)
    ready = [one for one in jobs if one.waiting]
    least = _WORTHWHILE * max((model.value(one) for one in jobs if not one.waiting), default=0.0)
    chosen: list[int] = []
    for one in sorted((one for one in ready if one.open), key=model.order):
        cost = model.cost_s(one)
        if len(chosen) == count + ahead or (len(chosen) >= count and model.value(one) < least):
            break
        if cost <= left:
            chosen.append(one.id)
            left -= cost
    if chosen:
        return SliceChoice(tuple(chosen))
    if count + ahead == 0 or any(not one.waiting for one in jobs):
        return SliceChoice()  # what is in work decides whether there is time for another slice
    touched = [one for one in ready if one.touched]
    if left >= 0.0:  # verdicts may take less than is kept back: then the others go on
        touched.sort(key=lambda one: (one.priority, model.value(one), one.id))
    else:
        touched.sort(key=lambda one: (-one.priority, -one.won_ns, one.id))
    verdicts = tuple(one.id for one in touched[: count + ahead])
    return SliceChoice(verdicts=verdicts, spent=not touched)


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """The device time of a label's tuning jobs, and what they have won."""

    budget_s: float | None
    """The limit of the last run that had one."""
    used_s: float = 0.0
    """Device-seconds of all evaluations, also of lost ones."""
    won_ns: float = 0.0
    """The time by which calls became shorter, relative to each job's first config."""
    weighted: bool = False
    """Whether that is the time of all calls; otherwise each problem counts as one call."""

    @property
    def left_s(self) -> float | None:
        """Device-seconds until the limit; None without one."""
        return None if self.budget_s is None else max(0.0, self.budget_s - self.used_s)

    @property
    def seconds_per_us(self) -> float | None:
        """Device-seconds per microsecond won; None if nothing was won."""
        return 1000.0 * self.used_s / self.won_ns if self.won_ns > 0.0 else None


@dataclass(frozen=True, slots=True)
class GainModel:
    """Estimates for all jobs of a label."""

    rate: float
    """The mean fall of the logarithm of the best time, by that of the number of trials."""
    mean_slice_s: float
    verdict_slices: float
    ns_per_size: float
    """The factor from a job's `size` to nanoseconds."""
    seen: Mapping[int, tuple[float, float]]
    """What was observed of each job, by its id."""

    @classmethod
    def of(cls, jobs: Sequence[JobProgress], budget: LabelBudget) -> GainModel:
        """Estimates from all slices so far."""
        falls, exposures = _PRIOR_RATE * _SHRINKAGE, _SHRINKAGE
        if budget.rate is not None:
            falls = budget.rate * _SHRINKAGE
        seen = {one.id: observed(one) for one in jobs}
        for fall, exposure in seen.values():
            falls, exposures = falls + fall, exposures + exposure
        times = [slice_.seconds for one in jobs for slice_ in one.slices]
        mean_s = sum(times) / len(times) if times else _PRIOR_SLICE_S
        ratios = sorted(one.first_ns / one.size for one in jobs if one.first_ns and one.size > 0)
        factor = ratios[len(ratios) // 2] if ratios else 1.0
        return cls(
            falls / exposures,
            mean_s,
            budget.verdict_slices,
            factor,
            seen,
        )

    def rate_of(self, job: JobProgress) -> float:
        """The rate of a job, drawn towards the mean."""
        fall, exposure = self.seen[job.id]
        return (fall + _SHRINKAGE * self.rate) / (exposure + _SHRINKAGE)

    def gain_ns(self, job: JobProgress) -> float:
        """The time that all calls are expected to save after another slice."""
        done = job.trials if job.waiting else job.trials + SLICE_TRIALS
        after = min(job.budget, done + SLICE_TRIALS)
        best = job.best_ns if job.best_ns is not None else job.size * self.ns_per_size
        fall = self.rate_of(job) * exposure_of(max(1, done), after)
        return job.calls * best * -math.expm1(-fall)

    def slice_s(self, job: JobProgress) -> float:
        """The expected device-seconds of its next slice."""
        times = [one.seconds for one in job.slices]
        return (sum(times) + self.mean_slice_s) / (len(times) + 1)

    def verdict_s(self, job: JobProgress) -> float:
        """The expected device-seconds of its verdict."""
        return self.verdict_slices * self.slice_s(job)

    def cost_s(self, job: JobProgress) -> float:
        """What its next slice costs, with the verdict that it makes necessary."""
        return self.slice_s(job) + (0.0 if job.touched else self.verdict_s(job))

    def order(self, job: JobProgress) -> tuple[float, int, float, int]:
        """A sort key: by priority, then by expected gain per device-second."""
        return -job.priority, job.retries, -self.value(job), job.id

    def value(self, job: JobProgress) -> float:
        """The expected gain of its next slice, for each device-second."""
        # Of a job that was not tried nothing is known, and its verdict is worth its time by itself.
        seconds = self.cost_s(job) if job.ended else self.slice_s(job)
        return self.gain_ns(job) / max(seconds, 1e-9)


def expected_verdict(durations: Sequence[float]) -> float:
    """The expected duration of a verdict in slices, given some; those of long jobs come late."""
    return (sum(durations) + _PRIOR_VERDICTS) / (len(durations) + _PRIOR_VERDICTS)


def rate_of_searches(searches: Sequence[tuple[float, float, int]]) -> float | None:
    """The rate of searches by their first time, best time and number of trials; None if none."""
    falls = sum(max(0.0, math.log(first / best)) for first, best, _ in searches if best > 0)
    exposures = sum(exposure_of(1, trials) for _, best, trials in searches if best > 0)
    return falls / exposures if exposures else None


def exposure_of(before: int, after: int) -> float:
    """How often a record is expected among these trials, if trials are exchangeable."""
    return math.log((after + 0.5) / (before + 0.5)) if after > before else 0.0


def observed(job: JobProgress) -> tuple[float, float]:
    """The fall of the logarithm of a job's best time, and its exposure; later slices count more."""
    fall = exposure = 0.0
    best, trials = job.first_ns, 1
    for one in job.slices:
        fall, exposure = _FORGET * fall, _FORGET * exposure
        if best is not None and one.best_ns is not None:
            fall += max(0.0, math.log(best / one.best_ns))
            exposure += exposure_of(trials, one.trials)
            best = min(best, one.best_ns)
        trials = max(trials, one.trials)
    return fall, exposure
