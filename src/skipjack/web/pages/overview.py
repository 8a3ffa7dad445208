"""The overview, and labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from skipjack.app import recorded_actions
from skipjack.app.views import (
    RecordTable,
    TableRequest,
    ViewColumn,
    Workspace,
    fleet_page,
    job_path,
    job_table,
    jobs_path,
    label_page,
    label_path,
    label_table,
    machine_path,
    table_of,
)
from skipjack.fleet.model import Label
from skipjack.fleet.store import ErrorGroup, JobSummary, RecordedAction, Throughput
from skipjack.report.figures import Figure
from skipjack.report.views import jobs_figure, pace_figure
from skipjack.web.content import (
    Fact,
    FactSection,
    FigureSection,
    NoteSection,
    PageCall,
    PageContent,
    PageLink,
    Section,
    TableSection,
)

OVERVIEW = PageLink("Overview", "/")

ERROR_COLUMNS: tuple[ViewColumn[ErrorGroup], ...] = (
    ViewColumn("jobs", "jobs", lambda one: one.jobs, "count"),
    ViewColumn("stage", "stage", lambda one: one.stage),
    ViewColumn("reason", "reason", lambda one: one.reason),
    ViewColumn(
        "example", "newest job", lambda one: one.example, link=lambda one: job_path(one.example)
    ),
)
ACTION_COLUMNS: tuple[ViewColumn[RecordedAction], ...] = (
    ViewColumn("at", "when", lambda one: one.at, "time"),
    ViewColumn("who", "who", lambda one: one.who, filterable=True),
    ViewColumn("action", "what", lambda one: one.action, filterable=True),
    ViewColumn("kind", "of", lambda one: one.kind),
    ViewColumn(
        "target",
        "name",
        lambda one: one.target,
        filterable=True,
        link=lambda one: (
            label_path(one.target)
            if one.kind == "label"
            else machine_path(one.target)
            if one.kind == "machine"
            else None
        ),
    ),
    ViewColumn("jobs", "jobs", lambda one: one.jobs, "count"),
    ViewColumn("reason", "reason", lambda one: one.reason),
)
JOBS_SHOWN = (
    *("id", "label", "problem", "device", "state", "solver", "trials", "failed_trials"),
    *("best_ns", "gain", "machine", "reason", "updated"),
)
"""Columns of tables of jobs on pages."""
_ACTIONS = 500
_ADVICE = (
    "skipjack tune matmul:192x192x192 --seconds 5",
    "skipjack import -f problems.txt -t TAG; skipjack load -t TAG -l LABEL; skipjack run -l LABEL",
)


def overview(workspace: Workspace, call: PageCall) -> PageContent:
    """All labels, and where results are."""
    sections: list[Section] = []
    if workspace.has_store:
        page = fleet_page(workspace)
        going = page.throughput
        sections += [
            FactSection(
                "now",
                "Now",
                [
                    Fact("jobs", page.jobs, "count", jobs_path()),
                    Fact("open", going.open, "count"),
                    Fact(
                        "errors", page.by_state.get("error", 0), "count", jobs_path(state="error")
                    ),
                    Fact("machines at work", page.working_machines, "count", "/machines"),
                    *speed_facts(going),
                ],
                large=True,
            ),
            *state_figures(page.timeline),
            TableSection(
                "labels",
                "Labels",
                lambda request: label_table(workspace, request),
                empty="No jobs were loaded yet: skipjack load does it.",
                main=True,
            ),
            error_section(page.errors),
            action_section(workspace, title="What people did"),
        ]
    sources = workspace.sources()
    missing = [one for one in sources if not one.present]
    if len(missing) == len(sources):
        said = "There is nothing to show yet. Tune a problem, or set up a fleet:"
        sections.insert(0, NoteSection("nothing", "Nothing yet", said, _ADVICE))
    facts = [Fact(one.name, one.where, help=one.said) for one in sources if one.present]
    facts += [Fact(f"no {one.name}", one.said) for one in missing]
    sections.append(FactSection("sources", "Where this is from", facts))
    return PageContent("Overview", sections)


def speed_facts(going: Throughput) -> list[Fact]:
    """How fast jobs end."""
    return [
        Fact("jobs per hour", going.jobs_per_hour, "ratio"),
        Fact("trials per hour", going.trials_per_hour, "ratio"),
        Fact("expected end", going.ends_at if going.open else None, "time"),
    ]


def state_figures(timeline: Any) -> list[Section]:
    """Jobs by state over time, and how many were finished."""
    if len(timeline.ends) < 2 or not timeline.counts:
        return []
    periods: dict[str, Figure] = {
        "states": jobs_figure(timeline),
        "finished": pace_figure(timeline),
    }
    rows = [
        {"at": end, **{state: counts[place] for state, counts in timeline.counts.items()}}
        for place, end in enumerate(timeline.ends)
    ]
    columns = [ViewColumn[Mapping[str, Any]]("at", "until", lambda one: one["at"], "time")]
    columns += [_count_column(state) for state in timeline.counts]
    table = table_of("periods", columns, rows, TableRequest(size=200))
    return [
        FigureSection(name, figure, table=table if name == "states" else None)
        for name, figure in periods.items()
    ]


def _count_column(state: str) -> ViewColumn[Mapping[str, Any]]:
    return ViewColumn(state, state.replace("_", " "), lambda one: one[state], "count")


def error_section(errors: Sequence[ErrorGroup]) -> TableSection:
    """Errors by reason."""
    return TableSection(
        "errors",
        "Errors by reason",
        lambda request: table_of("errors", ERROR_COLUMNS, errors, request),
        empty="No job is in state error.",
        half=True,
    )


def action_section(
    workspace: Workspace, kind: str | None = None, target: str | None = None, title: str = "Actions"
) -> TableSection:
    """Who aborted, resumed, reset, enabled and disabled what."""

    def read(request: TableRequest) -> RecordTable[RecordedAction]:
        done = recorded_actions(workspace.store, kind=kind, target=target, limit=_ACTIONS)
        return table_of("actions", ACTION_COLUMNS, done, request)

    return TableSection(
        "actions", title, read, empty="Nobody did anything yet.", rows=20, half=True
    )


def label(workspace: Workspace, call: PageCall) -> PageContent:
    """One label."""
    name = call.name("name")
    page = label_page(workspace, name)
    row, made = page.row, page.label
    time = page.device_time
    facts = [
        Fact("owner", made.owner),
        Fact("ticket", made.ticket),
        Fact("image", made.image),
        Fact("versions", made.versions),
        Fact("toolchain", made.toolchain),
        Fact("created", row.created, "time"),
        Fact("device time used", time.used_s, "s"),
        Fact("device time left", time.left_s, "s"),
    ]
    facts += [
        Fact(f"toolchain on {device}", ", ".join(found))
        for device, found in page.toolchains.items()
    ]
    sections: list[Section] = [
        FactSection(
            "now",
            "Now",
            [
                Fact("jobs", row.jobs, "count", jobs_path(label=name)),
                Fact("done", row.done, "share"),
                Fact("in work", row.working, "count"),
                Fact("errors", row.errors, "count", jobs_path(label=name, state="error")),
                *speed_facts(page.throughput),
            ],
            large=True,
        ),
        FactSection("about", "About", [one for one in facts if one.value not in ("", None)]),
        *state_figures(page.timeline),
        count_section("devices", "By device", "device", page.by_device, label=name),
        count_section("solvers", "By solver", "solver", page.by_solver, label=name),
        error_section(page.errors),
        TableSection(
            "jobs",
            "Jobs",
            lambda request: jobs_of_label(workspace, name, request),
            rows=25,
            shown=JOBS_SHOWN,
        ),
        action_section(workspace, "label", name),
    ]
    return PageContent(
        name,
        sections,
        (OVERVIEW,),
        actions=_label_actions(made, row.aborted) if call.may_act else (),
        badge="aborted" if row.aborted else "",
    )


def jobs_of_label(
    workspace: Workspace, name: str, request: TableRequest
) -> RecordTable[JobSummary]:
    """The jobs of a label; the label itself is not among the columns."""
    table = job_table(workspace, replace(request, filters={**request.filters, "label": name}))
    columns = [one for one in table.columns if one.name != "label"]
    return replace(table, columns=columns, request=request)


def _label_actions(label: Label, aborted: bool) -> list[PageLink]:
    path = f"/actions/label/{quote(label.name, safe='')}"
    stop = (
        PageLink("Resume …", f"{path}/resume") if aborted else PageLink("Abort …", f"{path}/abort")
    )
    return [stop, PageLink("Reset jobs …", f"{path}/reset")]


def count_section(
    id: str, title: str, of: str, counts: Mapping[str, Mapping[str, int]], **filters: str
) -> TableSection:
    """Numbers of jobs by state, for each device or solver."""
    states = _states_of(counts.values())
    columns = [
        ViewColumn[tuple[str, Mapping[str, int]]](
            of, of, lambda one: one[0], link=lambda one: jobs_path(**filters, **{of: one[0]})
        ),
        *(_state_column(of, state, filters) for state in states),
    ]
    rows = list(counts.items())
    return TableSection(id, title, lambda request: table_of(of, columns, rows, request), half=True)


def _state_column(
    of: str, state: str, filters: Mapping[str, str]
) -> ViewColumn[tuple[str, Mapping[str, int]]]:
    return ViewColumn(
        state,
        state.replace("_", " "),
        lambda one: one[1].get(state, 0),
        "count",
        link=lambda one: (
            jobs_path(**filters, **{of: one[0], "state": state}) if one[1].get(state) else None
        ),
    )


def _states_of(counts: Iterable[Mapping[str, int]]) -> list[str]:
    return list(dict.fromkeys(state for each in counts for state in each))
