"""Machines as people register them, and what disabling one does to its worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from crew import crew, load, on_sqlite
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from skipjack.errors import UsageError
from skipjack.fleet.model import Host, JobStage, Registration
from skipjack.fleet.store import Store, open_store
from skipjack.fleet.store.catalog import registrations
from skipjack.fleet.store.schema import tables

GPU7 = Registration("gpu7", "10.0.0.7", 2222, "tuner", "gfx908/120", 8, remarks="r", python="/p")


def test_a_machine_is_registered_once_and_anew_on_request(store: Store) -> None:
    assert not store.registrations.add(GPU7)
    assert store.registrations.all() == [GPU7]
    other = Registration("gpu7", "10.0.0.8")
    with pytest.raises(
        UsageError, match=r"gpu7 \(tuner@10.0.0.7 port 2222\) exists already.*--replace"
    ):
        store.registrations.add(other)
    assert store.registrations.get("gpu7") == GPU7
    assert store.registrations.add(other, replace=True)
    assert store.registrations.get("gpu7") == other


def test_who_is_disabled_stays_so_when_registered_anew(store: Store) -> None:
    store.registrations.add(GPU7)
    store.registrations.disable(["gpu7"], "new fans")
    store.registrations.add(Registration("gpu7", "10.0.0.8"), replace=True)
    kept = store.registrations.get("gpu7")
    assert (kept.enabled, kept.disabled_why) == (False, "new fans")
    assert store.registrations.all(enabled_only=True) == []


def test_names_differ_by_case(store: Store) -> None:
    store.registrations.add(GPU7)
    store.registrations.add(Registration("GPU7", "10.0.0.9"))
    assert {one.host for one in store.registrations.all()} == {"10.0.0.7", "10.0.0.9"}


@on_sqlite
def test_an_unknown_name_suggests_near_ones_and_changes_nothing(store: Store) -> None:
    store.registrations.add(GPU7)
    for verb in (
        store.registrations.enable,
        store.registrations.remove,
        lambda names: store.registrations.disable(names, ""),
    ):
        with pytest.raises(UsageError, match="unknown machine 'gpu8': did you mean gpu7"):
            verb(["gpu7", "gpu8"])
    assert store.registrations.all() == [GPU7]
    with pytest.raises(UsageError, match="register one with skipjack machine add"):
        store.registrations.remove(["gpu7"])
        store.registrations.get("gpu7")


def test_a_disabled_machine_gets_no_jobs_until_it_is_enabled(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    store.registrations.add(Registration("host", "10.0.0.7"))
    store.registrations.disable(["host"], "disabled by me: new fans")
    assert us.claims(JobStage.BUILD) == []
    assert store.machines.all()[0].quarantined == "disabled by me: new fans"
    with pytest.raises(UsageError, match="skipjack machine enable host"):
        store.jobs.resume(machine="host")
    assert store.registrations.enable(["host", "host"]) == ["host"]
    assert len(us.claims(JobStage.BUILD)) == 1


@on_sqlite
def test_so_does_one_that_turns_up_later(store: Store) -> None:
    store.registrations.add(GPU7)
    store.registrations.disable(["gpu7"], "new fans")
    assert store.queue.register(Host("gpu7", 8, 1 << 30), "ray").quarantined == "new fans"
    assert store.queue.seen(["gpu7"])[0].quarantined == "new fans"
    store.registrations.enable(["gpu7"])
    assert store.queue.register(Host("gpu7", 8, 1 << 30), "ray").quarantined == ""


@contextmanager
def beside(url: str, does: Callable[[Store], object]) -> Iterator[None]:
    """Another process runs until it waits for a lock."""

    with open_store(url) as other:
        other.registrations.all()
        thread = Thread(target=does, args=(other,))
        thread.start()
        thread.join(0.3)
        yield
        thread.join()


on_servers = pytest.mark.parametrize("store_url", ["postgresql", "mariadb"], indirect=True)


@on_servers
@pytest.mark.parametrize("turns_up", [True, False], ids=["register", "resume"])
def test_who_is_disabled_while_it_turns_up_or_is_resumed_gets_no_jobs(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch, turns_up: bool
) -> None:
    store.registrations.add(GPU7)
    if not turns_up:
        store.queue.register(Host("gpu7", 8, 1 << 30), "ray")
    others = []
    looking = registrations.why_disabled

    def slowly(connection: Connection, name: str) -> str:
        found = looking(connection, name)
        others.append(
            beside(store_url, lambda other: other.registrations.disable(["gpu7"], "new fans"))
        )
        others[-1].__enter__()
        return found

    monkeypatch.setattr(registrations, "why_disabled", slowly)
    if turns_up:
        store.queue.register(Host("gpu7", 8, 1 << 30), "ray")
    else:
        store.jobs.resume(machine="gpu7")
    others[0].__exit__(None, None, None)
    assert store.machines.all()[0].quarantined == "new fans"


@pytest.mark.parametrize("store_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_machines_are_locked_in_the_order_of_their_ids(
    store: Store, store_url: str, verb: str
) -> None:
    ids = {}
    for name in ("zeta", "alpha"):
        store.registrations.add(Registration(name, "10.0.0.7"))
        ids[name] = store.queue.register(Host(name, 8, 1 << 30), "ray").id
    assert ids["zeta"] < ids["alpha"]

    def change(other: Store) -> None:
        names = ["alpha", "zeta"]
        other.registrations.enable(names) if verb == "enable" else other.registrations.disable(
            names, ""
        )

    def lock(connection: Connection, name: str) -> None:
        mine = select(tables.machines.c.id).where(tables.machines.c.name == name)
        connection.execute(mine.with_for_update(nowait=True))

    with store.database.engine.begin() as connection:
        lock(connection, "zeta")
        with beside(store_url, change):
            try:
                lock(connection, "alpha")
            except DBAPIError:
                pytest.fail("it holds the second and waits for the first")
            finally:
                connection.rollback()
