"""Leases: an owner keeps its jobs until it ends its lease or does not renew it."""

import subprocess
import time
from dataclasses import replace

from crew import ZEN, Crew, crew, load, on_sqlite, only, states
from sqlalchemy import update

from skipjack.fleet.model import Built, Host, JobStage, JobState
from skipjack.fleet.model.states import MOST_LOSSES
from skipjack.fleet.store import Store
from skipjack.fleet.store.schema import tables
from skipjack.processes import began, this_process


def test_what_an_expired_owner_held_is_lost_and_claimed_again(store: Store) -> None:
    load(store, 3)
    us, they = crew(store, "us", 0.0), crew(store, "them")
    us.claims(JobStage.BUILD, 2)
    (kept, _) = they.claim(JobStage.BUILD)
    time.sleep(0.01)
    assert store.queue.sweep() == 2
    assert store.queue.sweep() == 0
    assert states(store) == {JobState.NEW: 2, JobState.BUILDING: 1}
    assert store.queue.renew(us.owner) is None
    assert set(store.queue.renew(they.owner) or ()) == {kept.job}
    lost = [job.status for job in store.jobs.find(state=JobState.NEW)]
    assert all(one.losses == 1 and "on us did not renew its lease" in one.reason for one in lost)


def test_a_lease_that_is_renewed_is_not_swept(store: Store) -> None:
    load(store)
    us = crew(store, "us", 0.3)
    claim, _ = us.claim(JobStage.BUILD)
    for _ in range(4):
        assert set(store.queue.renew(us.owner) or ()) == {claim.job}
        assert store.queue.sweep() == 0
        time.sleep(0.1)
    time.sleep(0.3)
    assert store.queue.sweep() == 1


def set_back(store: Store, seconds: float) -> None:
    """As if the database's clock had been set back by so much: all leases end that much later."""
    owners = tables.owners
    with store.database.engine.begin() as connection:
        connection.execute(update(owners).values(expires=owners.c.expires + seconds))


def test_a_clock_that_is_set_back_does_not_keep_leases(store: Store) -> None:
    load(store, 2)
    dead, alive = crew(store, "dead", 0.2), crew(store, "alive")
    dead.claim(JobStage.BUILD)
    claim, _ = alive.claim(JobStage.BUILD)
    set_back(store, 3600.0)
    assert store.queue.sweep() == 0  # a live owner has time to renew
    time.sleep(0.3)
    assert store.queue.sweep() == 1
    assert set(store.queue.renew(alive.owner) or ()) == {claim.job}


def test_the_jobs_of_a_dead_process_of_this_machine_are_free_at_once(store: Store) -> None:
    (job, _) = load(store, 2)
    killed = subprocess.Popen(["sleep", "600"])
    process = replace(this_process(), pid=killed.pid, began=began(killed.pid))
    machine = store.queue.register(Host("host", 8, 1 << 30, (ZEN,)), "local")
    us = Crew(store, store.queue.start_lease(process, 600.0), machine.id)
    they = Crew(store, store.queue.start_lease(this_process(), 600.0), machine.id)
    claim, _ = us.claim(JobStage.BUILD)
    they.claim(JobStage.BUILD)
    assert store.queue.sweep() == 0
    killed.kill()
    killed.wait()
    assert store.queue.sweep() == 1
    assert states(store) == {JobState.NEW: 1, JobState.BUILDING: 1}
    assert "ended without giving its jobs back" in store.jobs.history(job)[-1].reason
    assert us.finish(claim, Built()) == [claim]  # too late, even if it is alive


@on_sqlite
def test_a_lease_that_expired_but_was_not_swept_is_still_good(store: Store) -> None:
    load(store)
    us = crew(store, "us", 0.0)
    claim, _ = us.claim(JobStage.BUILD)
    assert set(store.queue.renew(us.owner) or ()) == {claim.job}
    assert us.finish(claim, Built()) == []


def test_who_signs_out_gives_back_what_is_left(store: Store) -> None:
    ids = load(store, 2)
    us = crew(store)
    (claim, _), _ = us.claims(JobStage.BUILD, 2)
    us.finish(claim, Built())
    assert store.queue.end_lease(us.owner, "the time limit") == 1
    assert states(store) == {JobState.NEW: 1, JobState.BUILT: 1}
    line = store.jobs.history(ids[1])[-1]
    assert (line.event, line.reason, line.machine) == ("released", "the time limit", "host")
    assert store.queue.renew(us.owner) is None


@on_sqlite
def test_only_own_jobs_can_be_released(store: Store) -> None:
    load(store, 2)
    us, they = crew(store, "us"), crew(store, "them")
    ours, theirs = us.claim(JobStage.BUILD)[0].job, they.claim(JobStage.BUILD)[0].job
    assert store.queue.release(us.owner, [ours, theirs], "nobody works on it") == 1
    assert store.jobs.get(ours).status.state is JobState.NEW
    assert store.jobs.get(theirs).status.state is JobState.BUILDING
    assert store.queue.renew(us.owner) == {}


@on_sqlite
def test_a_job_that_is_lost_again_and_again_is_in_error(store: Store) -> None:
    load(store)
    for _ in range(MOST_LOSSES):
        crew(store, "us", 0.0).claim(JobStage.BUILD)
        time.sleep(0.002)
        store.queue.sweep()
    status = only(store).status
    assert (status.state, status.stage, status.losses) == (
        JobState.ERROR,
        JobStage.BUILD,
        MOST_LOSSES,
    )
