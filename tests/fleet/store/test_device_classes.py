"""Two devices of one name: each label is for one of them, and the other gets none of its jobs."""

from dataclasses import dataclass, replace

import pytest
from crew import LABEL, RESULT, ZEN, Crew, load, on_sqlite, only, states

from skipjack.core import Device, features_of
from skipjack.errors import UsageError
from skipjack.fleet.labels import PlanOptions, ProblemSelection, plan_jobs
from skipjack.fleet.model import Built, Host, JobPlan, JobStage, JobState, Label, Told
from skipjack.fleet.store import NewProblem, Store
from skipjack.processes import ProcessIdentity

NARROW = replace(ZEN, features=features_of("x86-64-v3"), vector_bytes=32)
WIDE = replace(ZEN, features=features_of("x86-64-v4"), vector_bytes=64)
KEY = "matmul:1x8x8"


@dataclass(frozen=True)
class Team(Crew):
    """A coordinator whose machine has one of the devices."""

    device: Device = ZEN

    def take(self, stage: JobStage, label: str | None = None) -> list[int]:
        devices = (self.device,) if stage is JobStage.EVALUATE else ()
        claimed = self.store.queue.claim(self.owner, stage, [self.want(9, devices)], label=label)
        return [claim.job for claim, _ in claimed]


def team(store: Store, name: str, device: Device, *, evaluates: bool = True) -> Team:
    machine = store.queue.register(Host(name, 8, 1 << 30, (device,)), "local", evaluates=evaluates)
    return Team(store, store.queue.start_lease(ProcessIdentity(name, 1), 60.0), machine.id, device)


def built(us: Team, label: str = LABEL) -> None:
    for claim, _ in us.store.queue.claim(us.owner, JobStage.BUILD, [us.want(9)], label=label):
        assert not us.finish(claim, Built())


def test_an_evaluator_of_the_same_name_and_another_class_gets_nothing(store: Store) -> None:
    load(store, 2)
    narrow = team(store, "narrow", NARROW)
    wide = team(store, "wide", WIDE)
    assert len(narrow.take(JobStage.EVALUATE, LABEL)) == 0  # which decides what the label is for
    built(wide)  # anybody builds
    assert states(store) == {JobState.BUILT: 2}
    assert wide.take(JobStage.EVALUATE, LABEL) == wide.take(JobStage.EVALUATE) == []
    assert len(narrow.take(JobStage.EVALUATE, LABEL)) == 2


def test_a_newer_registration_does_not_change_what_others_are_built_for(store: Store) -> None:
    narrow = team(store, "narrow", NARROW)
    load(store)
    team(store, "wide", WIDE)
    assert narrow.claim(JobStage.BUILD)[1].device == NARROW


def test_jobs_for_a_name_that_two_devices_have_need_to_be_told_which(store: Store) -> None:
    team(store, "a", NARROW)
    team(store, "b", WIDE)
    store.problems.add([NewProblem(KEY, "matmul", "", "f32")], "tag")
    asked = ProblemSelection(tag="tag")
    with pytest.raises(UsageError, match="2 different devices are called znver4/1") as error:
        plan_jobs(store, asked, PlanOptions(("znver4/1",)))
    assert "znver4/1 (256-bit) on a" in str(error.value)
    assert "znver4/1 (512-bit) on b" in str(error.value) and "--as-on" in str(error.value)
    for machine, device in (("a", NARROW), ("b", WIDE)):
        planned = plan_jobs(store, asked, PlanOptions(("znver4/1",), label=machine, as_on=machine))
        assert planned.chosen == {"znver4/1": device}
        store.jobs.add(Label(machine, "me"), planned.plans, chosen=planned.chosen)
        # A label knows from then on which one it is for.
        again = plan_jobs(store, asked, PlanOptions(("znver4/1",), label=machine))
        assert again.chosen == planned.chosen
    with pytest.raises(UsageError, match="label a is for another znver4/1 than that of b"):
        plan_jobs(store, asked, PlanOptions(("znver4/1",), label="a", as_on="b"))
    with pytest.raises(UsageError, match="no machine c with znver4/1 was seen"):
        plan_jobs(store, asked, PlanOptions(("znver4/1",), as_on="c"))
    assert store.jobs.counts(by=["device", "label"]) == [
        (("znver4/1 (256-bit)", "a"), 1),
        (("znver4/1 (512-bit)", "b"), 1),
    ]
    assert [job.device_text for job in store.jobs.find()] == [
        "znver4/1 (256-bit)",
        "znver4/1 (512-bit)",
    ]
    assert {job.plan.device for job in store.jobs.find()} == {"znver4/1"}


@on_sqlite
def test_who_names_no_device_means_that_of_this_machine(store: Store) -> None:
    store.problems.add([NewProblem(KEY, "matmul", "", "f32")], "tag")
    terms = PlanOptions(("znver4/1",), here=(WIDE,))
    assert (
        plan_jobs(store, ProblemSelection(tag="tag"), terms).chosen == {}
    )  # the first that turns up
    team(store, "a", NARROW)
    assert plan_jobs(store, ProblemSelection(tag="tag"), terms).chosen == {"znver4/1": WIDE}


@on_sqlite
def test_what_was_built_by_name_and_cannot_run_on_the_real_one_is_built_again(
    store: Store,
) -> None:
    load(store, device="skylake-avx512/1")
    head = team(store, "head", ZEN)
    built(head)
    assert only(store).status.state is JobState.BUILT
    real = replace(NARROW, arch="skylake-avx512")
    us = team(store, "us", real)
    assert us.take(JobStage.EVALUATE, LABEL) == []
    job = only(store)
    assert job.status.state is JobState.NEW and "x86-64-v4" in job.status.reason
    assert us.claim(JobStage.BUILD)[1].device == real


@on_sqlite
def test_a_machine_that_only_builds_does_not_say_what_labels_are_for(store: Store) -> None:
    team(store, "head", WIDE, evaluates=False)
    load(store)
    narrow = team(store, "narrow", NARROW)
    assert narrow.claim(JobStage.BUILD)[1].device == NARROW


@on_sqlite
def test_a_label_that_has_not_begun_follows_a_machine_that_changes(store: Store) -> None:
    us = team(store, "us", NARROW)
    load(store)
    team(store, "us", WIDE)
    assert us.claim(JobStage.BUILD)[1].device == WIDE


@on_sqlite
def test_a_label_that_has_begun_stays_with_what_it_was_measured_on(store: Store) -> None:
    us = team(store, "us", NARROW)
    load(store)
    built(us)
    changed = team(store, "us", WIDE)
    assert changed.take(JobStage.EVALUATE, LABEL) == []
    store.jobs.add(Label("anew", "me"), [JobPlan(KEY, "znver4/1")])
    assert [job.device_class for job in store.jobs.find(label="anew")] == [WIDE.class_key]


@on_sqlite
def test_labels_learn_only_from_results_on_the_same_device(store: Store) -> None:
    us = team(store, "a", NARROW)
    team(store, "b", WIDE)
    store.problems.add([NewProblem(KEY, "matmul", "", "f32")], "tag")
    plan = [JobPlan(KEY, "znver4/1")]
    store.jobs.add(Label(LABEL, "me"), plan, chosen={"znver4/1": NARROW})
    built(us)
    want = us.want(1, (NARROW,))
    ((claim, _),) = store.queue.claim(us.owner, JobStage.EVALUATE, [want], label=LABEL)
    assert not us.finish(claim, Told(True), result=RESULT)
    assert store.jobs.stale(NARROW, "llvm 20", [1]) == set()
    assert store.jobs.stale(WIDE, "llvm 20", [1]) == {1}
