"""State changes of jobs, which happen only here: read rows, `advance`, write rows and history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from skipjack.fleet.model import Event, JobStage, JobState, JobStatus, Reset, advance
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import update_and_insert

JobRow = Row[Any]
"""A job's row as `locked` reads it."""

LONGEST_REASON = 2000
"""Characters kept of a reason; the log has all of it."""

LONGEST_GPU = 64
"""Characters kept of a slot's name."""

# The device's record is long, and rarely needed.
_READ = frozenset(column.name for column in tables.jobs.c) - {"device_record"}
_STATUS_COLUMNS = frozenset(
    ("id", "state", "epoch", "round", "failures", "losses", "stage", "reason", "resume", "attempt")
)
_STARTED_OVER: Mapping[str, Any] = {
    "trials": 0,
    "failed_trials": 0,
    "best_ns": None,
    "result": None,
    "toolchain": "",
    "device_record": None,
    "first_ns": None,
    "trial_limit": None,
}
"""Results of an epoch, which are cleared at its end; its rounds and its history stay."""


@dataclass(frozen=True, slots=True)
class Transition:
    """An event of a job whose row is locked."""

    row: JobRow
    event: Event
    machine: int | None = None
    gpu: str = ""
    owner: str | None = None
    """The owner of the job afterwards."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other columns to change."""


def select_jobs(*names: str) -> Select[Any]:
    """A query of jobs with the columns for any transition, and the database's time as ``now``.

    With `names`, only the columns of the status and these: a column costs some drivers as much as
    a row.
    """
    wanted = _STATUS_COLUMNS.union(names) if names else _READ
    columns = [column for column in tables.jobs.c if column.name in wanted]
    return select(*columns, clock.now().label("now"))


def locked(connection: Connection, *conditions: Any) -> Sequence[JobRow]:
    """The jobs that meet the conditions, locked in the order of their ids, as everywhere."""
    ordered = select_jobs().where(*conditions).order_by(tables.jobs.c.id)
    return connection.execute(ordered.with_for_update()).all()


def job_status(row: JobRow) -> JobStatus:
    """The status of a job."""
    return JobStatus(
        JobState(row.state),
        row.epoch,
        row.round,
        row.failures,
        row.losses,
        JobStage(row.stage) if row.stage else None,
        row.reason,
        JobState(row.resume) if row.resume else None,
    )


def worked_on(row: JobRow) -> tuple[int | None, str]:
    """The machine and the slot that work on the job, if any."""
    if row.state == JobState.BUILDING:
        return row.build_machine, ""
    if row.state == JobState.EVALUATING:
        return row.eval_machine, row.gpu
    return None, ""


def device_time_until(rows: Iterable[JobRow], until: float | None = None) -> dict[int, float]:
    """The device time of jobs since they began for the last time, with that of their evaluation.

    A slot evaluates one job after another, so that it counts from the first one that it was given.
    `until` is when it ended; None: now.
    """
    first: dict[tuple[int, str], JobRow] = {}
    for row in rows:
        if row.state == JobState.EVALUATING:
            slot = row.eval_machine, row.gpu
            if slot not in first or row.updated < first[slot].updated:
                first[slot] = row
    return {
        row.id: row.device_seconds
        + max(0.0, (row.now if until is None else min(row.now, until)) - row.updated)
        for row in first.values()
    }


def leaving(rows: Sequence[JobRow], event: Event, until: float | None = None) -> list[Transition]:
    """Steps of jobs that nobody works on any more; the device time until then counts."""
    used = device_time_until(rows, until)
    return [
        Transition(
            row,
            event,
            *worked_on(row),
            changes={"device_seconds": used[row.id]} if row.id in used else {},
        )
        for row in rows
    ]


def apply(connection: Connection, steps: Sequence[Transition]) -> list[JobStatus]:
    """Apply events to jobs, and add them to their histories; returns the new statuses.

    `IllegalStepError` before anything is written if one of the events is impossible.
    """
    if not steps:
        return []
    afterwards = [_after(step) for step in steps]
    pairs = list(zip(steps, afterwards, strict=True))
    changing = _changing(pairs)
    rows = [_row(*pair, changing) for pair in pairs]
    update_and_insert(
        connection, tables.jobs, rows, tables.history, [_line(*pair) for pair in pairs]
    )
    return afterwards


def storable_text(text: str) -> str:
    """The text without characters that a database cannot store: NUL, and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _after(step: Transition) -> JobStatus:
    return advance(job_status(step.row), step.event)


def _changing(pairs: Iterable[tuple[Transition, JobStatus]]) -> tuple[str, ...]:
    """The columns outside the status that any of the transitions changes."""
    names = {name for step, after in pairs for name in _changes(step, after)}
    return tuple(sorted(names))


def _changes(step: Transition, after: JobStatus) -> Mapping[str, Any]:
    return step.changes if after.epoch == step.row.epoch else _STARTED_OVER


def _row(step: Transition, after: JobStatus, changing: tuple[str, ...]) -> dict[str, Any]:
    row, changes = step.row, _changes(step, after)
    values = {
        "id": row.id,
        "state": str(after.state),
        "epoch": after.epoch,
        "round": after.round,
        "failures": after.failures,
        "losses": after.losses,
        "stage": None if after.stage is None else str(after.stage),
        "reason": _kept(after.reason, after.state),
        "resume": None if after.resume is None else str(after.resume),
        "owner": step.owner,
        "updated": row.now,
    }
    for name in changing:
        values[name] = changes[name] if name in changes else getattr(row, name)
    return values


def _line(step: Transition, after: JobStatus) -> dict[str, Any]:
    row = step.row
    return {
        "job": row.id,
        "at": row.now,
        "event": event_name(step.event),
        "before": row.state,
        "after": str(after.state),
        "epoch": row.epoch,
        "round": row.round,
        "attempt": step.changes.get("attempt", row.attempt),
        "machine": step.machine,
        "gpu": step.gpu,
        "reason": _kept(_reason(step.event), after.state),
    }


def _kept(reason: str, state: JobState) -> str:
    if not reason:
        return "no reason was given" if state is JobState.ERROR else ""
    return storable_text(reason)[:LONGEST_REASON]


def event_name(event: Event) -> str:
    """The name of an event in the history."""
    return type(event).__name__.lower()


def _reason(event: Event) -> str:
    if isinstance(event, Reset):
        return f"to {event.to} by {event.by}" if event.by else f"to {event.to}"
    return getattr(event, "reason", "")
