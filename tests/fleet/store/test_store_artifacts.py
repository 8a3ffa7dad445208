"""Artifacts: stored once, and never used unless intact and signed with the fleet's key."""

from collections.abc import Callable
from typing import Any

import pytest
from crew import artifacts_of, crew, load, on_sqlite, rows
from sqlalchemy import Connection, delete, update

from skipjack.fleet.model import JobStage, JobState
from skipjack.fleet.signature import sign
from skipjack.fleet.store import Store
from skipjack.fleet.store.schema import tables

CODE = bytes(range(256)) * 5


(DIGEST,) = artifacts_of([CODE])
HERE = tables.artifacts.c.digest == DIGEST


def _removed(connection: Connection) -> None:
    connection.execute(delete(tables.artifacts).where(HERE))


def _damaged(connection: Connection) -> None:
    connection.execute(update(tables.artifacts).where(HERE).values(data=CODE[:-1] + b"x"))


def _foreign(connection: Connection) -> None:
    sealed = sign(b"another fleet", DIGEST)
    connection.execute(update(tables.artifacts).where(HERE).values(seal=sealed))


def test_the_bytes_of_an_artifact_come_back_as_they_were(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build(CODE, b"")
    assert us.claim(JobStage.EVALUATE)[1].artifacts == artifacts_of([CODE, b""])


def test_the_same_code_of_two_jobs_is_kept_once(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    us.build(CODE, b"a")
    us.build(b"b", CODE)
    assert rows(store, "artifacts") == 3


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_removed, "is not in the store"),
        (_damaged, "is damaged"),
        (_foreign, "not signed with this fleet's key"),
    ],
)
@on_sqlite
def test_a_lost_artifact_is_built_again_and_never_handed_out(
    store: Store, harm: Callable[[Connection], Any], reason: str
) -> None:
    load(store, 2)
    us = crew(store)
    us.build(CODE)
    us.build(b"whole")
    store.database.transaction(harm)
    ((_, task),) = us.claims(JobStage.EVALUATE, 2)
    assert task.artifacts == artifacts_of([b"whole"])
    (lost,) = store.jobs.find(state=JobState.NEW)
    assert f"artifact {DIGEST} " in lost.status.reason and reason in lost.status.reason
    us.build(CODE)
    assert us.claim(JobStage.EVALUATE)[1].artifacts == artifacts_of([CODE])
