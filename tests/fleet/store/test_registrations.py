"""Machines as people register them, and what disabling one does to its worker."""

import pytest
from crew import crew, load, on_sqlite

from skipjack.errors import UsageError
from skipjack.fleet.engine import Host
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.states import Stage
from skipjack.fleet.store.store import Store

GPU7 = Registration("gpu7", "10.0.0.7", 2222, "tuner", "gfx908/120", 8, remarks="r", python="/p")


def test_a_machine_is_registered_once_and_anew_on_request(store: Store) -> None:
    assert not store.add_registration(GPU7)
    assert store.registrations() == [GPU7]
    other = Registration("gpu7", "10.0.0.8")
    with pytest.raises(UsageError, match=r"gpu7 \(tuner@10.0.0.7 port 2222\) already.*--replace"):
        store.add_registration(other)
    assert store.registration("gpu7") == GPU7
    assert store.add_registration(other, replace=True)
    assert store.registration("gpu7") == other


def test_who_is_disabled_stays_so_when_registered_anew(store: Store) -> None:
    store.add_registration(GPU7)
    store.disable(["gpu7"], "new fans")
    store.add_registration(Registration("gpu7", "10.0.0.8"), replace=True)
    assert not store.registration("gpu7").enabled
    assert store.registrations(enabled_only=True) == []


def test_names_differ_by_case(store: Store) -> None:
    store.add_registration(GPU7)
    store.add_registration(Registration("GPU7", "10.0.0.9"))
    assert {one.host for one in store.registrations()} == {"10.0.0.7", "10.0.0.9"}


@on_sqlite
def test_an_unknown_name_suggests_near_ones_and_changes_nothing(store: Store) -> None:
    store.add_registration(GPU7)
    for verb in (store.enable, store.remove_registrations, lambda names: store.disable(names, "")):
        with pytest.raises(UsageError, match="unknown machine 'gpu8': did you mean gpu7"):
            verb(["gpu7", "gpu8"])
    assert store.registrations() == [GPU7]
    with pytest.raises(UsageError, match="skipjack machine add registers one"):
        store.remove_registrations(["gpu7"])
        store.registration("gpu7")


def test_a_disabled_machine_gets_no_jobs_until_it_is_enabled(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    store.add_registration(Registration("host", "10.0.0.7"))
    store.disable(["host"], "disabled by me: new fans")
    assert us.claims(Stage.BUILD) == []
    assert store.machines()[0].set_aside == "disabled by me: new fans"
    with pytest.raises(UsageError, match="skipjack machine enable host"):
        store.resume(machine="host")
    assert store.enable(["host", "host"]) == ["host"]
    assert len(us.claims(Stage.BUILD)) == 1


@on_sqlite
def test_so_does_one_that_turns_up_later(store: Store) -> None:
    store.add_registration(GPU7)
    store.disable(["gpu7"], "new fans")
    assert store.register(Host("gpu7", 8, 1 << 30), "ray").set_aside == "new fans"
    assert store.seen(["gpu7"])[0].set_aside == "new fans"
    store.enable(["gpu7"])
    assert store.register(Host("gpu7", 8, 1 << 30), "ray").set_aside == ""
