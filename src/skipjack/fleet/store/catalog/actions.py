"""What people did to labels, devices, architectures and machines, and who did it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock

_LONGEST = 255
_LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """Something that somebody did."""

    at: float
    """Seconds since 1970."""
    who: str
    action: str
    """abort, resume, reset, enable or disable."""
    kind: str
    """Of the target: label, device, architecture or machine."""
    target: str
    jobs: int
    """The number of jobs that it concerned."""
    reason: str


def note(
    connection: Connection,
    who: str,
    action: str,
    kind: str,
    target: str,
    *,
    jobs: int = 0,
    reason: str = "",
) -> None:
    """Record an action; without a name nothing is recorded."""
    if not who:
        return
    row = {
        "at": clock.read(connection),
        "who": storable_name(who),
        "action": action,
        "kind": kind,
        "target": target,
        "jobs": jobs,
        "reason": reason.replace("\0", "\ufffd")[:_LONGEST_REASON],
    }
    connection.execute(insert(tables.actions).values(row))


def storable_name(who: str) -> str:
    """A name without what databases cannot store."""
    return who.replace("\0", "\ufffd").encode("utf-8", "replace").decode()[:_LONGEST]


def newest(
    connection: Connection, *, kind: str | None = None, target: str | None = None, limit: int = 50
) -> list[RecordedAction]:
    """The newest actions first, of one target or of all."""
    action = tables.actions.c
    query = select(tables.actions).order_by(action.id.desc()).limit(limit)
    if kind is not None:
        query = query.where(action.kind == kind)
    if target is not None:
        query = query.where(action.target == target)
    return [
        RecordedAction(row.at, row.who, row.action, row.kind, row.target, row.jobs, row.reason)
        for row in connection.execute(query)
    ]
