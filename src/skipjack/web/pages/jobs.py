"""Jobs: their table, and one of them with its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import time
from typing import Any

from skipjack.app.views import (
    JobPage,
    ViewColumn,
    Workspace,
    job_log,
    job_number,
    job_page,
    job_table,
    label_path,
    machine_path,
    problem_path,
    search_path,
    seconds_of,
    table_of,
)
from skipjack.core import settings_text
from skipjack.fleet.model import JobEvent, JobState
from skipjack.fleet.store import StoredSearch
from skipjack.report import gain_text
from skipjack.report.figures import (
    FigureAxis,
    TimelineFigure,
    TimelineRow,
    TimelineSpan,
)
from skipjack.report.views import STATE_KINDS
from skipjack.web.content import (
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
from skipjack.web.pages.overview import JOBS_SHOWN

JOBS = PageLink("Jobs", "/jobs")
_FAST_S = 2
_PLAIN_FIELDS = frozenset({"format", "problem", "device", "device_class", "interrupted"})
"""Fields of results that the page has already, or that say nothing."""

EVENT_COLUMNS: tuple[ViewColumn[JobEvent], ...] = (
    ViewColumn("number", "event", lambda one: one.number, "count"),
    ViewColumn("at", "when", lambda one: seconds_of(one.at), "time"),
    ViewColumn("event", "what", lambda one: one.event),
    ViewColumn("before", "before", lambda one: one.before),
    ViewColumn("after", "after", lambda one: one.after),
    ViewColumn("round", "round", lambda one: one.round + 1, "count"),
    ViewColumn("attempt", "attempt", lambda one: one.attempt, "count"),
    ViewColumn(
        "machine",
        "machine",
        lambda one: one.machine,
        link=lambda one: machine_path(one.machine) if one.machine else None,
    ),
    ViewColumn("gpu", "slot", lambda one: one.gpu),
    ViewColumn("reason", "reason", lambda one: one.reason),
)


def jobs(workspace: Workspace, call: PageCall) -> PageContent:
    """All jobs."""
    table = TableSection(
        "jobs",
        "Jobs",
        lambda request: job_table(workspace, request),
        empty="No jobs were loaded yet: skipjack load does it.",
        main=True,
        shown=JOBS_SHOWN,
    )
    workspace.store  # noqa: B018  (a page that cannot be read is an error page)
    return PageContent("Jobs", [table])


def job(workspace: Workspace, call: PageCall) -> PageContent:
    """One job."""
    page = job_page(workspace, job_number(call.name("id")))
    row = page.row
    sections: list[Section] = [
        FactSection(
            "now",
            "Now",
            [
                Fact("trials", f"{row.trials} of {row.budget}"),
                Fact("failed trials", row.failed_trials, "count"),
                Fact("first", row.first_ns, "ns"),
                Fact("best", row.best_ns, "ns"),
                Fact("gain", row.gain, "ratio", help="How many times as fast as its first config"),
                Fact("device time", row.device_seconds, "s"),
            ],
            large=True,
        ),
        FactSection("plan", "Plan", _plan(page)),
    ]
    if page.result:
        sections.append(FactSection("result", "Result", _result(page.result)))
    if page.events:
        figure = _history_figure(page.events, time())
        sections.append(FigureSection("history", figure))
    sections += [
        TableSection(
            "searches",
            "Searches",
            lambda request: table_of(
                "searches", _search_columns(row.problem), page.searches, request
            ),
            empty="Nothing was tried yet.",
        ),
        *_logs(workspace, row.id),
        TableSection(
            "events",
            "Events",
            lambda request: table_of("events", EVENT_COLUMNS, page.events, request),
            empty="Nobody has worked on it yet.",
            rows=200,
        ),
    ]
    links = [PageLink(row.label, label_path(row.label))]
    actions = [PageLink("Reset …", f"/actions/job/{row.id}/reset")] if call.may_act else []
    return PageContent(
        f"Job {row.id}",
        sections,
        (JOBS, *links),
        lead=row.reason,
        actions=actions,
        badge=row.state,
        refresh_s=_FAST_S if page.running else 5,
    )


def _history_figure(events: Sequence[JobEvent], now: float) -> TimelineFigure:
    """The states of a job one after another, by round."""
    rows: dict[str, list[TimelineSpan]] = {}
    times = [seconds_of(one.at) or now for one in events]
    seen = set()
    for event, start, end in zip(events, times, [*times[1:], now], strict=True):
        after = JobState(event.after)
        said = " ".join(filter(None, (after.replace("_", " "), event.machine, event.gpu)))
        again = f"epoch {event.epoch + 1}, " if event.epoch else ""
        # What is over stays so: its span would be longer than all others.
        span = TimelineSpan(start, start if after.over else end, said, STATE_KINDS[after])
        rows.setdefault(f"{again}round {event.round + 1}", []).append(span)
        seen.add(after)
    return TimelineFigure(
        "history",
        FigureAxis("time", "time"),
        [TimelineRow(name, spans) for name, spans in rows.items()],
        [(kind, state.replace("_", " ")) for state, kind in STATE_KINDS.items() if state in seen],
    )


def _plan(page: JobPage) -> list[Fact]:
    row = page.row
    facts = [
        Fact("problem", row.problem, link=problem_path(row.problem)),
        Fact("label", row.label, link=label_path(row.label)),
        Fact("device", row.device, help=page.device_class),
        Fact("kind", row.kind),
        Fact("solver", row.solver),
        Fact("searcher", row.searcher),
        Fact("trials in a round", page.round_size, "count"),
        Fact("seed", page.seed),
        Fact("priority", row.priority),
        Fact("built by", row.build_machine, link=_machine(row.build_machine)),
        Fact("evaluated by", row.eval_machine, link=_machine(row.eval_machine)),
        Fact("slot", row.gpu),
        Fact("calls by programs", row.calls, "count"),
        Fact("created", row.created, "time"),
        Fact("updated", row.updated, "time"),
    ]
    return [one for one in facts if one.value not in ("", None)]


def _machine(name: str) -> str | None:
    return machine_path(name) if name else None


def _result(result: Mapping[str, Any]) -> list[Fact]:
    facts = []
    for name, value in result.items():
        if name in _PLAIN_FIELDS:
            continue
        title = name.replace("_", " ")
        if name.endswith("_ns"):
            title = "time" if name == "time_ns" else f"time of the {title.removesuffix(' ns')}"
        if isinstance(value, bool | int | float | str):
            unit = "ns" if name.endswith("_ns") and not isinstance(value, str) else ""
            facts.append(Fact(title, value, "ns" if unit else ""))
        elif isinstance(value, Mapping) and name == "config":
            facts.append(Fact(title, settings_text(value)))
        elif isinstance(value, Mapping):
            facts += [
                Fact(f"{title} over {over}", _gain(gain))
                for over, gain in value.items()
                if isinstance(gain, Mapping)
            ]
        elif isinstance(value, Sequence):
            facts.append(Fact(title, len(value), "count"))
    return facts


def _gain(gain: Mapping[str, Any]) -> str:
    return gain_text(gain.get("ratio"), gain.get("low"), gain.get("high"))


def _search_columns(problem: str) -> tuple[ViewColumn[StoredSearch], ...]:
    return (
        ViewColumn(
            "study",
            "search",
            lambda one: f"{one.job}.{one.study}",
            link=lambda one: search_path(problem, f"{one.job}.{one.study}"),
        ),
        ViewColumn("solver", "solver", lambda one: one.solver),
        ViewColumn("searcher", "searcher", lambda one: one.searcher),
        ViewColumn("trials", "trials", lambda one: one.trials, "count"),
        ViewColumn("failed", "failed", lambda one: one.failed, "count"),
        ViewColumn("best", "best", lambda one: one.best, "ns"),
    )


def _logs(workspace: Workspace, id: int) -> list[Section]:
    found = job_log(workspace, id)
    if not found.parts:
        return [LogSection("log", "Log", "", found.running)]
    return [
        LogSection(
            f"log-{place}",
            f"Log of round {part.round + 1}: {part.stage} on {part.machine or 'a machine'}",
            part.text,
            part.running,
            note="It grows while the job is in work." if part.running else "",
        )
        for place, part in enumerate(found.parts)
    ]
