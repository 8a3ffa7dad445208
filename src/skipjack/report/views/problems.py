"""Figures of searches and of samples, and the report of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from skipjack.app.views import (
    ConfigSamples,
    DecisionSummary,
    KnownEntry,
    LookupStep,
    ProblemPage,
    ProblemSearch,
    RecordTable,
    SearchPage,
    TableRequest,
    TrialRow,
    Unit,
    ViewColumn,
    table_of,
)
from skipjack.core import settings_text
from skipjack.report.documents import DocumentSection, Part, Prose
from skipjack.report.figures import (
    BarFigure,
    DistributionFigure,
    Figure,
    FigureAxis,
    FigureBar,
    LineFigure,
    LineSeries,
    ParallelAxis,
    ParallelFigure,
    ParallelLine,
    SampleGroup,
    text_of,
)
from skipjack.report.views.rendered_report import RenderedReport
from skipjack.sweep.results import ParameterAxis, ParameterEffect

_MOST_SEARCHES = 6
"""Searches with figures in the report of a problem, the newest first."""


def best_so_far_figure(page: SearchPage, title: str = "Best so far") -> LineFigure:
    """The time of each trial, and the best until then."""
    trials = page.trials
    numbers = [one.number for one in trials]
    texts = [one.reason or settings_text(one.config) for one in trials]
    return LineFigure(
        title,
        FigureAxis("trial", whole=True),
        _value_axis(page.summary),
        [
            LineSeries(
                "a trial", numbers, [one.value for one in trials], "points", "plain", texts=texts
            ),
            LineSeries(
                "best so far", numbers, [one.best for one in trials], "step", "best", last_text=True
            ),
        ],
    )


def _value_axis(summary: ProblemSearch) -> FigureAxis:
    unit = value_unit(summary)
    name = "time of a call" if unit == "ns" else summary.objective.partition(":")[0]
    return FigureAxis(f"{name} (less is better)", unit)


def value_unit(summary: ProblemSearch) -> Unit:
    """The unit of the values that a search minimises."""
    return "ns" if summary.objective.startswith("time_ns") else ""


def parallel_figure(
    axes: Sequence[ParameterAxis],
    trials: Iterable[TrialRow],
    value: FigureAxis,
    title: str = "Configs that were tried, the brighter the better",
) -> ParallelFigure:
    """A line for each config through its settings."""
    best: dict[str, TrialRow] = {}
    for one in trials:
        key = settings_text(one.config)
        if key not in best or _beats(one, best[key]):
            best[key] = one
    winner = min(
        (one for one in best.values() if one.value is not None),
        key=lambda one: one.value or 0.0,
        default=None,
    )
    lines = [
        ParallelLine([axis.place(one.config) for axis in axes], one.value, key, one is winner)
        for key, one in best.items()
    ]
    shown = [ParallelAxis(axis.name, axis.labels) for axis in axes]
    return ParallelFigure(title, shown, lines, value)


def _beats(one: TrialRow, other: TrialRow) -> bool:
    if one.value is None:
        return False
    return other.value is None or one.value < other.value


def importance_figure(effects: Sequence[ParameterEffect], title: str = "What matters") -> BarFigure:
    """How much of the differences each setting explains."""
    bars = [
        FigureBar(
            one.name,
            one.share,
            note=f"{100 * one.share:.0f} %" + (f", best {one.best}" if one.best else ""),
            kind="best" if place == 0 and one.share > 0.0 else "plain",
        )
        for place, one in enumerate(effects)
    ]
    return BarFigure(title, FigureAxis("share of the variance that it explains", "share"), bars)


def search_figures(page: SearchPage) -> dict[str, Figure]:
    """The figures of a search, by name."""
    if not page.trials:
        return {}
    found: dict[str, Figure] = {"best-so-far": best_so_far_figure(page)}
    axes = [axis for axis in page.axes if axis.varies]
    if axes:
        found["parallel-coordinates"] = parallel_figure(
            axes, page.trials, _value_axis(page.summary)
        )
    if any(one.share > 0.0 for one in page.effects):
        found["importance"] = importance_figure(page.effects)
    return found


def samples_figure(
    samples: Sequence[ConfigSamples], title: str = "Samples of the fastest configs"
) -> DistributionFigure:
    """The samples of configs, with their noise and ties."""
    groups = [
        SampleGroup(
            f"{one.solver} {settings_text(one.config)}".strip(),
            one.samples_ns,
            note=", ".join(
                part
                for part in (
                    "tie" if one.tie else "",
                    f"±{100 * one.noise:.1f} %" if isfinite(one.noise) else "",
                    f"{one.disturbed} set aside" if one.disturbed else "",
                )
                if part
            ),
            kind="best" if place == 0 else "tie" if one.tie else "plain",
        )
        for place, one in enumerate(samples)
    ]
    return DistributionFigure(title, FigureAxis("time of a call", "ns"), groups)


# The report of a problem.

_SEARCH_COLUMNS = (
    ViewColumn[ProblemSearch]("created", "started", lambda one: one.created, "time"),
    ViewColumn[ProblemSearch]("solver", "solver", lambda one: one.solver),
    ViewColumn[ProblemSearch]("device", "device", lambda one: one.device),
    ViewColumn[ProblemSearch]("searcher", "searcher", lambda one: one.searcher),
    ViewColumn[ProblemSearch]("trials", "trials", lambda one: one.trials, "count"),
    ViewColumn[ProblemSearch]("failed", "failed", lambda one: one.failed, "count"),
    ViewColumn[ProblemSearch]("best", "best", lambda one: text_of(one.best, value_unit(one))),
)
_DECISION_COLUMNS = (
    ViewColumn[DecisionSummary]("created", "when", lambda one: one.created, "time"),
    ViewColumn[DecisionSummary]("outcome", "decision", lambda one: one.outcome),
    ViewColumn[DecisionSummary]("solver", "solver", lambda one: one.solver),
    ViewColumn[DecisionSummary]("config", "config", lambda one: settings_text(one.config)),
    ViewColumn[DecisionSummary]("time", "time", lambda one: one.time_ns, "ns"),
    ViewColumn[DecisionSummary]("reason", "why", lambda one: one.reason),
)
_ENTRY_COLUMNS = (
    ViewColumn[KnownEntry]("bank", "bank", lambda one: one.layer),
    ViewColumn[KnownEntry]("device", "device", lambda one: one.entry.device_name),
    ViewColumn[KnownEntry]("solver", "solver", lambda one: one.entry.solver),
    ViewColumn[KnownEntry]("config", "config", lambda one: settings_text(one.entry.config)),
    ViewColumn[KnownEntry]("time", "time", lambda one: one.entry.time_ns, "ns"),
    ViewColumn[KnownEntry]("samples", "samples", lambda one: one.entry.evidence.samples, "count"),
    ViewColumn[KnownEntry]("made", "made", lambda one: one.entry.created[:19].replace("T", " ")),
    ViewColumn[KnownEntry]("stale", "changed since", lambda one: one.stale),
)
_STEP_COLUMNS = (
    ViewColumn[LookupStep]("step", "bank", lambda one: one.step),
    ViewColumn[LookupStep]("answered", "has it", lambda one: one.answered),
    ViewColumn[LookupStep]("said", "what it has", lambda one: one.said),
)
_TRIAL_COLUMNS = (
    ViewColumn[TrialRow]("number", "trial", lambda one: one.number, "count"),
    ViewColumn[TrialRow]("config", "config", lambda one: settings_text(one.config)),
    ViewColumn[TrialRow]("status", "status", lambda one: one.status),
    ViewColumn[TrialRow]("spread", "spread", lambda one: one.spread, "share"),
    ViewColumn[TrialRow]("reason", "reason", lambda one: one.reason),
)
_ALL = TableRequest(size=1_000)


def trial_table(page: SearchPage, most: int = 20) -> RecordTable[TrialRow]:
    """The best trials of a search."""
    known = [one for one in page.trials if one.value is not None]
    known.sort(key=lambda one: one.value or 0.0)
    unit = value_unit(page.summary)
    value = ViewColumn[TrialRow]("value", "value", lambda one: one.value, unit)
    columns = (*_TRIAL_COLUMNS[:3], value, *_TRIAL_COLUMNS[3:])
    return RecordTable("best trials", columns, known[:most], len(page.trials), _ALL)


def problem_figures(
    searches: Sequence[SearchPage], samples: Sequence[ConfigSamples]
) -> dict[str, Figure]:
    """The figures of a problem, by name; those of further searches end with a number."""
    found: dict[str, Figure] = {}
    for place, page in enumerate(searches[:_MOST_SEARCHES], 1):
        for name, figure in search_figures(page).items():
            found[name if place == 1 else f"{name}-{place}"] = figure
    if samples:
        found["samples"] = samples_figure(samples)
    return found


def problem_report(
    page: ProblemPage, searches: Sequence[SearchPage], samples: Sequence[ConfigSamples]
) -> RenderedReport:
    """The report of a problem; `searches` are the newest first."""
    figures = problem_figures(searches, samples)
    tables: list[Part] = [
        table_of("searches", _SEARCH_COLUMNS, page.searches, _ALL),
        *([figures["samples"]] if samples else []),
    ]
    sections = [
        DocumentSection("Known", [table_of("entries", _ENTRY_COLUMNS, page.entries, _ALL)]),
        DocumentSection("Lookup", [table_of("banks", _STEP_COLUMNS, page.steps, _ALL)]),
        DocumentSection(
            "Decisions", [table_of("decisions", _DECISION_COLUMNS, page.decisions, _ALL)]
        ),
        DocumentSection("Searches", tables),
        *(_search_section(one) for one in searches[:_MOST_SEARCHES]),
    ]
    return RenderedReport(page.key, sections, figures, [Prose(_problem_sentence(page))])


def _search_section(page: SearchPage) -> DocumentSection:
    summary = page.summary
    head = f"{summary.solver} on {summary.device} by {summary.searcher}"
    best = page.best
    said = f"{summary.trials} trials, {summary.failed} failed"
    if best is not None:
        said += (
            f"; the best is {text_of(best.value, value_unit(summary))} at trial "
            f"{best.number}: {settings_text(best.config)}"
        )
    parts: list[Part] = [Prose(f"{said}."), *search_figures(page).values()]
    if page.trials:
        parts.append(trial_table(page))
    return DocumentSection(head, parts)


def _problem_sentence(page: ProblemPage) -> str:
    if not page.entries:
        return f"No bank has an entry; {len(page.searches)} searches were made."
    first = page.entries[0]
    return (
        f"The {first.layer} bank has {first.entry.solver} with "
        f"{settings_text(first.entry.config) or 'no settings'} for {first.entry.device_name}: "
        f"{text_of(first.entry.time_ns, 'ns')}."
    )
