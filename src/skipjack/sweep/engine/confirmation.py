"""Confirmation: the best points and the baseline are run again, alternately, at full length.

The best of many points that were run once each is also the luckiest, so only runs made after the
choice show how good it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from skipjack.core import Config, Direction, Trial
from skipjack.reading import numbered
from skipjack.sweep.engine.measurer import SweepMeasurer
from skipjack.sweep.engine.result import Gain

FINALISTS = 3
"""Points that are confirmed in one round."""
NEAR = 0.05
"""Points within this relative distance of the best may in fact be the best."""
ROUNDS = 3
"""Rounds at most: the next points are tried if no finalist passes."""


@dataclass(slots=True)
class Finalist:
    """A point and its confirming runs."""

    point: Config
    searched: float
    """Its value in the search; less is better."""
    values: list[float] = field(default_factory=list)
    failed: int = 0
    reason: str = ""
    """Why the last failing run failed."""

    def add(self, trial: Trial) -> None:
        if trial.value is None:
            self.failed += 1
            self.reason = trial.reason
        else:
            self.values.append(trial.value)

    @property
    def held(self) -> bool:
        """Whether every confirming run was good."""
        return bool(self.values) and not self.failed

    @property
    def value(self) -> float:
        """The median of the confirming runs, or the search's value without any; less is better."""
        return statistics.median(self.values) if self.values else self.searched

    @property
    def spread(self) -> float:
        """Half the range of the values, relative to the median."""
        if len(self.values) < 2 or not self.value:
            return 0.0
        return (max(self.values) - min(self.values)) / 2 / abs(self.value)


@dataclass(frozen=True, slots=True)
class SweepConfirmation:
    """The result of a confirmation."""

    best: Finalist | None
    baseline: Finalist | None
    gain: Gain | None
    sentence: str


def ranked(trials: Sequence[Trial]) -> list[Finalist]:
    """The points that succeeded more often than not, best first, by the median of their trials."""
    values: dict[Config, list[float]] = {}
    failures: dict[Config, int] = {}
    for trial in trials:
        if trial.value is None:
            failures[trial.config] = failures.get(trial.config, 0) + 1
        else:
            values.setdefault(trial.config, []).append(trial.value)
    points = [
        Finalist(point, statistics.median(found))
        for point, found in values.items()
        if len(found) > failures.get(point, 0)
    ]
    return sorted(points, key=lambda finalist: finalist.searched)


def confirm(
    candidates: Sequence[Finalist],
    baseline: Config | None,
    measurer: SweepMeasurer,
    runs: int,
    *,
    at_a_time: int | None,
    stop: Callable[[], bool],
) -> SweepConfirmation:
    """Run finalists and baseline alternately; try the next points while no finalist passes.

    A round has `at_a_time` finalists; with None, all points within `NEAR` of the best.
    """
    direction: Direction = measurer.objective.direction if measurer.objective else "min"
    base = Finalist(baseline, float("inf")) if baseline is not None else None
    tried: list[Finalist] = []
    left = list(candidates)
    rounds = len(candidates) if at_a_time == 1 else ROUNDS
    for _ in range(rounds if runs else 0):
        finalists, left = _choose(left, at_a_time)
        if not finalists or stop():
            break
        tried += finalists
        _run_in_turns(finalists, base, measurer, runs, stop)
        if any(finalist.held for finalist in finalists):
            break
    good = [finalist for finalist in tried if finalist.held]
    if not runs:
        return SweepConfirmation(candidates[0] if candidates else None, base, None, "")
    if not good:
        return SweepConfirmation(None, base, None, _nothing_held(tried))
    best = min(good, key=lambda finalist: finalist.value)
    if base is not None and base.held and base.value < best.value:
        return SweepConfirmation(base, base, None, "nothing beats the base config: it is the best")
    sentence = f"{len(best.values)} of {numbered(len(best.values), 'confirming run')} held"
    passed_over = sum(f.searched < best.searched for f in tried if not f.held)
    if passed_over:
        sentence += f"; {passed_over} better in the search did not"
    return SweepConfirmation(best, base, _gain(best, base, direction), sentence)


def _choose(
    left: Sequence[Finalist], at_a_time: int | None
) -> tuple[list[Finalist], list[Finalist]]:
    """The finalists of the next round, and the points that remain."""
    if not left:
        return [], []
    bar = left[0].searched + NEAR * abs(left[0].searched)
    count = sum(finalist.searched <= bar for finalist in left[:FINALISTS])
    count = at_a_time or max(1, count)
    return list(left[:count]), list(left[count:])


def _run_in_turns(
    finalists: Sequence[Finalist],
    base: Finalist | None,
    measurer: SweepMeasurer,
    runs: int,
    stop: Callable[[], bool],
) -> None:
    others = [base] if base and all(f.point != base.point for f in finalists) else []
    for _ in range(runs):
        for finalist in (*finalists, *others):
            if stop():
                return
            # A finalist that failed once is not run again: the others need the time.
            if not finalist.failed and len(finalist.values) < runs:
                finalist.add(measurer.measure(finalist.point, "confirm", {}))
    if base and not others:
        twin = next(f for f in finalists if f.point == base.point)
        base.values, base.failed = list(twin.values), twin.failed


def _gain(best: Finalist, base: Finalist | None, direction: Direction) -> Gain | None:
    """Ratios of runs made alternately; above 1 is better for either direction."""
    if base is None or not base.values or not best.values:
        return None
    pairs = [(best.value, base.value), *zip(best.values, base.values, strict=False)]
    if any(ours * theirs <= 0 for ours, theirs in pairs):
        return None  # values of different signs have no ratio
    ratio, *ratios = (_ratio(ours, theirs, direction) for ours, theirs in pairs)
    return Gain(ratio, min(ratios), max(ratios), len(ratios))


def _ratio(ours: float, theirs: float, direction: Direction) -> float:
    """How many times as good `ours` is; values to maximise are stored negated."""
    positive = (ours < 0) == (direction == "max")
    ratio = ours / theirs
    return ratio if positive == (direction == "max") else 1 / ratio


def _nothing_held(tried: Sequence[Finalist]) -> str:
    if not tried:
        return "no point could be confirmed"
    reason = next((f" ({f.reason})" for f in tried if f.reason), "")
    return f"no confirming run of {numbered(len(tried), 'finalist')} held{reason}"
