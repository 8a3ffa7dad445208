"""Stop, go on, start over."""

import pytest
from crew import (
    ZEN,
    crew,
    found_out,
    load,
    on_sqlite,
    only,
    rows,
    states,
    words_of,
)

from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.fleet.model import Built, Failed, Host, Inapplicable, JobStage, JobState, Registration
from skipjack.fleet.store import Store


@pytest.mark.parametrize("what", [{"label": "resnet"}, {"device": ZEN.name}])
def test_a_stop_takes_all_jobs_from_their_owners_and_resume_gives_them_back(
    store: Store, what: dict[str, str]
) -> None:
    load(store, 4)
    load(store, 1, label="other", device="skylake/1")
    us = crew(store)
    us.build()
    held = us.claims(JobStage.BUILD, 1, label="resnet") + us.claims(JobStage.EVALUATE, 1)
    assert store.jobs.abort(**what, reason="they are needed elsewhere") == 4
    assert states(store) == {JobState.ABORTED: 4, JobState.NEW: 1}
    assert store.queue.renew(us.owner) == {}
    assert us.finish(held[0][0], Built()) == [held[0][0]]
    assert {job.status.reason for job in store.jobs.find(state=JobState.ABORTED)} == {
        "they are needed elsewhere"
    }
    assert store.jobs.resume(**what) == 4
    assert states(store) == {JobState.NEW: 4, JobState.BUILT: 1}


def test_a_machine_that_is_stopped_gives_its_jobs_back(store: Store) -> None:
    load(store, 3)
    us, they = crew(store, "us"), crew(store, "them")
    us.build()
    us.claims(JobStage.EVALUATE)
    us.claims(JobStage.BUILD)
    they.claims(JobStage.BUILD)
    assert store.jobs.abort(machine="us") == 2
    assert states(store) == {JobState.NEW: 1, JobState.BUILT: 1, JobState.BUILDING: 1}
    assert [machine.aborted for machine in store.machines.all()] == [False, True]
    assert store.jobs.resume(machine="us") == 0
    assert [machine.aborted for machine in store.machines.all()] == [False, False]


@on_sqlite
def test_a_job_that_was_stopped_twice_waits_for_both(store: Store) -> None:
    load(store)
    store.jobs.abort(label="resnet")
    assert store.jobs.abort(device=ZEN.name) == 0
    assert store.jobs.resume(label="resnet") == 0
    assert states(store) == {JobState.ABORTED: 1}
    assert store.jobs.resume(device=ZEN.name) == 1


@on_sqlite
def test_what_is_over_is_not_stopped(store: Store) -> None:
    load(store)
    us = crew(store)
    us.finish(us.claim(JobStage.BUILD)[0], Inapplicable("no solver"))
    assert store.jobs.abort(label="resnet") == 0
    assert states(store) == {JobState.NOT_APPLICABLE: 1}


@on_sqlite
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"label": "resnt"}, "did you mean resnet"),
        ({"device": "znver5/1"}, "did you mean znver4/1"),
        ({"machine": "hots"}, "did you mean host"),
        ({}, "name one"),
        ({"label": "resnet", "machine": "host"}, "name one"),
    ],
)
def test_names_that_nobody_knows_are_refused(
    store: Store, what: dict[str, str], message: str
) -> None:
    load(store)
    crew(store)
    for verb in (store.jobs.abort, store.jobs.resume):
        with pytest.raises(UsageError, match=message):
            verb(**what)


