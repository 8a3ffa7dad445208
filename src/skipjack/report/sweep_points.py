"""The runs of a sweep put together by point: one value each, ranked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.reading import parse_json
from skipjack.sweep.result import SweepResult, SweepTrial

SCREEN = "screen"
"""The purpose of runs that are too short to be compared with full ones."""
_BARE = re.compile(r"[^\s,=\"'{}\[\]]+")
_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]+")


@dataclass(frozen=True, slots=True)
class PointSummary:
    """A point and what its runs say together."""

    point: Config
    value: float
    """The mean of the first objective's metric."""
    values: tuple[float | None, ...]
    """Of each objective; None where no run has it or its constraints are broken."""
    spread: float
    """Half the range of its runs, relative to their mean."""
    good: int
    runs: int
    number: int
    """Of its first run."""
    screened: bool
    """Whether there are only short runs of it."""


def summarize(result: SweepResult) -> list[PointSummary]:
    """One summary for each point with a value, the best first."""
    groups: dict[Config, list[SweepTrial]] = {}
    for trial in result.trials:
        groups.setdefault(trial.point, []).append(trial)
    summaries = [_summary(trials, result.objectives) for trials in groups.values()]
    sign = -1.0 if maximised(result) else 1.0
    found = [summary for summary in summaries if summary is not None]
    return sorted(found, key=lambda summary: (summary.screened, sign * summary.value))


def maximised(result: SweepResult) -> bool:
    """Whether more is better."""
    return bool(result.objectives) and result.objectives[0].direction == "max"


def usable(trial: SweepTrial) -> bool:
    """Whether a run has a value to compare."""
    return not trial.status.failed and trial.value is not None


def _summary(trials: Sequence[SweepTrial], objectives: Sequence[Objective]) -> PointSummary | None:
    full = [trial for trial in trials if trial.purpose != SCREEN]
    counted = full if any(map(usable, full)) else list(trials)
    good = [trial for trial in counted if usable(trial)]
    values = [trial.value for trial in good if trial.value is not None]
    if not values or (full and not any(map(usable, full))):
        # Short runs of a point that fails at full length are no recommendation.
        return None
    mean = fmean(values)
    spread = (max(values) - min(values)) / 2.0 / abs(mean) if mean else 0.0
    others = tuple(_mean_of(objective, good) for objective in objectives[1:])
    first = trials[0].number
    return PointSummary(
        trials[0].point, mean, (mean, *others), spread, len(good), len(counted), first, not full
    )


def _mean_of(objective: Objective, trials: Iterable[SweepTrial]) -> float | None:
    """The mean as it was measured, of runs that keep the objective's constraints."""
    sign = -1.0 if objective.direction == "max" else 1.0
    found = [objective.value(trial.metrics) for trial in trials]
    kept = [sign * value for value in found if value is not None]
    return fmean(kept) if kept else None


def parameter_names(result: SweepResult) -> tuple[str, ...]:
    """All parameters in the order of their declaration: as points have them."""
    points = [trial.point for trial in result.trials]
    points += [point for point in (result.best, result.baseline) if point is not None]
    return tuple(dict.fromkeys(name for point in points for name in point))


def setting_text(value: Any) -> str:
    """A parameter's value, so that ``8``, ``"8"``, ``true`` and ``null`` are told apart."""
    if isinstance(value, str) and _BARE.fullmatch(value) and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def point_text(point: Config) -> str:
    """``batch=8 threads=2``, in one line that no value can break."""
    return one_line(" ".join(f"{name}={setting_text(value)}" for name, value in point.items()))


def one_line(text: str) -> str:
    """Without line ends and terminal codes: what a benchmark printed may have both."""
    return _CONTROL.sub(" ", _CODES.sub("", text)).strip()
