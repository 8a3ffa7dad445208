"""A database that goes away in the middle: nothing is lost, nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers import PASSWORD, Server
from sqlalchemy import Connection, Engine, func, insert, select, text, update

from processes import PATIENCE_S
from skipjack.core import Device
from skipjack.errors import StorageError
from skipjack.fleet.model import (
    ClaimResult,
    Failed,
    Host,
    JobPlan,
    JobStage,
    JobState,
    Label,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import sqlite
from skipjack.fleet.store.sql.statements import insert_rows
from skipjack.fleet.store.sql.transactions import RetryPolicy
from skipjack.processes import ProcessIdentity


@pytest.fixture
def served(server: Server, user_dir: Path) -> Iterator[Store]:
    """A store on a server that the test may stop."""
    with open_store(server.fresh(), on_wait=pytest.fail) as store:
        yield store


def _patient(limit_s: float = 60.0, **options: Any) -> RetryPolicy:
    return RetryPolicy(limit_s, rng=np.random.default_rng(0), **options)


def _add_owner(connection: Connection, name: str) -> None:
    row = {"id": name, "host": "h", "pid": 1, "lease_s": 1.0, "expires": 0.0, "created": 0.0}
    connection.execute(insert(tables.owners).values(row))


def _owners(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(select(tables.owners.c.id).order_by("id")).scalars())


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_restarts_in_a_transaction_loses_nothing(
    server: Server, served: Store, how: str
) -> None:
    engine = served.database.engine
    told: list[str] = []
    attempts: list[int] = []

    def work(connection: Connection) -> str:
        attempts.append(1)
        _add_owner(connection, "a")
        if len(attempts) == 1:
            getattr(server, how)()
        _add_owner(connection, "b")
        return "done"

    _patient().transact(engine, lambda connection: _add_owner(connection, "before"))
    # It comes back while we wait for it, and not before.
    retries = _patient(on_wait=told.append, sleep=lambda seconds: server.start())
    assert retries.transact(engine, work) == "done"
    assert _owners(engine) == ["a", "b", "before"]
    assert len(told) == 1
    assert PASSWORD not in told[0]


def test_every_verb_waits_for_a_server_that_is_away(server: Server, user_dir: Path) -> None:
    told: list[str] = []
    with open_store(server.fresh(), on_wait=told.append) as store:
        owner = store.queue.start_lease(ProcessIdentity("here", 1), 60.0)
        server.stop()
        restart = threading.Timer(0.5, server.start)
        restart.start()
        assert store.queue.renew(owner) == {}
        restart.join()
        assert "trying again for 600 seconds" in told[0]
        server.stop()
        restart = threading.Timer(0.1, server.start)
        restart.start()
        assert list(store.problems.find()) == []
        restart.join()


def test_patience_ends(server: Server, served: Store) -> None:
    now = [100.0]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    retries = _patient(9.0, on_wait=lambda said: None, sleep=sleep, monotonic=lambda: now[0])
    server.stop()
    with pytest.raises(StorageError, match=r"gave up after 9 seconds: .*cannot be used") as caught:
        retries.transact(
            served.database.engine, lambda connection: connection.execute(text("SELECT 1"))
        )
    assert PASSWORD not in str(caught.value)
    assert 9 <= sum(pauses) < 12
    assert pauses[0] < 0.1 < max(pauses) <= 2.0
    assert len(set(pauses)) == len(pauses)  # jitter


def test_a_deadlock_is_resolved_by_repeating(server: Server, served: Store) -> None:
    engine = served.database.engine
    with engine.begin() as connection:
        _add_owner(connection, "a")
        _add_owner(connection, "b")
    meeting = threading.Barrier(2)
    attempts: list[str] = []

    def crossing(first: str, second: str) -> Callable[[Connection], None]:
        entered: list[int] = []

        def work(connection: Connection) -> None:
            attempts.append(first)
            for name in (first, second):
                owners = update(tables.owners).where(tables.owners.c.id == name)
                connection.execute(owners.values(pid=tables.owners.c.pid + 1))
                if not entered:
                    entered.append(1)
                    meeting.wait(PATIENCE_S)

        return work

    threads = [
        threading.Thread(target=_patient(on_wait=pytest.fail).transact, args=(engine, work))
        for work in (crossing("a", "b"), crossing("b", "a"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with engine.connect() as connection:
        assert connection.execute(select(func.sum(tables.owners.c.pid))).scalar() == 2 + 4
    assert len(attempts) > 2


def test_a_row_that_another_inserted_meanwhile_is_seen_the_next_time(served: Store) -> None:
    engine = served.database.engine
    attempts: list[int] = []

    def work(connection: Connection) -> bool:
        attempts.append(1)
        owners = select(func.count()).select_from(tables.owners)
        if connection.execute(owners).scalar():
            return False
        with engine.begin() as other:
            _add_owner(other, "same")
        _add_owner(connection, "same")
        return True

    assert _patient().transact(engine, work) is False
    assert len(attempts) == 2


def test_a_mistake_is_not_repeated(store: Store) -> None:
    attempts: list[int] = []

    def work(connection: Connection) -> None:
        attempts.append(1)
        connection.execute(text("SELECT nonsense FROM owners"))

    with pytest.raises(StorageError, match="nonsense"):
        _patient(sleep=lambda seconds: pytest.fail("waited")).transact(store.database.engine, work)
    assert len(attempts) == 1


def test_a_file_that_is_locked_is_waited_for(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_S", 0.0)
    with open_store() as store, open_store() as other:
        holder = other.database.engine.connect()
        lock = holder.begin()
        pauses: list[float] = []

        def let_go(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                lock.rollback()
                holder.close()

        retries = _patient(sleep=let_go, on_wait=pytest.fail)
        retries.transact(store.database.engine, lambda connection: _add_owner(connection, "a"))
        assert _owners(store.database.engine) == ["a"]
        assert len(pauses) == 3


def _cut_after_commit(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the next COMMIT happen, and its acknowledgement be lost."""
    commit = engine.dialect.do_commit
    cuts: list[int] = []

    def cut(connection: Any) -> None:
        commit(connection)
        if not cuts:
            cuts.append(1)
            driver: Any = engine.dialect.dbapi
            raise driver.OperationalError(2013, "Lost connection to server during query")

    monkeypatch.setattr(engine.dialect, "do_commit", cut)
    return cuts


