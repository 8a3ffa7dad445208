"""Stop, go on, start over: what people tell whole labels, devices and machines.

A stop is a flag that lasts until it is taken back, so that jobs which are loaded later wait too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Table, select, update

from skipjack.errors import UsageError
from skipjack.fleet.records import Kind
from skipjack.fleet.states import (
    Aborted,
    Event,
    IllegalStepError,
    Released,
    Reset,
    Resumed,
    State,
    advance,
)
from skipjack.fleet.store import labels, registrations, tables, transitions
from skipjack.fleet.store.bulk import among_thousands, chunks
from skipjack.fleet.store.kinds import of_kind
from skipjack.fleet.store.near import unknown
from skipjack.fleet.store.problems import digest_of, ids_of
from skipjack.fleet.store.transitions import JobRow, Step, worked_on

_GOING = [str(state) for state in State if state.going]


@dataclass(frozen=True, slots=True)
class ResetCount:
    """What came of a reset."""

    reset: int
    refused: int = 0
    reasons: tuple[str, ...] = ()
    """Why, each once."""


def abort(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
    reason: str = "",
) -> int:
    """Stop one label, device or machine until it is resumed; how many jobs that stopped.

    Jobs of a label or a device are aborted. Those that a machine works on are given back.
    """
    column, name = _one(label, device, machine)
    _must_exist(connection, column, name)
    why = reason or f"{column.table.name[:-1]} {name} was aborted"
    if machine is not None:
        return _stop_machine(connection, machine, why)
    _flag(connection, column, name, aborted=True)
    rows = transitions.locked(connection, _of(column, name), tables.jobs.c.state.in_(_GOING))
    return _all(connection, rows, Aborted(why))


def resume(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
) -> int:
    """Let one label, device or machine go on; how many jobs do so now.

    A job that was stopped for its label and its device waits for both. A machine that was set
    aside starts afresh.
    """
    column, name = _one(label, device, machine)
    _must_exist(connection, column, name)
    if machine is not None and registrations.why_disabled(connection, machine):
        raise UsageError(f"{machine} is disabled; skipjack machine enable {machine} puts it back")
    _flag(connection, column, name, aborted=False)
    if machine is not None:
        return 0
    job = tables.jobs.c
    halted = select(tables.labels.c.id).where(tables.labels.c.aborted.is_(True))
    stopped = select(tables.devices.c.name).where(tables.devices.c.aborted.is_(True))
    rows = transitions.locked(
        connection,
        _of(column, name),
        job.state == str(State.ABORTED),
        job.label.not_in(halted),
        job.device.not_in(stopped),
    )
    return _all(connection, rows, Resumed())


def reset(
    connection: Connection,
    label: str,
    state: State,
    to: State,
    *,
    device: str | None = None,
    kind: Kind | None = None,
    problems: Collection[str] | None = None,
) -> ResetCount:
    """Set a label's jobs in a state back: of one device, one kind, some problems if named."""
    job = tables.jobs.c
    conditions = [job.label == labels.id_of(connection, label), job.state == str(state)]
    if device is not None:
        _must_exist(connection, tables.devices.c.name, device)
        conditions.append(job.device == device)
    if kind is not None:
        conditions.append(of_kind(kind))
    if problems is not None:
        ids = list(ids_of(connection, map(digest_of, problems)).values())
        conditions.append(among_thousands(connection, job.problem, ids))
    rows = transitions.locked(connection, *conditions)
    event = Reset(to)
    legal, reasons = [], Counter[str]()
    for row in rows:
        try:
            advance(transitions.standing(row), event)
        except IllegalStepError as error:
            reasons[str(error)] += 1
        else:
            legal.append(row)
    return ResetCount(_all(connection, legal, event), reasons.total(), tuple(sorted(reasons)))


def _one(label: str | None, device: str | None, machine: str | None) -> tuple[Column[str], str]:
    """Which column holds the name that was given."""
    given = [
        (table.c.name, name)
        for table, name in (
            (tables.labels, label),
            (tables.devices, device),
            (tables.machines, machine),
        )
        if name is not None
    ]
    if len(given) != 1:
        raise UsageError("name one label, one device or one machine")
    return given[0]


def _must_exist(connection: Connection, column: Column[str], name: str) -> None:
    if connection.execute(select(column).where(column == name)).scalar() is None:
        kind = column.table.name[:-1]
        names = connection.execute(select(column)).scalars()
        raise unknown(kind, name, names, "load jobs and run them first")


def _flag(connection: Connection, column: Column[str], name: str, *, aborted: bool) -> None:
    changes: dict[str, Any] = {"aborted": aborted}
    if column.table is tables.machines and not aborted:
        changes |= {"set_aside": "", "failures": 0}
    table = column.table
    assert isinstance(table, Table)
    connection.execute(update(table).where(column == name).values(changes))


def _of(column: Column[str], name: str) -> Any:
    """The jobs of a label or a device."""
    if column.table is tables.devices:
        return tables.jobs.c.device == name
    return tables.jobs.c.label == select(tables.labels.c.id).where(column == name).scalar_subquery()


def _stop_machine(connection: Connection, name: str, reason: str) -> int:
    machine, job = tables.machines.c, tables.jobs.c
    id = select(machine.id).where(machine.name == name).scalar_subquery()
    building = (job.state == str(State.BUILDING)) & (job.build_machine == id)
    evaluating = (job.state == str(State.EVALUATING)) & (job.eval_machine == id)
    # Jobs first, as who settles does. Claims that are under way hold the machine: once it is ours
    # they are done, and what they took is given back too.
    before = transitions.locked(connection, building | evaluating)
    given_back = _all(connection, before, Released(reason))
    _flag(connection, machine.name, name, aborted=True)
    later = transitions.locked(connection, building | evaluating)
    return given_back + _all(connection, later, Released(reason))


def _all(connection: Connection, rows: Sequence[JobRow], event: Event) -> int:
    for chunk in chunks(rows):
        transitions.take(connection, [Step(row, event, *worked_on(row)) for row in chunk])
    return len(rows)
