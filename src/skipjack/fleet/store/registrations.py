"""Machines as people register them. One that is disabled gets no jobs, whenever it turns up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, RowMapping, delete, select, update

from skipjack.errors import UsageError
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.store import clock, tables
from skipjack.fleet.store.bulk import insert_new
from skipjack.fleet.store.near import unknown

_LONGEST = 255
_table = tables.registrations


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
    found = [registration(connection, name).name for name in _once(names)]
    machine = tables.machines
    for name in found:
        changes = {"enabled": True, "disabled_why": ""}
        connection.execute(update(_table).where(_table.c.name == name).values(changes))
        afresh = {"set_aside": "", "failures": 0}
        connection.execute(update(machine).where(machine.c.name == name).values(afresh))
    return found


def disable(connection: Connection, names: Iterable[str], why: str) -> list[str]:
    """Give machines no further jobs; `why` is what people are told. What runs there is finished."""
    found = [registration(connection, name).name for name in _once(names)]
    reason = why[:_LONGEST]
    machine = tables.machines
    for name in found:
        changes = {"enabled": False, "disabled_why": reason}
        connection.execute(update(_table).where(_table.c.name == name).values(changes))
        aside = {"set_aside": reason}
        connection.execute(update(machine).where(machine.c.name == name).values(aside))
    return found


def why_disabled(connection: Connection, name: str) -> str:
    """Why a machine must not have jobs; empty if it may, or nobody registered it."""
    off = _table.c.enabled.is_(False)
    found = connection.execute(select(_table.c.disabled_why).where(_table.c.name == name, off))
    why = found.scalar()
    return "" if why is None else (why or "disabled")


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
    )
