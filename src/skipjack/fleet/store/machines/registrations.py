"""Machines as people register them. One that is disabled gets no jobs, whenever it turns up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select, update

from skipjack.errors import UsageError
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.store.jobs.labels import unknown
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import insert_new

_LONGEST = 255
_table = tables.registrations
AFRESH: Mapping[str, Any] = {"set_aside": "", "failures": 0, "losses": 0, "paused_until": 0.0}
"""Columns of a machine that may work again, whatever happened there."""


def add(connection: Connection, one: Registration, *, replace: bool = False) -> bool:
    """Write it down; whether it replaced another, which keeps whether it is enabled."""
    row = {
        "host": one.host,
        "port": one.port,
        "login": one.user,
        "device": one.device,
        "gpus": one.gpus,
        "remarks": one.remarks,
        "python": one.python,
    }
    now = clock.read(connection)
    fresh = {"name": one.name, "enabled": one.enabled, "disabled_why": "", "created": now, **row}
    if insert_new(connection, _table, [fresh]):
        return False
    if not replace:
        there = registration(connection, one.name)
        raise UsageError(
            f"there is a machine {there.place} already; add --replace to register it anew, or "
            "choose another name"
        )
    connection.execute(update(_table).where(_table.c.name == one.name).values(row))
    return True


def registrations(connection: Connection, *, enabled_only: bool = False) -> list[Registration]:
    """All of them by name, or those that are in use."""
    query = select(_table).order_by(_table.c.name)
    if enabled_only:
        query = query.where(_table.c.enabled.is_(True))
    return [_registration(row) for row in connection.execute(query).mappings()]


def registration(connection: Connection, name: str) -> Registration:
    """That of this name; `UsageError` that names near ones if there is none."""
    row = connection.execute(select(_table).where(_table.c.name == name)).mappings().first()
    if row is None:
        names = connection.execute(select(_table.c.name)).scalars()
        raise unknown("machine", name, names, "skipjack machine add registers one")
    return _registration(row)


def remove(connection: Connection, names: Iterable[str]) -> list[Registration]:
    """Forget them, all or none; what they were. A worker there is no concern of this."""
    gone = [registration(connection, name) for name in _once(names)]
    for one in gone:
        connection.execute(delete(_table).where(_table.c.name == one.name))
    return gone


def enable(connection: Connection, names: Iterable[str]) -> list[str]:
    """Let machines have jobs again, also those that were set aside for their failures."""
    return _change(
        connection,
        names,
        {"enabled": True, "disabled_why": ""},
        AFRESH,
    )


def disable(connection: Connection, names: Iterable[str], why: str) -> list[str]:
    """Give machines no further jobs; `why` is what people are told. What runs there is finished."""
    reason = why[:_LONGEST]
    return _change(
        connection, names, {"enabled": False, "disabled_why": reason}, {"set_aside": reason}
    )


def _change(
    connection: Connection,
    names: Iterable[str],
    ours: Mapping[str, Any],
    workers: Mapping[str, Any],
) -> list[str]:
    """Change registrations, then the machines of these names that ever worked."""
    found = [registration(connection, name).name for name in _once(names)]
    for name in found:
        connection.execute(update(_table).where(_table.c.name == name).values(ours))
    machine = tables.machines
    there = machine.c.name.in_(found)
    # In the order of their ids, as all who lock machines do.
    connection.execute(select(machine.c.id).where(there).order_by(machine.c.id).with_for_update())
    connection.execute(update(machine).where(there).values(workers))
    return found


def why_disabled(connection: Connection, name: str) -> str:
    """Why a machine must not have jobs; empty if it may, or nobody registered it.

    That stays so until the transaction ends: who is about to disable it waits. To be asked before
    the machine itself is locked.
    """
    mine = select(_table.c.enabled, _table.c.disabled_why).where(_table.c.name == name)
    row = connection.execute(mine.with_for_update(read=True)).first()
    return "" if row is None or row.enabled else (row.disabled_why or "disabled")


def is_aborted(connection: Connection, name: str) -> bool:
    """Whether somebody stopped this machine, perhaps before it was ever seen."""
    mine = select(_table.c.aborted).where(_table.c.name == name)
    return bool(connection.execute(mine).scalar())


def note_abort(connection: Connection, name: str, aborted: bool) -> None:
    """Remember it for when the machine turns up; nothing for one that nobody registered.

    Who is about to disable it, or to note that it turned up, waits until the transaction ends.
    """
    connection.execute(update(_table).where(_table.c.name == name).values(aborted=aborted))


def _once(names: Iterable[str]) -> Sequence[str]:
    # In order, as all who lock rows do.
    return sorted(set(names))


def _registration(row: RowMapping) -> Registration:
    return Registration(
        row["name"],
        row["host"],
        row["port"],
        row["login"],
        row["device"],
        row["gpus"],
        bool(row["enabled"]),
        row["remarks"],
        row["python"],
        row["disabled_why"],
        bool(row["aborted"]),
    )
