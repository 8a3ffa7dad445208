"""Sweeps: their table, and one of them."""

from __future__ import annotations

from skipjack.app.views import (
    SweepFailures,
    SweepPage,
    ViewColumn,
    Workspace,
    sweep_page,
    sweep_table,
    table_of,
)
from skipjack.report import metric_text
from skipjack.report.views import point_columns, sweep_figures
from skipjack.sweep.results import point_text
from skipjack.web.content import (
    ChoiceSection,
    Fact,
    FactSection,
    FigureSection,
    LogSection,
    PageCall,
    PageContent,
    PageLink,
    Section,
    TableSection,
)

SWEEPS = PageLink("Sweeps", "/sweeps")

FAILURE_COLUMNS: tuple[ViewColumn[SweepFailures], ...] = (
    ViewColumn("runs", "runs", lambda one: one.runs, "count"),
    ViewColumn("status", "status", lambda one: one.status),
    ViewColumn("reason", "reason", lambda one: one.reason),
)


def sweeps(workspace: Workspace, call: PageCall) -> PageContent:
    """All sweeps."""
    table = TableSection(
        "sweeps",
        "Sweeps",
        lambda request: sweep_table(workspace, request),
        empty="There is none: skipjack sweep runs one; skipjack web --sweeps DIR shows reports.",
        main=True,
    )
    return PageContent("Sweeps", [table])


def sweep(workspace: Workspace, call: PageCall) -> PageContent:
    """One sweep."""
    key = call.name("key")
    wanted = [call.chosen(name) for name in ("first", "second")]
    across, up = call.chosen("across"), call.chosen("up")
    page = sweep_page(
        workspace,
        key,
        [one for one in dict.fromkeys(wanted) if one],
        (across, up) if across and up and across != up else None,
    )
    result = page.result
    facts = [Fact("points", page.row.points, "count"), Fact("runs", page.row.runs, "count")]
    facts.append(Fact("failed runs", page.row.failed, "count"))
    if result.best is not None:
        facts.append(Fact("best", metric_text(result.best_value)))
    sections: list[Section] = [
        FactSection("now", "Outcome", facts, large=True),
        FactSection("about", "About", _facts(page)),
        *(FigureSection(id, figure) for id, figure in sweep_figures(page).items()),
        *_choices(page, call),
        TableSection(
            "points",
            "Points, the best first",
            lambda request: table_of("points", point_columns(result), page.points, request),
            empty="No point has a value.",
            main=False,
        ),
        TableSection(
            "failures",
            "Failures",
            lambda request: table_of("failures", FAILURE_COLUMNS, page.failures, request),
            empty="No run failed.",
        ),
    ]
    if result.user_conf:
        sections.append(LogSection("conf", "For user.conf", "\n".join(result.user_conf)))
    return PageContent(page.row.name, sections, (SWEEPS,))


def _facts(page: SweepPage) -> list[Fact]:
    result = page.result
    objectives = ", ".join(one.text for one in result.objectives)
    facts = [
        Fact("from", page.row.source),
        Fact("objectives", objectives),
        Fact("best point", point_text(result.best) if result.best is not None else None),
        Fact("confirmed", result.confirmed),
        Fact("base", point_text(result.baseline) if result.baseline is not None else None),
        Fact("value of the base", metric_text(result.baseline_value)),
        Fact("gain over the base", result.gain.ratio if result.gain else None, "ratio"),
        Fact("builds", result.builds or None, "count"),
        Fact("builds that were reused", result.build_hits or None, "count"),
        Fact("time", result.seconds or None, "s"),
        Fact("last run", page.row.last, "time"),
        *(Fact(f"remark {number}", note) for number, note in enumerate(result.notes, 1)),
    ]
    return [one for one in facts if one.value not in ("", None, "-")]


def _choices(page: SweepPage, call: PageCall) -> list[Section]:
    """Other objectives, and other axes of the heat map."""
    objectives = [
        (f"{metric}:{way}", f"{metric}, {said}")
        for metric in page.metrics
        for way, said in (("min", "less is better"), ("max", "more is better"))
    ]
    chosen = [one.text for one in page.result.objectives]
    first, second = (*chosen, "", "")[:2]
    axes = [(axis.name, axis.name) for axis in page.axes if axis.varies]
    found: list[Section] = []
    if len(page.metrics) > 1:
        none = [("", "none"), *objectives]
        found.append(
            ChoiceSection(
                "objectives",
                "Other objectives",
                call.path,
                [("first", "first", objectives, first), ("second", "second", none, second)],
                "Rank",
                half=True,
            )
        )
    if len(axes) > 2 and page.heat is not None:
        shown = page.heat.across.name, page.heat.up.name
        found.append(
            ChoiceSection(
                "axes",
                "Axes of the heat map",
                call.path,
                [("across", "across", axes, shown[0]), ("up", "up", axes, shown[1])],
                "Draw",
                half=True,
            )
        )
    return found
