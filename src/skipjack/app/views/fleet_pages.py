"""The fleet: the overview of all jobs, and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from skipjack.app.views.links import jobs_path, label_path
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.errors import UsageError
from skipjack.fleet.model import DeviceTime, JobState, Label
from skipjack.fleet.store import (
    ErrorGroup,
    LabelSummary,
    StateTimeline,
    Throughput,
)

# All jobs of the fleet, or those of a label.


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A label in tables. Times are seconds since 1970."""

    name: str
    owner: str
    ticket: str
    image: str
    versions: str
    aborted: bool
    """Whether its jobs wait until it is resumed."""
    created: float | None
    jobs: int
    """All its jobs."""
    open: int
    """Jobs that wait or are in work."""
    working: int
    """Jobs that workers have."""
    evaluated: int
    errors: int
    by_state: Mapping[str, int]

    @property
    def done(self) -> float:
        """The share of jobs that are over."""
        over = sum(self.by_state.get(str(state), 0) for state in JobState if state.over)
        return over / self.jobs if self.jobs else 0.0


LABEL_COLUMNS: tuple[ViewColumn[LabelRow], ...] = (
    ViewColumn(
        "name",
        "label",
        lambda one: one.name,
        filterable=True,
        link=lambda one: label_path(one.name),
    ),
    ViewColumn("owner", "owner", lambda one: one.owner, filterable=True),
    ViewColumn("ticket", "ticket", lambda one: one.ticket, filterable=True),
    ViewColumn(
        "jobs", "jobs", lambda one: one.jobs, "count", link=lambda one: jobs_path(label=one.name)
    ),
    ViewColumn("done", "done", lambda one: one.done, "share"),
    ViewColumn("working", "in work", lambda one: one.working, "count"),
    ViewColumn("open", "open", lambda one: one.open, "count"),
    ViewColumn(
        "errors",
        "errors",
        lambda one: one.errors,
        "count",
        link=lambda one: jobs_path(label=one.name, state="error"),
    ),
    ViewColumn("aborted", "aborted", lambda one: one.aborted),
    ViewColumn("created", "created", lambda one: one.created, "time"),
)


@dataclass(frozen=True, slots=True)
class FleetPage:
    """All jobs of the fleet."""

    store: str
    """The database, without its password."""
    by_state: Mapping[str, int]
    """The number of jobs by state, in the order in which jobs pass them."""
    timeline: StateTimeline
    throughput: Throughput
    errors: Sequence[ErrorGroup]
    labels: RecordTable[LabelRow]
    machines: int
    working_machines: int

    @property
    def jobs(self) -> int:
        """All jobs."""
        return sum(self.by_state.values())


def fleet_page(workspace: Workspace, request: TableRequest | None = None) -> FleetPage:
    """The overview of the fleet; `request` is that of its table of labels."""
    store = workspace.store
    summaries = store.labels.all()
    by_state: Counter[str] = Counter()
    for one in summaries:
        by_state.update({str(state): count for state, count in one.jobs.items()})
    machines = store.browsing.machines()
    progress = store.browsing.progress()
    return FleetPage(
        store=store.url_for_people,
        by_state=_in_order(by_state),
        timeline=progress.timeline,
        throughput=progress.throughput,
        errors=store.browsing.errors(),
        labels=_label_table(summaries, request or TableRequest()),
        machines=len(machines),
        working_machines=sum(bool(one.building or one.evaluating) for one in machines),
    )


def label_table(workspace: Workspace, request: TableRequest) -> RecordTable[LabelRow]:
    """The table of labels, the newest first."""
    return _label_table(workspace.store.labels.all(), request)


def _label_table(summaries: Sequence[LabelSummary], request: TableRequest) -> RecordTable[LabelRow]:
    rows = [label_row(one) for one in reversed(summaries)]
    return table_of("labels", LABEL_COLUMNS, rows, request)


def label_row(summary: LabelSummary) -> LabelRow:
    """A label as a row."""
    label, jobs = summary.label, summary.jobs
    return LabelRow(
        name=label.name,
        owner=label.owner,
        ticket=label.ticket,
        image=label.image,
        versions=label.versions,
        aborted=summary.aborted,
        created=seconds_of(label.created),
        jobs=sum(jobs.values()),
        open=sum(count for state, count in jobs.items() if state.going),
        working=sum(count for state, count in jobs.items() if state.claimed),
        evaluated=jobs.get(JobState.EVALUATED, 0),
        errors=jobs.get(JobState.ERROR, 0),
        by_state=_in_order({str(state): count for state, count in jobs.items()}),
    )


def seconds_of(timestamp: str) -> float | None:
    """An ISO 8601 time in seconds since 1970; None for an empty text."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else None


def _in_order(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(state): counts[state] for state in JobState if counts.get(state)}


@dataclass(frozen=True, slots=True)
class LabelPage:
    """A label: who made it and for what, and how far its jobs are."""

    row: LabelRow
    label: Label
    by_device: Mapping[str, Mapping[str, int]]
    """The number of jobs by device and state."""
    by_solver: Mapping[str, Mapping[str, int]]
    timeline: StateTimeline
    throughput: Throughput
    errors: Sequence[ErrorGroup]
    device_time: DeviceTime
    toolchains: Mapping[str, Sequence[str]]
    """The toolchains that evaluated its jobs, by device."""


def label_page(workspace: Workspace, name: str) -> LabelPage:
    """A label; `UnknownNameError` with similar names if there is none."""
    store = workspace.store
    try:
        label = store.labels.get(name)
    except UsageError as error:
        raise UnknownNameError(str(error)) from None
    counts = store.jobs.counts(label=name, by=("device", "solver", "state"))
    by_device: dict[str, Counter[str]] = {}
    by_solver: dict[str, Counter[str]] = {}
    states: Counter[JobState] = Counter()
    for (device, solver, state), count in counts:
        by_device.setdefault(device, Counter())[state] += count
        by_solver.setdefault(solver, Counter())[state] += count
        states[JobState(state)] += count
    progress = store.browsing.progress(name)
    summary = LabelSummary(label, store.labels.is_aborted(name), states)
    return LabelPage(
        row=label_row(summary),
        label=label,
        by_device={one: _in_order(found) for one, found in by_device.items()},
        by_solver={one: _in_order(found) for one, found in by_solver.items()},
        timeline=progress.timeline,
        throughput=progress.throughput,
        errors=store.browsing.errors(name),
        device_time=store.labels.device_time(name),
        toolchains=store.labels.toolchains(name),
    )
