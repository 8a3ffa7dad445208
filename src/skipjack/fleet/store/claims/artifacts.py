"""Machine code in the store: by digest, with the seal of the fleet's key.

What is missing, damaged or sealed with another key is lost: it is built again, never loaded.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, select

from skipjack.fleet.seal import seal, sealed
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among, insert_new

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the store has of the digests it was asked for."""

    whole: Mapping[str, bytes] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    """Why each of the others cannot be used."""


def keep(connection: Connection, key: bytes, artifacts: Mapping[str, bytes], now: float) -> None:
    """Put artifacts into the store, but those that are there."""
    if not artifacts:
        return
    table = tables.artifacts
    there = select(table.c.digest).where(among(connection, table.c.digest, artifacts))
    known = set(connection.execute(there).scalars())
    # In the order of their digests: two coordinators with the same ones never wait in a circle.
    rows = [
        {
            "digest": digest,
            "size": len(artifacts[digest]),
            "seal": seal(key, digest),
            "data": artifacts[digest],
            "created": now,
        }
        for digest in sorted(artifacts.keys() - known)
    ]
    insert_new(connection, table, rows)


def fetch(connection: Connection, key: bytes, digests: Iterable[str]) -> Fetched:
    """The artifacts with these digests. Those that cannot be used are removed from the store."""
    wanted = set(digests)
    if not wanted:
        return Fetched()
    table = tables.artifacts.c
    columns = (table.digest, table.seal, table.data)
    found = connection.execute(select(*columns).where(among(connection, table.digest, wanted)))
    whole: dict[str, bytes] = {}
    lost: dict[str, str] = {}
    for digest, written, data in found:
        reason = _fault(key, digest, written, data)
        if reason:
            lost[digest] = reason
        else:
            whole[digest] = bytes(data)
    if lost:
        _remove(connection, lost)
    missing = dict.fromkeys(wanted - whole.keys() - lost.keys(), "is not in the store")
    return Fetched(whole, lost | missing)


def _fault(key: bytes, digest: str, written: str, data: bytes) -> str:
    if not sealed(key, digest, written):
        return "was not sealed with this fleet's key"
    if hashlib.sha256(data).hexdigest() != digest:
        return "is damaged in the store"
    return ""


def _remove(connection: Connection, lost: Mapping[str, str]) -> None:
    """Else the next build of the same code would find its place taken."""
    for digest, reason in lost.items():
        log.warning("artifact %s %s; it is removed, and will be built again", digest, reason)
    table = tables.artifacts
    connection.execute(delete(table).where(among(connection, table.c.digest, lost)))
