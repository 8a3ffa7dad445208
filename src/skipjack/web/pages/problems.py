"""Problems: their table, and all that is known about one of them."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.app.views import (
    JOB_COLUMNS,
    MOST_TRIALS,
    DecisionSummary,
    KnownEntry,
    ProblemPage,
    ProblemSearch,
    SearchPage,
    TrialRow,
    Unit,
    ViewColumn,
    Workspace,
    config_samples,
    entry_path,
    job_path,
    ledger_problem_table,
    problem_page,
    problem_table,
    search_page,
    search_path,
    table_of,
)
from skipjack.core import settings_text
from skipjack.fleet.store import ProblemSummary, TagDetails
from skipjack.report.figures import Figure
from skipjack.report.views import samples_figure, search_figures
from skipjack.web.content import (
    CurveSection,
    Fact,
    FactSection,
    FigureSection,
    NoteSection,
    PageCall,
    PageContent,
    PageLink,
    Section,
    StepsSection,
    TableSection,
)
from skipjack.web.pages.curves import search_curve_path
from skipjack.web.pages.overview import JOBS_SHOWN

PROBLEMS = PageLink("Problems", "/problems")
_BEST = "best-so-far"
_SHOWN = (
    *("key", "operation", "dtype", "tag", "model", "calls", "jobs", "evaluated"),
    *("trials", "best_ns", "device", "measured"),
)


def problems(workspace: Workspace, call: PageCall) -> PageContent:
    """The problems of the fleet, and those of the ledger."""
    sections: list[Section] = []
    if workspace.has_store:
        sections.append(
            TableSection(
                "fleet",
                "Problems of the fleet",
                lambda request: problem_table(workspace, request),
                empty="No problems were imported yet: skipjack import does it.",
                main=True,
                shown=_SHOWN,
            )
        )
    if workspace.has_ledger or not sections:
        workspace.ledger  # noqa: B018  (says how to get one)
        sections.append(
            TableSection(
                "ledger",
                "Problems that were tuned here",
                lambda request: ledger_problem_table(workspace, request),
                empty="Nothing was tuned yet: skipjack tune does it.",
                main=not sections,
            )
        )
    return PageContent("Problems", sections)


def problem(workspace: Workspace, call: PageCall) -> PageContent:
    """All that is known about a problem."""
    key = call.name("key")
    page = problem_page(workspace, key)
    wanted = call.chosen("search") or _newest(page.searches)
    search = search_page(workspace, key, wanted) if wanted else None
    sections: list[Section] = [_known(page, search)]
    if page.fleet is not None:
        sections.append(_provenance(page.fleet))
    if search is not None:
        sections += _search_sections(key, search)
    if samples := config_samples(workspace, key):
        figure = samples_figure(samples)
        note = "A tie cannot be told from the fastest by the noise of both."
        sections.append(FigureSection("samples", figure, note))
    sections += [
        TableSection(
            "searches",
            "Searches",
            lambda request: table_of("searches", _search_columns(key), page.searches, request),
            empty="No search was made yet.",
            rows=25,
        ),
        StepsSection(
            "lookup",
            "What a lookup finds",
            [(one.step, one.said) for one in page.steps],
            note="Banks are asked in this order; the first with an entry for the device answers.",
        ),
        TableSection(
            "entries",
            "Entries of banks",
            lambda request: table_of("entries", ENTRY_COLUMNS, page.entries, request),
            empty="No bank has an entry.",
        ),
        TableSection(
            "decisions",
            "Decisions",
            lambda request: table_of("decisions", DECISION_COLUMNS, page.decisions, request),
            empty="No decision is recorded in the ledger.",
        ),
    ]
    if page.jobs:
        sections.append(
            TableSection(
                "jobs",
                "Jobs",
                lambda request: table_of("jobs", JOB_COLUMNS, page.jobs, request),
                shown=JOBS_SHOWN,
                rows=25,
            )
        )
    said = "How this machine arrives at its answer, step by step:"
    sections.append(NoteSection("why", "On this machine", said, [f"skipjack bank why {key}"]))
    return PageContent(key, sections, (PROBLEMS,))


def _newest(searches: Sequence[ProblemSearch]) -> str:
    """The newest search with a result."""
    known = [one for one in searches if one.best is not None] or list(searches)
    return known[0].id if known else ""


def _known(page: ProblemPage, search: SearchPage | None) -> FactSection:
    best = search.best if search else None
    facts = [
        Fact("searches", len(page.searches), "count"),
        Fact("entries of banks", len(page.entries), "count"),
        Fact("jobs", len(page.jobs), "count"),
    ]
    if search is not None and best is not None:
        facts.append(Fact("best of this search", best.value, search_unit(search.summary)))
    return FactSection("now", "Known", facts, large=True)


def _provenance(one: ProblemSummary) -> TableSection:
    return TableSection(
        "provenance",
        "Where it is from",
        lambda request: table_of("tags", TAG_COLUMNS, one.tags, request),
        note="It is retired: loads leave it out." if one.retired else "",
    )


def _search_sections(key: str, search: SearchPage) -> list[Section]:
    summary = search.summary
    facts = [
        Fact("search", summary.id),
        Fact("solver", summary.solver),
        Fact("searcher", summary.searcher),
        Fact("device", summary.device),
        Fact("job", summary.job, link=job_path(summary.job) if summary.job else None),
        Fact("seed", summary.seed),
        Fact("objective", summary.objective),
        Fact("trials", summary.trials, "count"),
        Fact("failed", summary.failed, "count"),
        Fact("started", summary.created, "time"),
    ]
    best = search.best
    if best is not None:
        facts.append(Fact("best config", settings_text(best.config)))
    sections: list[Section] = [
        FactSection("search", "This search", [one for one in facts if one.value not in ("", None)])
    ]
    for name, figure in search_figures(search).items():
        sections.append(_search_figure(key, search, name, figure))
    unit = search_unit(summary)
    sections.append(
        TableSection(
            "trials",
            "Trials of this search",
            lambda request: table_of("trials", trial_columns(unit), search.trials, request),
            note=trials_note(summary.trials),
            empty="Nothing was tried yet.",
            rows=25,
        )
    )
    return sections


def trials_note(trials: int) -> str:
    """What is said about trials that are not read."""
    if trials <= MOST_TRIALS:
        return ""
    return f"The last {MOST_TRIALS:,} of {trials:,}, and the best one before them."


def _search_figure(key: str, search: SearchPage, name: str, figure: Figure) -> Section:
    if name == _BEST:
        data = search_curve_path(key, search.summary.id)
        return CurveSection(name, figure, data)
    return FigureSection(name, figure)


def search_unit(summary: ProblemSearch) -> Unit:
    """The unit of what a search minimises."""
    return "ns" if summary.objective.startswith("time_ns") else ""


def trial_columns(unit: Unit) -> tuple[ViewColumn[TrialRow], ...]:
    """The columns of trials."""
    return (
        ViewColumn("number", "trial", lambda one: one.number, "count"),
        ViewColumn("config", "config", lambda one: settings_text(one.config), filterable=True),
        ViewColumn("status", "status", lambda one: one.status, filterable=True),
        ViewColumn("value", "value", lambda one: one.value, unit),
        ViewColumn("spread", "spread", lambda one: one.spread, unit),
        ViewColumn("best", "best so far", lambda one: one.best, unit),
        ViewColumn("reason", "reason", lambda one: one.reason),
        ViewColumn("created", "when", lambda one: one.created, "time"),
    )


def _search_columns(key: str) -> tuple[ViewColumn[ProblemSearch], ...]:
    return (
        ViewColumn("id", "search", lambda one: one.id, link=lambda one: search_path(key, one.id)),
        ViewColumn("solver", "solver", lambda one: one.solver, filterable=True),
        ViewColumn("device", "device", lambda one: one.device, filterable=True),
        ViewColumn("searcher", "searcher", lambda one: one.searcher, filterable=True),
        ViewColumn("trials", "trials", lambda one: one.trials, "count"),
        ViewColumn("failed", "failed", lambda one: one.failed, "count"),
        ViewColumn("best", "best", lambda one: one.best, "ns"),
        ViewColumn("created", "started", lambda one: one.created, "time"),
    )


TAG_COLUMNS: tuple[ViewColumn[TagDetails], ...] = (
    ViewColumn("tag", "tag", lambda one: one.tag),
    ViewColumn("source", "from", lambda one: one.source),
    ViewColumn("model", "model", lambda one: one.model),
    ViewColumn("calls", "calls", lambda one: one.calls, "count"),
    ViewColumn("recurrent", "tuned again", lambda one: one.recurrent),
    ViewColumn("created", "imported", lambda one: one.created, "time"),
)
ENTRY_COLUMNS: tuple[ViewColumn[KnownEntry], ...] = (
    ViewColumn(
        "layer",
        "bank",
        lambda one: one.layer,
        link=lambda one: entry_path(one.layer, one.entry.problem),
    ),
    ViewColumn("device", "device", lambda one: one.entry.device_name),
    ViewColumn("kind", "kind", lambda one: one.entry.kind),
    ViewColumn("solver", "solver", lambda one: one.entry.solver),
    ViewColumn("config", "config", lambda one: settings_text(one.entry.config)),
    ViewColumn("time_ns", "time", lambda one: one.entry.time_ns, "ns"),
    ViewColumn("samples", "samples", lambda one: one.entry.evidence.samples, "count"),
    ViewColumn("behind", "weaker ones", lambda one: len(one.behind), "count"),
    ViewColumn("stale", "changed since", lambda one: one.stale),
)
DECISION_COLUMNS: tuple[ViewColumn[DecisionSummary], ...] = (
    ViewColumn("created", "when", lambda one: one.created, "time"),
    ViewColumn("outcome", "decision", lambda one: one.outcome, filterable=True),
    ViewColumn("solver", "solver", lambda one: one.solver, filterable=True),
    ViewColumn("device", "device", lambda one: one.device, filterable=True),
    ViewColumn("config", "config", lambda one: settings_text(one.config)),
    ViewColumn("time_ns", "time", lambda one: one.time_ns, "ns"),
    ViewColumn("reason", "why", lambda one: one.reason),
)