def test_a_commit_without_acknowledgement_is_known_as_such(
    served: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = served.database.engine
    cuts = _cut_after_commit(engine, monkeypatch)
    looked: list[str] = []

    def committed(connection: Connection, result: str) -> bool:
        looked.append(result)
        return result in connection.execute(select(tables.owners.c.id)).scalars()

    def work(connection: Connection) -> str:
        _add_owner(connection, "a")
        return "a"

    assert _patient(on_wait=lambda said: None).transact(engine, work, committed=committed) == "a"
    assert (len(cuts), looked, _owners(engine)) == (1, ["a"], ["a"])


def test_claims_and_results_survive_a_lost_acknowledgement(
    server: Server, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device("cpu", "znver4", 1)
    with open_store(server.fresh(), on_wait=lambda said: None) as store:
        keys = [f"matmul:{n}x8x8" for n in range(1, 9)]
        store.problems.add([NewProblem(key, "matmul") for key in keys], "t")
        store.jobs.add(Label("L", "me"), [JobPlan(key, device.name) for key in keys])
        machine = store.queue.register(Host("m", 1, 1, (device,)), "local")
        owner = store.queue.start_lease(ProcessIdentity("here", 1), 60.0)
        with monkeypatch.context() as patch:
            cuts = _cut_after_commit(store.database.engine, patch)
            taken = store.queue.claim(
                owner, JobStage.BUILD, [WorkRequest(machine.id, "s", count=3)]
            )
        assert len(cuts) == 1
        assert set(store.queue.renew(owner) or ()) == {claim.job for claim, _ in taken}
        assert len(taken) == 3
        claim_results = [ClaimResult(claim, Failed("no room")) for claim, _ in taken]
        with monkeypatch.context() as patch:
            cuts = _cut_after_commit(store.database.engine, patch)
            assert store.queue.finish(owner, claim_results) == []
        assert len(cuts) == 1
        assert store.queue.live() == {JobState.NEW: 8}
        for claim, _ in taken:
            assert [line.event for line in store.jobs.history(claim.job)] == ["claimed", "failed"]


@pytest.mark.parametrize("mistake", [False, True])
def test_a_write_that_the_database_refuses_leaves_the_store_as_it_was(
    store: Store, mistake: bool
) -> None:
    row = {"id": "a", "host": "h", "pid": 1, "lease_s": 1.0, "expires": 0.0, "created": 0.0}

    def work(connection: Connection) -> None:
        insert_rows(connection, tables.owners, [{**row, "id": "b"}])
        insert_rows(connection, tables.owners, [row])
        insert_rows(connection, tables.owners, [row])  # nothing is read after it
        if mistake:
            raise ValueError("a mistake of ours")

    with pytest.raises((StorageError, ValueError)):
        _patient().transact(store.database.engine, work)
    assert _owners(store.database.engine) == []
    _patient().transact(store.database.engine, lambda connection: _add_owner(connection, "c"))
    assert _owners(store.database.engine) == ["c"]
