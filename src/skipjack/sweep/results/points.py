"""A sweep's runs by point, with one value for each, and the Pareto front of the points."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any

from skipjack.core import Config, Direction, Objective, Status
from skipjack.reading import parse_json
from skipjack.sweep.engine import SweepResult, SweepTrial

# The runs of a sweep grouped by point, with one value for each.

SCREEN = "screen"
"""The purpose of runs that are too short to be compared with full ones."""
_BARE = re.compile(r"[^\s,=\"'{}\[\]]+")
_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]+")


@dataclass(frozen=True, slots=True)
class PointSummary:
    """A point and the summary of its runs."""

    point: Config
    value: float
    """The mean of the first objective's metric."""
    values: tuple[float | None, ...]
    """The values of all objectives; None if no run has one or satisfies its constraints."""
    spread: float
    """Half the range of its runs, relative to their mean."""
    good: int
    runs: int
    number: int
    """The number of its first run."""
    screened: bool
    """Whether it has only short runs."""


def summarize(result: SweepResult) -> list[PointSummary]:
    """A summary for each point with a value, best first."""
    groups: dict[Config, list[SweepTrial]] = {}
    for trial in result.trials:
        groups.setdefault(trial.point, []).append(trial)
    summaries = [_summary(trials, result.objectives) for trials in groups.values()]
    sign = -1.0 if maximised(result) else 1.0
    found = [summary for summary in summaries if summary is not None]
    return sorted(found, key=lambda summary: (summary.screened, sign * summary.value))


def maximised(result: SweepResult) -> bool:
    """Whether larger values are better."""
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
        # Short runs do not count if the point fails at full length.
        return None
    mean = fmean(values)
    spread = (max(values) - min(values)) / 2.0 / abs(mean) if mean else 0.0
    others = tuple(_mean_of(objective, good) for objective in objectives[1:])
    first = trials[0].number
    return PointSummary(
        trials[0].point, mean, (mean, *others), spread, len(good), len(counted), first, not full
    )


def _mean_of(objective: Objective, trials: Iterable[SweepTrial]) -> float | None:
    """The mean over the runs that satisfy the objective's constraints."""
    sign = -1.0 if objective.direction == "max" else 1.0
    found = [objective.value(trial.metrics) for trial in trials]
    kept = [sign * value for value in found if value is not None]
    return fmean(kept) if kept else None


def parameter_names(result: SweepResult) -> tuple[str, ...]:
    """All parameters, in the order of the points."""
    points = [trial.point for trial in result.trials]
    points += [point for point in (result.best, result.baseline) if point is not None]
    return tuple(dict.fromkeys(name for point in points for name in point))


def setting_text(value: Any) -> str:
    """A parameter's value; ``8``, ``"8"``, ``true`` and ``null`` are all distinct."""
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
    """``batch=8 threads=2``, always in one line."""
    return one_line(" ".join(f"{name}={setting_text(value)}" for name, value in point.items()))


def one_line(text: str) -> str:
    """The text without newlines and terminal codes, which benchmarks may print."""
    return _CONTROL.sub(" ", _CODES.sub("", text)).strip()


# The runs in order.


@dataclass(frozen=True, slots=True)
class SearchHistory:
    """The runs in order, without those that are infeasible."""

    runs: tuple[SweepTrial, ...]
    ends_s: tuple[float, ...]
    """When each ended, in seconds of building and running in this session."""
    best: tuple[float | None, ...]
    """The best full run until then."""


def search_history(result: SweepResult) -> SearchHistory:
    """The runs of a sweep in order, with the best until each."""
    runs = tuple(trial for trial in result.trials if trial.status is not Status.INFEASIBLE)
    spent = (0.0 if trial.cached else trial.seconds + trial.build_seconds for trial in runs)
    better = max if maximised(result) else min
    best: list[float | None] = []
    for trial in runs:
        until = best[-1] if best else None
        if usable(trial) and trial.purpose != SCREEN and trial.value is not None:
            until = trial.value if until is None else better(until, trial.value)
        best.append(until)
    return SearchHistory(runs, tuple(accumulate(spent)), tuple(best))


# The Pareto front: points that no other point dominates.

Row = Sequence[float | None]
Cost = tuple[tuple[float, ...], int]
"""Values to minimize, and the index of their row."""


def non_dominated(rows: Sequence[Row], directions: Sequence[Direction]) -> list[int]:
    """Indices of the rows that no other row dominates.

    A row dominates another if it is nowhere worse and somewhere better; equal rows do not. A row
    that lacks a value is not on the front.
    """
    signs = [-1.0 if direction == "max" else 1.0 for direction in directions]
    costs: list[Cost] = []
    for index, row in enumerate(rows):
        known = [sign * value for sign, value in zip(signs, row, strict=True) if value is not None]
        # Leaves out NaN, which is not equal to itself.
        if len(known) == len(signs) and all(value == value for value in known):
            costs.append((tuple(known), index))
    # In this order, no row dominates an earlier one.
    ordered = sorted(costs)
    front = _front_of_two(ordered) if len(signs) == 2 else _front_of_many(ordered)
    return sorted(index for _, index in front)


def _front_of_many(ordered: Sequence[Cost]) -> list[Cost]:
    front: list[Cost] = []
    for cost, index in ordered:
        if not any(_dominates(other, cost) for other, _ in front):
            front.append((cost, index))
    return front


def _front_of_two(ordered: Sequence[Cost]) -> list[Cost]:
    """The last on the front has the least second cost; only it can dominate later rows."""
    front: list[Cost] = []
    for cost, index in ordered:
        if not front or not _dominates(front[-1][0], cost):
            front.append((cost, index))
    return front


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)


def pareto_front(result: SweepResult) -> list[PointSummary]:
    """The points on the front, best in the first objective first; empty with one objective.

    Points that only have short runs are left out if others have full runs.
    """
    if len(result.objectives) < 2:
        return []
    summaries = summarize(result)
    full = [summary for summary in summaries if not summary.screened] or summaries
    directions = [objective.direction for objective in result.objectives]
    return [full[index] for index in non_dominated([s.values for s in full], directions)]