def test_what_is_evaluated_starts_over_in_a_new_epoch(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build(facts="old")
    us.tell(finished=True)
    count = store.jobs.reset("resnet", JobState.EVALUATED, JobState.NEW)
    assert (count.reset, count.refused) == (1, 0)
    job = only(store)
    assert (job.status.state, job.status.epoch, job.trials, job.best_ns, job.result) == (
        JobState.NEW,
        1,
        0,
        None,
        None,
    )
    claim, task = us.claim(JobStage.BUILD)
    assert (task.epoch, task.round, task.facts) == (1, 0, ())
    assert us.finish(claim, Built(), facts=found_out("new")) == []
    assert words_of(us.claim(JobStage.EVALUATE)[1].facts) == ("new",)
    assert rows(store, "rounds") == 3


def test_an_error_is_repeated_from_where_it_happened(store: Store) -> None:
    load(store, 2)
    us = crew(store)
    us.build()
    for _ in range(3):
        us.finish(us.claim(JobStage.EVALUATE)[0], Failed("no device"))
        us.finish(us.claim(JobStage.BUILD)[0], Failed("no compiler"))
        store.jobs.resume(machine="host")  # which is set aside after five failures
    assert states(store) == {JobState.ERROR: 2}
    count = store.jobs.reset("resnet", JobState.ERROR, JobState.BUILT)
    assert (count.reset, count.refused) == (1, 1)
    assert "cannot be reset to built" in count.reasons[0]
    assert store.jobs.reset("resnet", JobState.ERROR, JobState.NEW, device=ZEN.name).reset == 1
    assert states(store) == {JobState.BUILT: 1, JobState.NEW: 1}


@on_sqlite
def test_what_somebody_works_on_is_not_reset(store: Store) -> None:
    load(store)
    crew(store).claim(JobStage.BUILD)
    count = store.jobs.reset("resnet", JobState.BUILDING, JobState.NEW)
    assert (count.reset, count.refused) == (0, 1)
    assert states(store) == {JobState.BUILDING: 1}


GPU7 = Registration("gpu7", "10.0.0.7", device="gfx900/56")


def test_a_registered_machine_is_stopped_before_it_was_ever_seen(store: Store) -> None:
    store.registrations.add(GPU7)
    assert store.jobs.abort(machine="gpu7") == 0
    assert store.registrations.get("gpu7").aborted and store.machines.all() == []
    load(store)
    us = crew(store, "gpu7")
    assert [machine.aborted for machine in store.machines.all()] == [True]
    assert us.claims(JobStage.BUILD) == []
    assert store.jobs.resume(machine="gpu7") == 0
    assert len(us.claims(JobStage.BUILD)) == 1
    assert not store.registrations.get("gpu7").aborted


@on_sqlite
def test_a_stop_is_taken_back_before_the_machine_was_seen(store: Store) -> None:
    store.registrations.add(GPU7)
    store.jobs.abort(machine="gpu7")
    store.jobs.resume(machine="gpu7")
    assert not store.queue.register(Host("gpu7", 8, 1 << 30), "ray").aborted
    with pytest.raises(UsageError, match="did you mean gpu7"):
        store.jobs.abort(machine="gpu77")


def test_an_architecture_stops_with_all_its_devices_and_those_to_come(store: Store) -> None:
    for device in ("gfx900/56", "gfx900/64", "gfx90a/104"):
        load(store, device=device)
    assert [name for name, _ in store.jobs.touched(arch="gfx900")] == ["resnet"]
    assert store.jobs.abort(arch="gfx900") == 2
    load(store, device="gfx900/60")
    store.queue.register(Host("host", 8, 1 << 30, (Device("hip", "gfx900", 44, "x"),)), "local")
    assert store.machines.stopped_devices() == ["gfx900/44", "gfx900/56", "gfx900/60", "gfx900/64"]
    assert store.machines.stopped_architectures() == ["gfx900"]
    assert states(store) == {JobState.ABORTED: 2, JobState.NEW: 2}
    assert store.jobs.resume(arch="gfx900") == 2
    assert store.machines.stopped_devices() == store.machines.stopped_architectures() == []
    load(store, device="gfx900/36")
    assert store.machines.stopped_devices() == []


@on_sqlite
def test_one_device_of_a_stopped_architecture_may_go_on(store: Store) -> None:
    load(store, device="gfx900/56")
    load(store, device="gfx900/64")
    store.jobs.abort(arch="gfx900")
    assert store.jobs.resume(device="gfx900/64") == 1
    assert store.machines.stopped_devices() == ["gfx900/56"]


@on_sqlite
def test_an_architecture_is_known_by_jobs_or_by_machines(store: Store) -> None:
    with pytest.raises(UsageError, match="unknown architecture 'gfx90': there is none yet"):
        store.jobs.abort(arch="gfx90")
    store.registrations.add(GPU7)
    assert store.jobs.abort(arch="gfx900") == 0
    with pytest.raises(UsageError, match="unknown architecture 'gfx90': did you mean gfx900"):
        store.jobs.resume(arch="gfx90")
