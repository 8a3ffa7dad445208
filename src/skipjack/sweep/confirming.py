"""An answer that holds: the best few and the baseline are run again, in turns, at full length.

What was searched for by one run each is the luckiest of many; only runs made after the choice tell
how good it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from skipjack.core.config import Config
from skipjack.core.objective import Direction
from skipjack.core.trial import Trial
from skipjack.reading import numbered
from skipjack.sweep.measuring import Measuring
from skipjack.sweep.result import Gain

FINALISTS = 3
"""Points that get a second chance in one round."""
NEAR = 0.05
"""Those this near to the best may really be the best."""
ROUNDS = 3
"""If no finalist holds, the next ones are tried, so often."""


@dataclass(slots=True)
class Finalist:
    """A point with its confirming runs."""

    point: Config
    searched: float
    """Its value in the search, less is better."""
    values: list[float] = field(default_factory=list)
    failed: int = 0
    reason: str = ""
    """Of the last that failed."""

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
        """The median of the confirming runs, less is better; that of the search without any."""
        return statistics.median(self.values) if self.values else self.searched

    @property
    def spread(self) -> float:
        """Half the range of its runs, relative."""
        if len(self.values) < 2 or not self.value:
            return 0.0
        return (max(self.values) - min(self.values)) / 2 / abs(self.value)


@dataclass(frozen=True, slots=True)
class SweepVerdict:
    """What is left after confirming."""

    best: Finalist | None
    baseline: Finalist | None
    gain: Gain | None
    sentence: str


def ranked(trials: Sequence[Trial]) -> list[Finalist]:
    """The points that worked, the best first; a point by the median of its trials."""
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
    field_: Sequence[Finalist],
    baseline: Config | None,
    measuring: Measuring,
    runs: int,
    *,
    at_a_time: int | None,
    stop: Callable[[], bool],
) -> SweepVerdict:
    """Run finalists and baseline in turns; step down while the best does not hold.

    So many at a time; with None, those that are as good as the best within what one run can tell.
    """
    direction: Direction = measuring.objective.direction if measuring.objective else "min"
    base = Finalist(baseline, float("inf")) if baseline is not None else None
    tried: list[Finalist] = []
    left = list(field_)
    rounds = len(field_) if at_a_time == 1 else ROUNDS
    for _ in range(rounds if runs else 0):
        finalists, left = _choose(left, at_a_time)
        if not finalists or stop():
            break
        tried += finalists
        _run_in_turns(finalists, base, measuring, runs, stop)
        if any(finalist.held for finalist in finalists):
            break
    good = [finalist for finalist in tried if finalist.held]
    if not runs:
        return SweepVerdict(field_[0] if field_ else None, base, None, "")
    if not good:
        return SweepVerdict(None, base, None, _nothing_held(tried))
    best = min(good, key=lambda finalist: finalist.value)
    if base is not None and base.held and base.value < best.value:
        return SweepVerdict(base, base, None, "nothing beats the base config: it is the best")
    sentence = f"{len(best.values)} of {numbered(len(best.values), 'confirming run')} held"
    passed_over = sum(f.searched < best.searched for f in tried if not f.held)
    if passed_over:
        sentence += f"; {passed_over} better in the search did not"
    return SweepVerdict(best, base, _gain(best, base, direction), sentence)


def _choose(
    left: Sequence[Finalist], at_a_time: int | None
) -> tuple[list[Finalist], list[Finalist]]:
    """The next finalists, and those who have to wait."""
    if not left:
        return [], []
    bar = left[0].searched + NEAR * abs(left[0].searched)
    count = sum(finalist.searched <= bar for finalist in left[:FINALISTS])
    count = at_a_time or max(1, count)
    return list(left[:count]), list(left[count:])


def _run_in_turns(
    finalists: Sequence[Finalist],
    base: Finalist | None,
    measuring: Measuring,
    runs: int,
    stop: Callable[[], bool],
) -> None:
    others = [base] if base and all(f.point != base.point for f in finalists) else []
    for _ in range(runs):
        for finalist in (*finalists, *others):
            if stop():
                return
            # One that failed once is out; the others need the time.
            if not finalist.failed and len(finalist.values) < runs:
                finalist.add(measuring.measure(finalist.point, "confirm", {}))
    if base and not others:
        twin = next(f for f in finalists if f.point == base.point)
        base.values, base.failed = list(twin.values), twin.failed


def _gain(best: Finalist, base: Finalist | None, direction: Direction) -> Gain | None:
    """Ratios of runs made side by side; above 1 is better whichever the direction."""
    if base is None or not base.values or not best.values:
        return None
    pairs = [(best.value, base.value), *zip(best.values, base.values, strict=False)]
    if any(ours * theirs <= 0 for ours, theirs in pairs):
        return None  # there is no ratio of a loss and a gain
    ratio, *ratios = (_ratio(ours, theirs, direction) for ours, theirs in pairs)
    return Gain(ratio, min(ratios), max(ratios), len(ratios))


def _ratio(ours: float, theirs: float, direction: Direction) -> float:
    """How many times as good; values that should be large are kept with their sign turned."""
    positive = (ours < 0) == (direction == "max")
    ratio = ours / theirs
    return ratio if positive == (direction == "max") else 1 / ratio


def _nothing_held(tried: Sequence[Finalist]) -> str:
    reason = next((f" ({f.reason})" for f in tried if f.reason), "")
    return f"none of {numbered(len(tried), 'finalist')} held in a confirming run{reason}"
