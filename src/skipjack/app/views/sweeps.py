"""Sweeps: points, the Pareto front, heat maps, and the search for the largest load.

A sweep is a workload in the ledger, or the ``result.json`` of a report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.links import sweep_path
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import SWEEP_REPORT, UnknownNameError, Workspace
from skipjack.core import Config, Direction, Objective, Status
from skipjack.errors import SkipjackError
from skipjack.ledger import CommandRuns, LedgerBrowser, MeasurementRecord
from skipjack.sweep.bench import WORKLOAD_PREFIX
from skipjack.sweep.engine import (
    SweepResult,
    SweepTrial,
    loadgen_objective,
    outcome_of,
    parse_objectives,
    recorded_runs,
)
from skipjack.sweep.results import (
    SCREEN,
    ParameterAxis,
    ParameterEffect,
    PointSummary,
    SearchHistory,
    heat_axes,
    heat_cells,
    non_dominated,
    parameter_axes,
    parameter_effects,
    point_text,
    read_json,
    search_history,
    summarize,
)

_FULL_PROTOCOL = "command:{}"


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A sweep in tables. Times are seconds since 1970."""

    key: str
    """The workload, or the path of a report's directory."""
    name: str
    source: str
    """``ledger`` or ``report``."""
    points: int
    runs: int
    failed: int
    last: float | None


SWEEP_COLUMNS: tuple[ViewColumn[SweepRow], ...] = (
    ViewColumn(
        "name",
        "sweep",
        lambda one: one.name,
        filterable=True,
        link=lambda one: sweep_path(one.key),
    ),
    ViewColumn("source", "from", lambda one: one.source, filterable=True),
    ViewColumn("points", "points", lambda one: one.points, "count"),
    ViewColumn("runs", "runs", lambda one: one.runs, "count"),
    ViewColumn("failed", "failed", lambda one: one.failed, "count"),
    ViewColumn("last", "last run", lambda one: one.last, "time"),
)


def sweep_table(workspace: Workspace, request: TableRequest) -> RecordTable[SweepRow]:
    """All sweeps, the last run first."""
    rows: list[SweepRow] = []
    if workspace.has_ledger:
        rows += [
            _of_ledger(one) for one in LedgerBrowser(workspace.ledger).command_runs(WORKLOAD_PREFIX)
        ]
    for place in workspace.sweep_reports():
        row = workspace.remembered("report", place / SWEEP_REPORT, partial(_of_report, place))
        rows += [row] if row else []
    rows.sort(key=lambda one: -(one.last or 0.0))
    return table_of("sweeps", SWEEP_COLUMNS, rows, request)


def _of_ledger(one: CommandRuns) -> SweepRow:
    name = sweep_name(one.workload)
    return SweepRow(
        one.workload, name, "ledger", one.points, one.runs, one.failed, seconds_of(one.last)
    )


def sweep_name(workload: str) -> str:
    """The name of a sweep in the key of its workload."""
    return workload.removeprefix(f"{WORKLOAD_PREFIX}:").rpartition("@")[0] or workload


def _of_report(place: Path) -> SweepRow | None:
    try:
        result = read_json(place / SWEEP_REPORT)
    except SkipjackError:
        return None
    failed = sum(trial.status.failed for trial in result.trials)
    points = len({trial.point.key for trial in result.trials})
    last = (place / SWEEP_REPORT).stat().st_mtime
    return SweepRow(str(place), result.name, "report", points, len(result.trials), failed, last)


# One sweep.


@dataclass(frozen=True, slots=True)
class SweepFailures:
    """Runs that failed in the same way."""

    status: str
    reason: str
    runs: int


@dataclass(frozen=True, slots=True)
class HeatMapView:
    """The medians of points by the values of two parameters."""

    across: ParameterAxis
    up: ParameterAxis
    cells: Sequence[tuple[int, int, float | None]]
    """Places on both axes, and the median; None if all points failed."""


@dataclass(frozen=True, slots=True)
class LoadStep:
    """The runs at one load."""

    load: float
    held: int
    """Runs that held it."""
    failed: int


