"""Searchers on recorded spaces in figures: means over seeds with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from skipjack.learn.replay.score import RandomBaseline, area, evaluations_until, log_ratios

RESAMPLES = 2000
_COVERED = (2.5, 97.5)
_LEAST = 1e-6
"""Stands for an area of 0 in geometric means: the optimum from the first evaluation on."""

Samples = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and the interval that holds it in 95 % of resamples of the seeds."""

    mean: float
    low: float
    high: float

    def through(self, change: Callable[[float], float]) -> Estimate:
        """Each number changed by a monotone function."""
        ends = sorted((change(self.low), change(self.high)))
        return Estimate(change(self.mean), ends[0], ends[1])


@dataclass(frozen=True, slots=True)
class SearcherScore:
    """How good a searcher was on one recording, or on several: then geometric means over them."""

    searcher: str
    recording: str
    """The name of the recording; empty for the mean of several."""
    runs: int
    area: Estimate
    """The area under the curve of log(best so far / optimum), as a mean over the evaluations."""
    score: Estimate
    """1 minus the area as a share of random search's exact one: 0 is random search, 1 perfect."""
    ratio: Estimate
    """The best value found within the budget over the optimum, a geometric mean."""
    reached: int
    """How many runs came within 5 % of the optimum."""
    evaluations: float
    """The median of the evaluations until then; infinite if fewer than half came there."""
    random_evaluations: Estimate
    """How many evaluations random search needs for the same ratio, as a multiple of the budget."""


class ScoredRuns:
    """The runs of a searcher on a recording: a curve for each seed.

    Args:
        searcher: its name.
        recording: the recording's name.
        curves: the best value after 1, 2, ... evaluations, for each seed.
        baseline: the exact expectation of random search on the recording.
    """

    def __init__(
        self,
        searcher: str,
        recording: str,
        curves: Sequence[Sequence[float]],
        baseline: RandomBaseline,
    ) -> None:
        self.searcher, self.recording = searcher, recording
        self.baseline = baseline
        self.ratios = np.array([log_ratios(curve, baseline) for curve in curves])
        """log(best so far / optimum) by seed and evaluation."""
        self.until = [evaluations_until(curve, baseline.optimum) for curve in curves]
        self.areas = np.array([area(row) for row in self.ratios])
        self.last: Samples = self.ratios[:, -1]

    @property
    def expected(self) -> float:
        """The area of random search."""
        return max(area(self.baseline.log_ratios[: self.ratios.shape[1]]), _LEAST)

    def summary(self) -> SearcherScore:
        """The figures of these runs."""
        budget = self.ratios.shape[1]
        final = _estimate(_resampled(self.last), float(self.last.mean()))
        found = _estimate(_resampled(self.areas), float(self.areas.mean()))
        return SearcherScore(
            self.searcher,
            self.recording,
            len(self.areas),
            found,
            found.through(lambda mean: 1.0 - mean / self.expected),
            final.through(math.exp),
            sum(map(math.isfinite, self.until)),
            median(self.until),
            final.through(lambda mean: self.baseline.evaluations_for(mean) / budget),
        )


def summarize_recordings(runs: Sequence[ScoredRuns]) -> SearcherScore:
    """Geometric means of a searcher's figures over several recordings."""
    areas = [np.maximum(_resampled(one.areas, at), _LEAST) for at, one in enumerate(runs)]
    means = [max(float(one.areas.mean()), _LEAST) for one in runs]
    shares = [area / one.expected for area, one in zip(areas, runs, strict=True)]
    share = _geometric(mean / one.expected for mean, one in zip(means, runs, strict=True))
    relative = _estimate(_geometric_samples(shares), share)
    ratios = [np.exp(_resampled(one.last, at)) for at, one in enumerate(runs)]
    single = [one.summary() for one in runs]
    multiples = [one.random_evaluations for one in single]
    return SearcherScore(
        runs[0].searcher,
        "",
        sum(one.runs for one in single),
        _estimate(_geometric_samples(areas), _geometric(means)),
        relative.through(lambda mean: 1.0 - mean),
        _estimate(_geometric_samples(ratios), _geometric(one.ratio.mean for one in single)),
        sum(one.reached for one in single),
        _geometric(one.evaluations for one in single),
        Estimate(
            _geometric(one.mean for one in multiples),
            _geometric(one.low for one in multiples),
            _geometric(one.high for one in multiples),
        ),
    )


def _resampled(values: Samples, recording: int = 0) -> Samples:
    """The means of resamples of the seeds, which are other ones for each recording."""
    rng = np.random.default_rng((recording, len(values)))
    chosen = rng.integers(len(values), size=(RESAMPLES, len(values)))
    means: Samples = values[chosen].mean(axis=1)
    return means


def _estimate(samples: Samples, mean: float) -> Estimate:
    low, high = np.percentile(samples, _COVERED)
    return Estimate(mean, float(low), float(high))


def _geometric(values: Iterable[float]) -> float:
    listed = [max(value, _LEAST) for value in values]
    return math.exp(sum(map(math.log, listed)) / len(listed))


def _geometric_samples(samples: Sequence[Samples]) -> Samples:
    found: Samples = np.exp(np.mean([np.log(one) for one in samples], axis=0))
    return found
