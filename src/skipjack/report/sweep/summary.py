"""A sweep's runs by point, the Pareto front, and the sentences about them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from skipjack.core import Config, Direction, Objective, Status
from skipjack.reading import numbered, parse_json
from skipjack.report.numbers import duration_text, gain_text, metric_text
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


# The summary of a sweep as plain text, for the screen and for a page.


@dataclass(frozen=True, slots=True)
class BestSetting:
    """A parameter of the best point."""

    name: str
    value: str
    before: str
    """The baseline's value; empty if there is none."""

    @property
    def changed(self) -> bool:
        """Whether the baseline has another value."""
        return bool(self.before) and self.before != self.value


@dataclass(frozen=True, slots=True)
class FailedPoint:
    """A point that failed: why, its log, and how often."""

    point: str
    reason: str
    log: str
    runs: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """All points that failed in the same way."""

    status: Status
    failures: tuple[FailedPoint, ...]

    @property
    def title(self) -> str:
        """``out of memory: 3 points``."""
        return f"{self.status.value.replace('_', ' ')}: {numbered(len(self.failures), 'point')}"


def headline(result: SweepResult) -> str:
    """``resnet: samples_per_second 1205 (± 0.4 %)``, or that there is no result."""
    end = ", interrupted" if result.interrupted else ""
    if result.best is None:
        return f"{one_line(result.name)}: no run has a result{end}"
    value = metric_text(result.best_value)
    spread = f" (± {100 * result.best_spread:.1f} %)" if result.best_spread else ""
    return f"{one_line(result.name)}: {metric_name(result)} {value}{spread}{end}"


def metric_name(result: SweepResult) -> str:
    """The metric of the first objective."""
    return one_line(result.objectives[0].metric) if result.objectives else "value"


def best_settings(result: SweepResult) -> list[BestSetting]:
    """The parameters of the best point, with the values of the baseline."""
    if result.best is None:
        return []
    before = result.baseline or Config()
    return [
        BestSetting(
            one_line(name),
            one_line(setting_text(value)),
            one_line(setting_text(before[name])) if name in before else "",
        )
        for name, value in result.best.items()
    ]


def gain_sentences(result: SweepResult) -> list[str]:
    """Sentences about the gain and its confirmation."""
    if result.best is None:
        return []
    lines = []
    if result.gain:
        gain = gain_text(result.gain.ratio, result.gain.low, result.gain.high)
        pairs = numbered(result.gain.runs, "pair") + " of runs"
        base = f" ({metric_text(result.baseline_value)})" if result.baseline_value else ""
        lines.append(f"{gain} times as good as the baseline{base}, from {pairs}")
    elif result.best == result.baseline:
        lines.append("the baseline is the best")
    elif result.baseline_value is not None:
        lines.append(f"the baseline has {metric_text(result.baseline_value)}")
    lines.append(one_line(result.confirmed) or "not confirmed by further runs")
    return lines


def failures(result: SweepResult) -> list[FailureGroup]:
    """Points with a failed run, by status; most frequent first."""
    groups: dict[Status, dict[Config, list[SweepTrial]]] = {}
    for trial in result.trials:
        if trial.status.failed:
            groups.setdefault(trial.status, {}).setdefault(trial.point, []).append(trial)
    made = [
        FailureGroup(status, _failed_points(points.values())) for status, points in groups.items()
    ]
    return sorted(made, key=lambda group: -len(group.failures))


def _failed_points(groups: Iterable[Sequence[SweepTrial]]) -> tuple[FailedPoint, ...]:
    """The failed points, each with the reason of its last run."""
    return tuple(
        FailedPoint(point_text(runs[-1].point), one_line(runs[-1].reason), runs[-1].log, len(runs))
        for runs in groups
    )


def facts(result: SweepResult) -> str:
    """``7 runs (1 known, 2 failed), 2 builds made, 5 reused, 2 min 5 s``."""
    known = sum(trial.cached for trial in result.trials)
    refused = sum(trial.status is Status.INFEASIBLE for trial in result.trials)
    failed = sum(trial.status.failed for trial in result.trials) - refused
    parts = [
        f"{known} from earlier" if known else "",
        f"{failed} failed" if failed else "",
    ]
    remarks = ", ".join(part for part in parts if part)
    runs = numbered(len(result.trials) - refused, "run") + (f" ({remarks})" if remarks else "")
    refusals = f"{numbered(refused, 'point')} refused" if refused else ""
    builds = f"{numbered(result.builds, 'build')} made, {result.build_hits} reused"
    return ", ".join(x for x in (runs, refusals, builds, duration_text(result.seconds)) if x)


def remarks(result: SweepResult, most: int = 8) -> list[str]:
    """The sweep's notes, then those of runs, with how many runs have each."""
    tally = Counter(one_line(note) for trial in result.trials for note in trial.notes)
    lines = [one_line(note) for note in result.notes]
    lines += [f"{numbered(runs, 'run')}: {note}" for note, runs in tally.most_common(most)]
    left = len(tally) - most
    return [*lines, f"{numbered(left, 'more kind')} of notes in the files"] if left > 0 else lines


def point_cells(summary: PointSummary) -> list[str]:
    """Value, spread and number of runs of a point."""
    spread = f"{100 * summary.spread:.1f} %" if summary.good > 1 else "-"
    ran = str(summary.runs) if summary.good == summary.runs else f"{summary.good}/{summary.runs}"
    return [metric_text(summary.value), spread, f"{ran} short" if summary.screened else ran]


def overlay_text(result: SweepResult) -> str:
    """The best point as JSON, to merge into a config."""
    return json.dumps(dict(result.best or {}), indent=2, ensure_ascii=False)