@dataclass(frozen=True, slots=True)
class LoadView:
    """A search for the largest load: how often each load held."""

    parameter: str
    steps: Sequence[LoadStep]
    holds: float | None
    """The largest load of which no run failed, below all others that failed."""
    breaks: float | None
    """The least load that failed."""


@dataclass(frozen=True, slots=True)
class SweepPage:
    """A sweep: its points, the best first, and how they compare."""

    row: SweepRow
    result: SweepResult
    points: Sequence[PointSummary]
    front: Sequence[PointSummary]
    """The Pareto front; empty with one objective."""
    history: SearchHistory
    axes: Sequence[ParameterAxis]
    effects: Sequence[ParameterEffect]
    heat: HeatMapView | None
    load: LoadView | None
    failures: Sequence[SweepFailures]
    metrics: Sequence[str]
    """Metrics that can be objectives."""


def sweep_page(
    workspace: Workspace,
    key: str,
    objectives: Sequence[str] = (),
    heat: tuple[str, str] | None = None,
) -> SweepPage:
    """A sweep by the key of its row; `UnknownNameError` if there is none.

    `objectives` are texts such as ``samples_per_second:max``, in place of those of the result;
    `heat` names the parameters of the heat map, in place of the two that matter most.
    """
    row, result = _found(workspace, key)
    metrics = numeric_metrics(result.trials)
    chosen = parse_objectives(list(objectives), []) if objectives else result.objectives
    if objectives or not result.objectives:
        result = with_objectives(result, chosen or _guessed(result.trials, metrics))
    return sweep_view(row, result, heat)


def sweep_view(
    row: SweepRow, result: SweepResult, heat: tuple[str, str] | None = None
) -> SweepPage:
    """The page of a result."""
    points = summarize(result)
    failed = Counter((str(t.status), t.reason) for t in result.trials if t.status.failed)
    return SweepPage(
        row,
        result,
        points,
        _front(result, points),
        search_history(result),
        parameter_axes(result),
        parameter_effects(result),
        _heat(result, heat),
        load_view(result),
        [SweepFailures(*what, runs) for what, runs in failed.most_common()],
        numeric_metrics(result.trials),
    )


def _found(workspace: Workspace, key: str) -> tuple[SweepRow, SweepResult]:
    for place in workspace.sweep_reports():
        if str(place) == key and (row := _of_report(place)):
            return row, read_json(place / SWEEP_REPORT)
    if workspace.has_ledger:
        runs = recorded_runs(workspace.ledger, key)
        if runs:
            trials = tuple(_trial(number, run) for number, run in enumerate(runs, 1))
            failed = sum(trial.status.failed for trial in trials)
            points = len({trial.point.key for trial in trials})
            last = seconds_of(runs[-1].created)
            row = SweepRow(key, sweep_name(key), "ledger", points, len(runs), failed, last)
            return row, SweepResult(row.name, (), trials, None, None)
    raise UnknownNameError(f"there is no sweep {key!r}; skipjack sweep runs one")


def _trial(number: int, run: MeasurementRecord) -> SweepTrial:
    outcome = outcome_of(run)
    return SweepTrial(
        number,
        Config.from_key(run.candidate.config),
        outcome.status,
        outcome.metrics,
        None,
        outcome.reason,
        outcome.seconds,
        outcome.build_seconds,
        bool(outcome.build_seconds),
        purpose="search" if run.protocol == _FULL_PROTOCOL else SCREEN,
        log=outcome.log,
        notes=outcome.notes,
    )


def numeric_metrics(trials: Sequence[SweepTrial]) -> list[str]:
    """Metrics that are numbers in all runs that have them, the most frequent first."""
    counts: Counter[str] = Counter()
    words = set()
    for trial in trials:
        for name, value in trial.metrics.items():
            counts[name] += 1
            if isinstance(value, str):
                words.add(name)
    return [name for name, _ in counts.most_common() if name not in words]


