"""The summary of a sweep as plain text, for the screen and for a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skipjack.core import Config, Status
from skipjack.reading import numbered
from skipjack.report.numbers import duration_text, gain_text, metric_text
from skipjack.sweep.engine import SweepResult, SweepTrial
from skipjack.sweep.results import PointSummary, one_line, point_text, setting_text


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
