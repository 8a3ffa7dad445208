"""Abort and resume labels, devices, architectures and machines; reset jobs.

An abort is a flag that lasts until it is resumed, so that jobs that are loaded later wait, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, or_, select, update

from skipjack.errors import UsageError
from skipjack.fleet.model import (
    Aborted,
    Event,
    IllegalStepError,
    JobKind,
    JobState,
    Released,
    Reset,
    Resumed,
    advance,
)
from skipjack.fleet.store.catalog import actions, devices, labels, registrations
from skipjack.fleet.store.catalog.devices import devices_of_arch
from skipjack.fleet.store.catalog.labels import unknown_name
from skipjack.fleet.store.jobs import transitions
from skipjack.fleet.store.jobs.problems import digest_of, ids_of
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among_thousands, chunks
from skipjack.reading import numbered

_GOING = [str(state) for state in JobState if state.going]


@dataclass(frozen=True, slots=True)
class ResetCount:
    """The result of a reset."""

    reset: int
    refused: int = 0
    reasons: tuple[str, ...] = ()
    """The different reasons of refusals."""


def abort(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
    arch: str | None = None,
    reason: str = "",
    by: str = "",
) -> int:
    """Abort one label, device, machine or architecture until it is resumed.

    Jobs of a label, device or architecture are aborted. Those that a machine works on are given
    back. Returns the number of these jobs. `by` is who did it, as it is recorded.
    """
    kind, name = _one(label, device, machine, arch)
    why = _why(f"aborted by {by}", reason) if by else reason or f"{kind} {name} was aborted"
    if kind == "machine":
        _must_exist(connection, kind, name)
        count = _stop_machine(connection, name, why)
    else:
        concerned = _flagged(connection, kind, name, aborted=True)
        rows = transitions.locked(connection, concerned, tables.jobs.c.state.in_(_GOING))
        count = _all(connection, rows, Aborted(why))
    actions.note(connection, by, "abort", kind, name, jobs=count, reason=reason)
    return count


def resume(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
    arch: str | None = None,
    reason: str = "",
    by: str = "",
) -> int:
    """Resume one label, device, machine or architecture; returns the number of resumed jobs.

    A job whose label and device were both aborted waits for both. The failures of a quarantined
    machine are cleared.
    """
    kind, name = _one(label, device, machine, arch)
    if kind == "machine":
        _must_exist(connection, kind, name)
        _resume_machine(connection, name)
        actions.note(connection, by, "resume", kind, name, reason=reason)
        return 0
    concerned = _flagged(connection, kind, name, aborted=False)
    job = tables.jobs.c
    halted = select(tables.labels.c.id).where(tables.labels.c.aborted.is_(True))
    stopped = select(tables.devices.c.name).where(tables.devices.c.aborted.is_(True))
    rows = transitions.locked(
        connection,
        concerned,
        job.state == str(JobState.ABORTED),
        job.label.not_in(halted),
        job.device.not_in(stopped),
    )
    count = _all(connection, rows, Resumed(_why(f"resumed by {by}", reason) if by else reason))
    actions.note(connection, by, "resume", kind, name, jobs=count, reason=reason)
    return count


_NAMED_JOBS = 5
"""Up to so many jobs are named in the record of a reset."""


def _why(deed: str, reason: str) -> str:
    return f"{deed}: {reason}" if reason else deed


def reset(
    connection: Connection,
    label: str,
    state: JobState,
    to: JobState,
    *,
    device: str | None = None,
    kind: JobKind | None = None,
    problems: Collection[str] | None = None,
    jobs: Collection[int] | None = None,
    by: str = "",
) -> ResetCount:
    """Reset a label's jobs in a state; `device`, `kind`, `problems` and `jobs` restrict them."""
    job = tables.jobs.c
    conditions = [job.label == labels.id_of(connection, label), job.state == str(state)]
    if device is not None:
        _must_exist(connection, "device", device)
        conditions.append(job.device == device)
    if kind is not None:
        conditions.append(tables.jobs.c.kind == str(kind))
    if problems is not None:
        ids = list(ids_of(connection, map(digest_of, problems)).values())
        conditions.append(among_thousands(connection, job.problem, ids))
    if jobs is not None:
        conditions.append(among_thousands(connection, job.id, list(jobs)))
    rows = transitions.locked(connection, *conditions)
    event = Reset(to, by)
    legal, reasons = [], Counter[str]()
    for row in rows:
        try:
            advance(transitions.job_status(row), event)
        except IllegalStepError as error:
            reasons[str(error)] += 1
        else:
            legal.append(row)
    count = _all(connection, legal, event)
    said = f"{state} to {to}" + (f" on {device}" if device else "")
    if jobs is not None and len(jobs) <= _NAMED_JOBS:
        said += f", job {', '.join(map(str, sorted(jobs)))}"
    if reasons:
        said += f"; {numbered(reasons.total(), 'job')} left unchanged"
    actions.note(connection, by, "reset", "label", label, jobs=count, reason=said)
    return ResetCount(count, reasons.total(), tuple(sorted(reasons)))