def _guessed(trials: Sequence[SweepTrial], metrics: Sequence[str]) -> tuple[Objective, ...]:
    """The objective of LoadGen, or else the first metric: rates are maximised."""
    for trial in trials:
        if found := loadgen_objective(trial.metrics, []):
            return (found,)
    if not metrics:
        return ()
    name = metrics[0]
    rate = "per_s" in name or name.endswith(("qps", "fps", "flops")) or "throughput" in name
    direction: Direction = "max" if rate else "min"
    return (Objective(name, direction),)


def with_objectives(result: SweepResult, objectives: tuple[Objective, ...]) -> SweepResult:
    """The same runs, ranked by other objectives."""
    if not objectives:
        return result
    first = objectives[0]
    sign = -1.0 if first.direction == "max" else 1.0

    def value(trial: SweepTrial) -> float | None:
        found = None if trial.status.failed else first.value(trial.metrics)
        return None if found is None else sign * found

    trials = tuple(replace(trial, value=value(trial)) for trial in result.trials)
    ranked = replace(result, objectives=objectives, trials=trials, gain=None, confirmed="")
    points = summarize(ranked)
    best = points[0] if points else None
    return replace(
        ranked,
        best=best.point if best else None,
        best_value=best.value if best else None,
        best_spread=best.spread if best else 0.0,
        baseline_value=None,
    )


def _front(result: SweepResult, points: Sequence[PointSummary]) -> list[PointSummary]:
    if len(result.objectives) < 2:
        return []
    full = [one for one in points if not one.screened] or list(points)
    directions = [objective.direction for objective in result.objectives]
    return [full[index] for index in non_dominated([one.values for one in full], directions)]


def _heat(result: SweepResult, names: tuple[str, str] | None) -> HeatMapView | None:
    chosen = heat_axes(result, names)
    if chosen is None:
        return None
    across, up = sorted(chosen, key=lambda one: -len(one.labels))  # labels need room
    cells = heat_cells(result, across, up)
    return HeatMapView(across, up, [(*place, value) for place, value in sorted(cells.items())])


# The search for the largest load.

_HELD = (Status.OK,)
_BROKE = (Status.INVALID,)
_FEWEST_LOADS = 4


def load_view(result: SweepResult, parameter: str = "") -> LoadView | None:
    """How often each load held; None if the sweep has no parameter that looks like a load.

    Without a name it is the parameter with the most values of which some held and some did not.
    """
    found = [_loads(result, one.name) for one in parameter_axes(result)]
    views = [one for one in found if one is not None and parameter in ("", one.parameter)]
    return max(views, key=lambda one: len(one.steps), default=None)


def _loads(result: SweepResult, name: str) -> LoadView | None:
    held: Counter[float] = Counter()
    broke: Counter[float] = Counter()
    for trial in result.trials:
        load = trial.point.get(name)
        if isinstance(load, bool) or not isinstance(load, int | float):
            return None
        if trial.status in _HELD:
            held[float(load)] += 1
        elif trial.status in _BROKE:
            broke[float(load)] += 1
    loads = sorted({*held, *broke})
    if len(loads) < _FEWEST_LOADS or not broke:
        return None
    breaks = min(broke)
    below = [load for load in loads if load < breaks]
    return LoadView(
        name,
        [LoadStep(load, held[load], broke[load]) for load in loads],
        max(below, default=None),
        breaks,
    )


POINT_COLUMNS: tuple[ViewColumn[PointSummary], ...] = (
    ViewColumn("point", "point", lambda one: point_text(one.point), filterable=True),
    ViewColumn("value", "value", lambda one: one.value),
    ViewColumn("spread", "spread", lambda one: one.spread, "share"),
    ViewColumn("good", "good runs", lambda one: one.good, "count"),
    ViewColumn("runs", "runs", lambda one: one.runs, "count"),
    ViewColumn("screened", "only short", lambda one: one.screened),
)


def point_table(page: SweepPage, request: TableRequest) -> RecordTable[PointSummary]:
    """The points of a sweep with a value, the best first."""
    return table_of("points", POINT_COLUMNS, page.points, request)
