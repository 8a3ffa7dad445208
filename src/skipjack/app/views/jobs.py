"""Jobs: their table, one of them with its history, and its log as it grows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.links import job_path, label_path, machine_path, problem_path
from skipjack.app.views.tables import (
    RecordTable,
    RowsByKey,
    TableRequest,
    ViewColumn,
    check_request,
)
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.fleet.model import LONGEST_LOG, JobEvent
from skipjack.fleet.store import (
    JOB_FILTERS,
    JOB_SORTS,
    JobSummary,
    LoggedAttempt,
    LogText,
    RowPage,
    StoredSearch,
)
from skipjack.reading import whole_number


def _column(
    name: str, title: str, unit: Any = "", link: Any = lambda _: None, field: str = ""
) -> ViewColumn[JobSummary]:
    return ViewColumn(
        name,
        title,
        lambda one: getattr(one, field or name),
        unit,
        sortable=name in JOB_SORTS,
        filterable=name in JOB_FILTERS,
        link=link,
    )


JOB_COLUMNS: tuple[ViewColumn[JobSummary], ...] = (
    _column("id", "job", link=lambda one: job_path(one.id)),
    _column("label", "label", link=lambda one: label_path(one.label)),
    _column("problem", "problem", link=lambda one: problem_path(one.problem)),
    _column("operation", "operation"),
    _column("device", "device"),
    _column("state", "state"),
    _column("kind", "kind"),
    _column("solver", "solver"),
    _column("searcher", "searcher"),
    _column("trials", "trials", "count"),
    _column("budget", "of", "count"),
    _column("failed_trials", "failed", "count"),
    _column("first_ns", "first", "ns"),
    _column("best_ns", "best", "ns"),
    _column("gain", "gain", "ratio"),
    _column("stage", "stage"),
    _column("reason", "reason"),
    _column("retries", "retries", "count"),
    _column("priority", "priority", "count"),
    _column(
        "machine",
        "machine",
        field="eval_machine",
        link=lambda one: machine_path(one.eval_machine) if one.eval_machine else None,
    ),
    _column("build_machine", "built by"),
    _column("gpu", "GPU"),
    _column("device_seconds", "device time", "s"),
    _column("created", "created", "time"),
    _column("updated", "updated", "time"),
)


def job_table(workspace: Workspace, request: TableRequest) -> RecordTable[JobSummary]:
    """A page of jobs, the newest first."""
    check_request(request, JOB_COLUMNS)
    browsing = workspace.store.browsing
    if request.whole:
        ids = browsing.job_ids(row_page(request))
        rows_by_id = RowsByKey(ids, lambda some: workspace.store.browsing.jobs_of(some))
        return RecordTable("jobs", JOB_COLUMNS, rows_by_id, len(ids), request)
    rows, total = browsing.jobs(row_page(request))
    return RecordTable("jobs", JOB_COLUMNS, rows, total, request)


def row_page(request: TableRequest) -> RowPage:
    """The request for a table that a database reads."""
    limit = None if request.whole else request.size
    return RowPage(request.sort, request.descending, request.filters, request.offset, limit)


@dataclass(frozen=True, slots=True)
class JobPage:
    """A job: its plan, its history, its searches and its verdict."""

    row: JobSummary
    seed: int
    round_size: int
    device_class: str
    result: Mapping[str, Any] | None
    """The verdict, once there is one: outcome, solver, config, times and gains; for a find, the
    ranking."""
    events: Sequence[JobEvent]
    searches: Sequence[StoredSearch]

    @property
    def running(self) -> bool:
        """Whether a worker has it."""
        return self.row.state in ("building", "evaluating")


def job_number(text: str) -> int:
    """The number of a job; `UnknownNameError` if no job can have it."""
    try:
        found = whole_number(text)
    except ValueError:
        found = 0
    if not 0 < found < 2**63:  # drivers refuse larger numbers
        raise UnknownNameError(f"{text[:40]!r} is not the number of a job")
    return found


def job_page(workspace: Workspace, id: int) -> JobPage:
    """A job; `UnknownNameError` if there is none."""
    store = workspace.store
    row = store.browsing.job(id)
    if row is None:
        raise UnknownNameError(f"there is no job {id}; skipjack status lists the jobs")
    job = store.jobs.get(id)
    return JobPage(
        row=row,
        seed=job.plan.seed,
        round_size=job.plan.round,
        device_class=job.device_class,
        result=job.result,
        events=store.jobs.history(id),
        searches=store.browsing.searches_of_job(id),
    )


# Logs, which grow while a job is in work.


@dataclass(frozen=True, slots=True)
class LogPart:
    """The log of one attempt at a stage, or its end."""

    key: str
    """Names the attempt: ``epoch.round.stage.attempt``."""
    stage: str
    round: int
    attempt: int
    machine: str
    at: float | None
    """When it was stored, in seconds since 1970."""
    text: str
    replaces: bool
    """Whether the text replaces what was read of this attempt; otherwise it continues it."""
    running: bool


@dataclass(frozen=True, slots=True)
class LogTail:
    """What is new in the logs of a job."""

    parts: Sequence[LogPart]
    cursor: str
    """Give it to the next call, which returns what was added since."""
    running: bool
    """Whether more is to come."""


_CURSOR = re.compile(r"[0-9]{1,18}\.[0-9]{1,18}\.[a-z]+\.[0-9]{1,18}~[0-9]{1,18}", re.ASCII)


def job_log(workspace: Workspace, id: int, cursor: str = "") -> LogTail:
    """The logs of a job, or what was added since a call that returned the cursor."""
    store = workspace.store
    row = store.browsing.job(id)
    if row is None:
        raise UnknownNameError(f"there is no job {id}; skipjack status lists the jobs")
    key, _, count = cursor.rpartition("~") if _CURSOR.fullmatch(cursor) else ("", "", "")
    texts = store.jobs.log(id, _attempt(key) if key else None)
    keys = [_key(one) for one in texts]
    begin = keys.index(key) if key in keys else 0
    read = int(count) if key in keys else 0
    parts = [
        _part(one, read if place == 0 and key in keys else None)
        for place, one in enumerate(texts[begin:])
    ]
    parts = [one for one in parts if one.text or one.replaces]
    end = f"{keys[-1]}~{len(texts[-1].text)}" if texts else ""
    return LogTail(parts, end, row.state in ("building", "evaluating"))


def _key(one: LogText) -> str:
    return f"{one.epoch}.{one.round}.{one.stage}.{one.attempt}"


def _attempt(key: str) -> LoggedAttempt:
    epoch, round, stage, attempt = key.split(".")
    return LoggedAttempt(int(epoch), int(round), stage, int(attempt))


def _part(one: LogText, read: int | None) -> LogPart:
    # Of a log of full length only the end is kept, so that places in it move.
    follows = read is not None and read <= len(one.text) < LONGEST_LOG
    return LogPart(
        _key(one),
        str(one.stage),
        one.round,
        one.attempt,
        one.machine,
        seconds_of(one.at),
        one.text[read:] if follows else one.text,
        not follows,
        one.running,
    )