def _one(
    label: str | None, device: str | None, machine: str | None, arch: str | None
) -> tuple[str, str]:
    """The kind and the name of the one argument that is given."""
    named = {"label": label, "device": device, "machine": machine, "architecture": arch}
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) != 1:
        raise UsageError("name one label, one device, one machine or one architecture")
    return given[0]


_TABLES: Mapping[str, Sequence[Table]] = {
    "label": (tables.labels,),
    "device": (tables.devices,),
    "machine": (tables.machines, tables.registrations),
}


def _must_exist(connection: Connection, kind: str, name: str) -> None:
    columns = [table.c.name for table in _TABLES[kind]]
    names = {one for column in columns for one in connection.execute(select(column)).scalars()}
    if name not in names:
        raise unknown_name(kind, name, names, _OTHERWISE[kind])


_OTHERWISE = {
    "label": "load jobs first",
    "device": "load jobs for it first",
    "machine": "register one with skipjack machine add, or start a run on it",
}


def _flagged(connection: Connection, kind: str, name: str, *, aborted: bool) -> Any:
    """Set the flag; returns the condition for the jobs that it concerns."""
    job = tables.jobs.c
    if kind == "architecture":
        devices.check_architecture(connection, name)
        return job.device.in_(devices.flag_architecture(connection, name, aborted=aborted))
    _must_exist(connection, kind, name)
    (table,) = _TABLES[kind]
    connection.execute(update(table).where(table.c.name == name).values(aborted=aborted))
    if kind == "device":
        return job.device == name
    return job.label == labels.id_of(connection, name)


def _stop_machine(connection: Connection, name: str, reason: str) -> int:
    machine, job = tables.machines.c, tables.jobs.c
    id = select(machine.id).where(machine.name == name).scalar_subquery()
    building = (job.state == str(JobState.BUILDING)) & (job.build_machine == id)
    evaluating = (job.state == str(JobState.EVALUATING)) & (job.eval_machine == id)
    # Jobs before machines, in the order in which results lock them. Running claims lock the
    # machine: after them, the jobs that they took are given back, too.
    before = transitions.locked(connection, building | evaluating)
    given_back = _all(connection, before, Released(reason))
    registrations.note_abort(connection, name, True)
    connection.execute(update(tables.machines).where(machine.name == name).values(aborted=True))
    later = transitions.locked(connection, building | evaluating)
    return given_back + _all(connection, later, Released(reason))


def _resume_machine(connection: Connection, name: str) -> None:
    # Before the shared lock of `why_disabled`, which two processes would deadlock on.
    registrations.note_abort(connection, name, False)
    if registrations.why_disabled(connection, name):
        raise UsageError(f"{name} is disabled; enable it with skipjack machine enable {name}")
    afresh = {"aborted": False, **registrations.CLEARED}
    machine = tables.machines
    connection.execute(update(machine).where(machine.c.name == name).values(afresh))


def _all(connection: Connection, rows: Sequence[JobRow], event: Event) -> int:
    for chunk in chunks(rows):
        transitions.apply(connection, transitions.leaving(chunk, event))
    return len(rows)


def touched(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
    arch: str | None = None,
) -> list[tuple[str, str]]:
    """Labels with unfinished jobs that an abort would affect, and their owners."""
    jobs, labels, machines = tables.jobs.c, tables.labels.c, tables.machines.c
    query = (
        select(labels.name, labels.owner)
        .distinct()
        .select_from(tables.jobs.join(tables.labels, jobs.label == labels.id))
        .where(jobs.state.in_(_GOING))
        .order_by(labels.name)
    )
    if label is not None:
        query = select(labels.name, labels.owner).where(labels.name == label)
    if device is not None:
        query = query.where(jobs.device == device)
    if arch is not None:
        query = query.where(jobs.device.in_(devices_of_arch(connection, arch)))
    if machine is not None:
        here = select(machines.id).where(machines.name == machine).scalar_subquery()
        query = query.where(
            jobs.owner.is_not(None), or_(jobs.build_machine == here, jobs.eval_machine == here)
        )
    return [(str(row.name), str(row.owner)) for row in connection.execute(query)]
