"""Machines: as they were found, and set aside when they only fail."""

from dataclasses import replace

import pytest
from crew import LABEL, ZEN, Crew, crew, load, on_sqlite
from sqlalchemy import update

from skipjack.errors import UsageError
from skipjack.fleet.model import (
    Built,
    ClaimResult,
    Event,
    Failed,
    Host,
    JobStage,
    Lost,
    Registration,
)
from skipjack.fleet.store import Store
from skipjack.fleet.store.catalog.machines import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MOST_FAILURES,
    MOST_LOSSES,
    pause_after,
)
from skipjack.fleet.store.schema import tables


def failing(us: Crew, times: int, event: Event) -> None:
    """Fail this many jobs; different ones, so that none ends in error."""
    claims = [claim for claim, _ in us.claims(JobStage.BUILD, times)]
    for claim in claims:
        us.finish(claim, event)


def test_a_machine_is_registered_once_and_is_as_it_was_last_found(store: Store) -> None:
    first = store.queue.register(Host("gpu7", 8, 1 << 30), "local")
    again = store.queue.register(Host("gpu7", 16, 1 << 40, (ZEN,)), "ray")
    assert again.id == first.id and store.machines.all() == [again]
    assert (again.engine, again.cores, again.memory_bytes) == ("ray", 16, 1 << 40)
    assert again.devices == (ZEN.name,)


def test_jobs_are_built_for_the_device_that_was_seen_last(store: Store) -> None:
    load(store)
    newer = replace(ZEN, model="a newer one")
    us = crew(store)
    store.queue.register(Host("host", 8, 1, (newer,)), "local")
    assert us.claim(JobStage.BUILD)[1].device == newer


def test_a_machine_has_jobs_of_a_label_for_its_own_devices(store: Store) -> None:
    store.queue.register(Host("gpu7", 8, 1, (ZEN,)), "local")
    load(store)
    load(store, device="skylake/1")
    store.registrations.add(Registration("gpu8", "there", device="skylake/1"))
    assert store.machines.devices_at("gpu7", LABEL) == (ZEN.name,)
    assert store.machines.devices_at("gpu8", LABEL) == ("skylake/1",), "it never worked"
    store.queue.register(Host("other", 8, 1, (replace(ZEN, model="another one"),)), "local")
    with pytest.raises(UsageError, match="no job of resnet is for a device of other, which has"):
        store.machines.devices_at("other", LABEL)
    with pytest.raises(UsageError, match="did you mean gpu8 or gpu7"):
        store.machines.devices_at("gpu9", LABEL)


def test_a_machine_that_keeps_failing_is_set_aside_until_it_is_resumed(store: Store) -> None:
    load(store, 9)
    us = crew(store)
    failing(us, MOST_FAILURES - 1, Failed("no space"))
    assert store.machines.all()[0].quarantined == ""
    failing(us, 1, Lost("killed by the kernel"))
    assert store.machines.all()[0].quarantined == ""
    failing(us, 1, Failed("no space left"))
    machine = store.machines.all()[0]
    assert machine.failures == MOST_FAILURES
    assert machine.quarantined == "5 jobs in a row failed, the last: no space left"
    assert us.claims(JobStage.BUILD) == []
    store.jobs.resume(machine="host")
    machine = store.machines.all()[0]
    assert (machine.quarantined, machine.failures) == ("", 0)
    assert len(us.claims(JobStage.BUILD)) == 1


def end_pause(store: Store) -> None:
    """As if the time were over."""
    with store.database.engine.begin() as connection:
        connection.execute(update(tables.machines).values(paused_until=1.0))


def test_a_machine_that_loses_its_workers_pauses_and_is_tried_again(store: Store) -> None:
    load(store, 20)
    us = crew(store)
    failing(us, MOST_LOSSES, Lost("killed by the kernel"))
    (machine,) = store.machines.all()
    assert (machine.quarantined, machine.losses) == ("", MOST_LOSSES)
    assert 0 < machine.pause_s <= FIRST_PAUSE_S
    assert machine.pause == (
        "pauses for 5 s: 5 workers in a row were lost, the last: killed by the kernel"
    )
    assert us.claims(JobStage.BUILD) == []
    end_pause(store)
    assert store.machines.all()[0].pause == ""
    failing(us, 1, Lost("killed by the kernel"))
    assert "pauses for 10 s: 6 workers" in store.machines.all()[0].pause
    end_pause(store)
    failing(us, 1, Built())
    assert (store.machines.all()[0].losses, store.machines.all()[0].pause) == (0, "")


@on_sqlite
def test_a_person_ends_a_pause(store: Store) -> None:
    load(store, 9)
    us = crew(store)
    failing(us, MOST_LOSSES, Lost("killed"))
    store.jobs.resume(machine="host")
    (machine,) = store.machines.all()
    assert (machine.losses, machine.pause) == (0, "")
    assert us.claims(JobStage.BUILD)


@on_sqlite
def test_a_clock_that_is_set_back_makes_no_pause_longer(store: Store) -> None:
    load(store, 9)
    us = crew(store)
    failing(us, MOST_LOSSES, Lost("killed"))
    until = tables.machines.c.paused_until
    with store.database.engine.begin() as connection:
        connection.execute(update(tables.machines).values(paused_until=until + 3600))
    assert store.machines.all()[0].pause == ""
    assert us.claims(JobStage.BUILD)


def test_pauses_grow_up_to_a_bound() -> None:
    assert [pause_after(losses) for losses in (0, 4, 5, 6, 7)] == [0.0, 0.0, 5.0, 10.0, 20.0]
    assert pause_after(10**6) == LONGEST_PAUSE_S


@on_sqlite
def test_jobs_that_no_machine_could_do_do_not_count(store: Store) -> None:
    load(store, 9)
    us = crew(store)
    failing(us, MOST_FAILURES, Failed("no such searcher", hopeless=True))
    assert store.machines.all()[0].quarantined == ""


@on_sqlite
def test_a_job_that_fails_again_does_not_count_again(store: Store) -> None:
    load(store)
    us = crew(store)
    failing(us, 1, Failed("it eats all memory"))
    failing(us, 1, Failed("it eats all memory"))
    assert store.machines.all()[0].failures == 1


@on_sqlite
def test_what_is_lost_together_counts_once(store: Store) -> None:
    load(store, 9)
    us = crew(store)
    claims = [claim for claim, _ in us.claims(JobStage.BUILD, 9)]
    store.queue.finish(us.owner, [ClaimResult(claim, Lost("the node left")) for claim in claims])
    assert store.machines.all()[0].losses == 1


@on_sqlite
def test_one_success_clears_the_failures(store: Store) -> None:
    load(store, 9)
    us, other = crew(store), crew(store, "other")
    failing(us, MOST_FAILURES - 1, Failed("no space"))
    failing(other, 1, Built())
    assert [machine.failures for machine in store.machines.all()] == [4, 0]
    failing(us, 1, Built())
    assert [machine.failures for machine in store.machines.all()] == [0, 0]


@on_sqlite
def test_a_coordinator_that_dies_is_not_its_machines_fault(store: Store) -> None:
    load(store, 9)
    us = crew(store, lease_s=0.0)
    us.claims(JobStage.BUILD, MOST_FAILURES)
    store.queue.sweep()
    assert (store.machines.all()[0].failures, store.machines.all()[0].losses) == (0, 0)
