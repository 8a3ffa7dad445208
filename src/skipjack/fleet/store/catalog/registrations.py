"""Registrations of machines by the user. A disabled machine gets no jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select, update

from skipjack.errors import UsageError
from skipjack.fleet.model import Registration
from skipjack.fleet.store.catalog import actions
from skipjack.fleet.store.catalog.labels import unknown_name
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import insert_new

_LONGEST = 255
_table = tables.registrations
CLEARED: Mapping[str, Any] = {"set_aside": "", "failures": 0, "losses": 0, "paused_until": 0.0}
"""Columns of a machine whose failures and losses are cleared."""


def add(connection: Connection, one: Registration, *, replace: bool = False) -> bool:
    """Store a registration; returns whether it replaced one, whose enabled state stays."""
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
            f"machine {there.place} exists already; add --replace to change its registration, or "
            "choose another name"
        )
    connection.execute(update(_table).where(_table.c.name == one.name).values(row))
    return True


def registrations(connection: Connection, *, enabled_only: bool = False) -> list[Registration]:
    """All registrations by name, or only enabled ones."""
    query = select(_table).order_by(_table.c.name)
    if enabled_only:
        query = query.where(_table.c.enabled.is_(True))
    return [_registration(row) for row in connection.execute(query).mappings()]


def registration(connection: Connection, name: str) -> Registration:
    """The registration with this name; `UsageError` with similar names if there is none."""
    row = connection.execute(select(_table).where(_table.c.name == name)).mappings().first()
    if row is None:
        names = connection.execute(select(_table.c.name)).scalars()
        raise unknown_name("machine", name, names, "register one with skipjack machine add")
    return _registration(row)


def remove(connection: Connection, names: Iterable[str]) -> list[Registration]:
    """Remove registrations, all or none, and return them. Running workers are not affected."""
    gone = [registration(connection, name) for name in _once(names)]
    for one in gone:
        connection.execute(delete(_table).where(_table.c.name == one.name))
    return gone


def enable(
    connection: Connection, names: Iterable[str], *, reason: str = "", by: str = ""
) -> list[str]:
    """Enable machines, and end their quarantine."""
    changed = _change(connection, names, {"enabled": True, "disabled_why": ""}, CLEARED)
    for name in changed:
        actions.note(connection, by, "enable", "machine", name, reason=reason)
    return changed


def disable(connection: Connection, names: Iterable[str], why: str, *, by: str = "") -> list[str]:
    """Disable machines with a reason; jobs that they have already are finished."""
    said = f"disabled by {by}" + (f": {why}" if why else "") if by else why
    kept = said.replace("\0", "\ufffd")[:_LONGEST]
    changed = _change(
        connection, names, {"enabled": False, "disabled_why": kept}, {"set_aside": kept}
    )
    for name in changed:
        actions.note(connection, by, "disable", "machine", name, reason=why)
    return changed


def _change(
    connection: Connection,
    names: Iterable[str],
    ours: Mapping[str, Any],
    workers: Mapping[str, Any],
) -> list[str]:
    """Change registrations, then the machines with these names that have worked."""
    found = [registration(connection, name).name for name in _once(names)]
    for name in found:
        connection.execute(update(_table).where(_table.c.name == name).values(ours))
    machine = tables.machines
    there = machine.c.name.in_(found)
    # In the order of their ids, as everywhere.
    connection.execute(select(machine.c.id).where(there).order_by(machine.c.id).with_for_update())
    connection.execute(update(machine).where(there).values(workers))
    return found


def why_disabled(connection: Connection, name: str) -> str:
    """Why a machine is disabled; empty if it is not, or is not registered.

    This holds until the transaction ends, because the row is locked. Call it before the machine
    itself is locked.
    """
    mine = select(_table.c.enabled, _table.c.disabled_why).where(_table.c.name == name)
    row = connection.execute(mine.with_for_update(read=True)).first()
    return "" if row is None or row.enabled else (row.disabled_why or "disabled")


def is_aborted(connection: Connection, name: str) -> bool:
    """Whether a registered machine is aborted, even if it was never seen."""
    mine = select(_table.c.aborted).where(_table.c.name == name)
    return bool(connection.execute(mine).scalar())


def note_abort(connection: Connection, name: str, aborted: bool) -> None:
    """Set the flag of a registration, for when the machine is seen.

    It locks the row, so that others that disable or register the machine wait.
    """
    connection.execute(update(_table).where(_table.c.name == name).values(aborted=aborted))


def _once(names: Iterable[str]) -> Sequence[str]:
    # Sorted, in the order in which all transactions lock rows.
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
