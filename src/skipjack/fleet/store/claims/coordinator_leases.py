"""Owners: coordinators with a lease, renewed while they live, which covers all of their jobs.

Any coordinator may sweep an expired lease, and one on the same machine that of a dead process;
until then nothing is lost, and the lease can be renewed. The clock is that of the database server,
or of this machine for a file. Either may be set back.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from skipjack.errors import StorageError
from skipjack.fleet.model import Event, Lost, Released
from skipjack.fleet.signature import FILE_NAME, VARIABLE, fingerprint
from skipjack.fleet.store.jobs import transitions
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.tables import agreements
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import among, insert_new
from skipjack.processes import ProcessIdentity, this_process


def start_lease(connection: Connection, process: ProcessIdentity, lease_s: float) -> str:
    """Create an owner, whose lease lasts this long unless it is renewed."""
    owner = secrets.token_hex(16)
    connection.execute(
        insert(tables.owners).values(
            id=owner,
            host=process.host,
            pid=process.pid,
            boot=process.boot,
            began=process.began,
            lease_s=lease_s,
            expires=clock.now() + lease_s,
            created=clock.now(),
        )
    )
    return owner


def renew(connection: Connection, owner: str) -> dict[int, int] | None:
    """Renew the lease; the owner's jobs with their attempts, or None if it was swept."""
    owners = tables.owners
    expires = clock.now() + owners.c.lease_s
    renewed = update(owners).where(owners.c.id == owner).values(expires=expires)
    if connection.execute(renewed).rowcount == 0:
        return None
    job = tables.jobs.c
    held = connection.execute(select(job.id, job.attempt).where(job.owner == owner))
    return {int(row.id): int(row.attempt) for row in held}


def release(connection: Connection, owner: str, jobs: Iterable[int], reason: str) -> int:
    """Give back jobs that the owner does not work on, as after a lost answer to a claim."""
    job = tables.jobs.c
    return _leave(connection, Released(reason), job.owner == owner, among(connection, job.id, jobs))


def end_lease(connection: Connection, owner: str, reason: str) -> int:
    """Give back all jobs of the owner, and end its lease; returns the number of jobs."""
    released = _leave(connection, Released(reason), tables.jobs.c.owner == owner)
    connection.execute(delete(tables.owners).where(tables.owners.c.id == owner))
    return released


def others(connection: Connection, owner: str) -> int:
    """Number of other coordinators that are alive."""
    owners = tables.owners.c
    alive = select(func.count()).where(owners.id != owner, owners.expires > clock.now())
    return int(connection.execute(alive).scalar_one())


def sweep(connection: Connection) -> int:
    """End all leases that have expired, and those of dead processes of this machine; returns the
    number of their jobs.
    """
    _shorten(connection)
    owners = tables.owners
    dead = _dead(connection)
    expired = select(owners).where(or_(owners.c.expires < clock.now(), owners.c.id.in_(dead)))
    gone = connection.execute(expired.with_for_update(skip_locked=True)).all()
    return sum(_swept(connection, owner, dead=owner.id in dead) for owner in gone)


def _shorten(connection: Connection) -> None:
    """Shorten leases that end later than one that begins now: the clock was set back. Live owners
    renew them in time.
    """
    owners = tables.owners
    longest = clock.now() + owners.c.lease_s
    too_long = owners.c.expires > longest
    connection.execute(update(owners).where(too_long).values(expires=longest))


def _dead(connection: Connection) -> list[str]:
    """Owners that were processes of this machine and have ended without ending their lease."""
    owners = tables.owners
    here = connection.execute(select(owners).where(owners.c.boot == this_process().boot))
    return [row.id for row in here if ProcessIdentity(row.host, row.pid, row.boot, row.began).gone]


def _swept(connection: Connection, owner: Row[Any], *, dead: bool) -> int:
    how = (
        "ended without giving its jobs back"
        if dead
        else f"did not renew its lease of {owner.lease_s:g} s"
    )
    reason = f"coordinator {owner.pid} on {owner.host} {how}"
    renewed = owner.expires - owner.lease_s  # nothing is known of the time since
    mine = tables.jobs.c.owner == owner.id
    lost = _leave(connection, Lost(reason), mine, until=renewed)
    connection.execute(delete(tables.owners).where(tables.owners.c.id == owner.id))
    return lost


def _leave(
    connection: Connection, event: Event, *conditions: Any, until: float | None = None
) -> int:
    """Let jobs go; the time that evaluators worked on them counts, up to now or `until`."""
    rows = transitions.locked(connection, *conditions)
    return len(transitions.apply(connection, transitions.leaving(rows, event, until)))


def check_key(connection: Connection, key: bytes) -> None:
    """Refuse a machine with another key: it would treat all machine code of others as lost."""
    mine = fingerprint(key)
    insert_new(connection, agreements, [{"name": "key", "value": mine}])
    query = select(agreements.c.value).where(agreements.c.name == "key")
    found = connection.execute(query).scalar_one()
    if found != mine:
        raise StorageError(
            f"this machine's fleet key ({mine}) is not the key that signs the store's machine code "
            f"({found}); copy {FILE_NAME} from a machine that has it, or name it with {VARIABLE}"
        )
