"""Owners: coordinators with a lease, renewed while they live, that covers all they hold.

A lease that expired may be swept by anybody; until then nothing is lost, and it can be renewed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from skipjack.fleet.states import Event, Lost, Released
from skipjack.fleet.store import clock, tables, transitions
from skipjack.fleet.store.batches import among
from skipjack.fleet.store.transitions import Step, worked_on


def sign_in(connection: Connection, host: str, pid: int, lease_s: float) -> str:
    """A new owner, whose lease lasts this long unless it is renewed."""
    owner = secrets.token_hex(16)
    connection.execute(
        insert(tables.owners).values(
            id=owner,
            host=host,
            pid=pid,
            lease_s=lease_s,
            expires=clock.now() + lease_s,
            created=clock.now(),
        )
    )
    return owner


def renew(connection: Connection, owner: str) -> dict[int, int] | None:
    """Prolong the lease; the owner's jobs with their attempts, or None if it was swept."""
    owners = tables.owners
    expires = clock.now() + owners.c.lease_s
    renewed = update(owners).where(owners.c.id == owner).values(expires=expires)
    if connection.execute(renewed).rowcount == 0:
        return None
    job = tables.jobs.c
    held = connection.execute(select(job.id, job.attempt).where(job.owner == owner))
    return {int(row.id): int(row.attempt) for row in held}


def release(connection: Connection, owner: str, jobs: Iterable[int], reason: str) -> int:
    """Give back jobs of the owner that it does not work on, as after a claim that got no answer."""
    job = tables.jobs.c
    return _leave(connection, Released(reason), job.owner == owner, among(connection, job.id, jobs))


def sign_out(connection: Connection, owner: str, reason: str) -> int:
    """Give back what the owner still holds, and end its lease; how many jobs that were."""
    released = _leave(connection, Released(reason), tables.jobs.c.owner == owner)
    connection.execute(delete(tables.owners).where(tables.owners.c.id == owner))
    return released


def sweep(connection: Connection) -> int:
    """End all leases that expired by the database's clock; how many jobs were lost with them."""
    owners = tables.owners
    expired = select(owners).where(owners.c.expires < clock.now())
    gone = connection.execute(expired.with_for_update(skip_locked=True)).all()
    return sum(_swept(connection, owner) for owner in gone)


def _swept(connection: Connection, owner: Row[Any]) -> int:
    reason = f"coordinator {owner.pid} on {owner.host} was not heard of for {owner.lease_s:g} s"
    lost = _leave(connection, Lost(reason), tables.jobs.c.owner == owner.id)
    connection.execute(delete(tables.owners).where(tables.owners.c.id == owner.id))
    return lost


def _leave(connection: Connection, event: Event, *conditions: Any) -> int:
    rows = transitions.locked(connection, *conditions)
    return len(transitions.take(connection, [Step(row, event, *worked_on(row)) for row in rows]))
