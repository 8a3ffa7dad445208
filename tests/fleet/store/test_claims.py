"""Claims: which worker gets which job, with which inputs; no job is claimed twice."""

from dataclasses import replace

import pytest
from crew import (
    LABEL,
    SKYLAKE,
    ZEN,
    crew,
    found_out,
    load,
    on_sqlite,
    only,
    states,
    words_of,
)

from skipjack.errors import UsageError
from skipjack.fleet.model import (
    ArtifactLost,
    Built,
    Failed,
    JobKind,
    JobPlan,
    JobStage,
    JobState,
    Label,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store


def test_a_claim_takes_as_many_jobs_as_are_wanted_and_there(store: Store) -> None:
    load(store, 5)
    us = crew(store)
    assert len(us.claims(JobStage.BUILD, 3)) == 3
    assert len(us.claims(JobStage.BUILD, 3)) == 2
    assert us.claims(JobStage.BUILD, 3) == []
    assert states(store) == {JobState.BUILDING: 5}


@on_sqlite
def test_few_jobs_are_spread_over_all_workers(store: Store) -> None:
    load(store, 3)
    us = crew(store)
    wants = [us.want(3, slot=slot) for slot in "abc"]
    claimed = store.queue.claim(us.owner, JobStage.BUILD, wants)
    assert [claim.slot for claim, _ in claimed] == ["a", "b", "c"]


def test_a_claim_can_be_for_one_label(store: Store) -> None:
    load(store, 2)
    other = load(store, 1, label="other")
    us = crew(store)
    assert [claim.job for claim, _ in us.claims(JobStage.BUILD, 9, label="other")] == other
    with pytest.raises(UsageError, match="did you mean other"):
        us.claims(JobStage.BUILD, 9, label="othr")


def test_an_evaluator_gets_jobs_of_its_devices_only(store: Store) -> None:
    zen = load(store, 1)
    skylake = load(store, 1, device="skylake/1")
    us = crew(store)
    for claim, _ in us.claims(JobStage.BUILD, 2):
        us.finish(claim, Built())
    wants = [us.want(2, (SKYLAKE,), "a"), us.want(2, (ZEN, SKYLAKE), "b")]
    claimed = store.queue.claim(us.owner, JobStage.EVALUATE, wants)
    assert [(claim.job, claim.slot) for claim, _ in claimed] == [(*skylake, "a"), (*zen, "b")]


def test_a_claim_can_be_for_some_devices_at_any_stage(store: Store) -> None:
    zen = load(store, 2)
    skylake = load(store, 2, device="skylake/1")
    us = crew(store)
    for stage in JobStage:
        want = [us.want(9, (ZEN, SKYLAKE) if stage is JobStage.EVALUATE else ())]
        claimed = store.queue.claim(us.owner, stage, want, label=LABEL, only=["skylake/1"])
        assert [claim.job for claim, _ in claimed] == skylake
        if stage is JobStage.BUILD:
            for claim, _ in claimed:
                us.finish(claim, Built())
    assert {job.status.state for job in store.jobs.find(device=ZEN.name)} == {JobState.NEW}
    assert store.queue.live(LABEL, devices=[ZEN.name]) == {JobState.NEW: len(zen)}


def test_jobs_of_miopen_pass_a_builder_of_nothing_else(store: Store) -> None:
    load(store, 2, device="gfx900/56")
    plan = JobPlan("matmul:1x8x8", "gfx900/56")
    store.jobs.add(Label(LABEL, "me"), [replace(plan, solver="miopen", driver="miopen")])
    store.jobs.add(Label(LABEL, "me"), [replace(plan, kind=JobKind.FIND, driver="miopen")])
    us = crew(store)
    for builds_for in ((), ("skylake/1",)):
        want = replace(us.want(9), builds_for=builds_for)
        claimed = store.queue.claim(us.owner, JobStage.BUILD, [want], label=LABEL)
        assert [task.plan.kind for _, task in claimed] == [JobKind.TUNE, JobKind.FIND]
        assert all(task.plan.by_miopen for _, task in claimed)
        store.queue.release(us.owner, [claim.job for claim, _ in claimed], "once more")
    assert store.queue.built_for(LABEL) == {"gfx900/56": False}


@on_sqlite
def test_a_task_has_the_plan_and_the_record_of_a_real_device(store: Store) -> None:
    (id,) = load(store)
    _, task = crew(store).claim(JobStage.BUILD)
    assert task.plan == JobPlan("matmul:1x8x8", ZEN.name)
    assert (task.job, task.stage, task.device, task.facts) == (id, JobStage.BUILD, ZEN, ())


@on_sqlite
def test_a_device_stays_as_it_was_when_the_first_round_was_built(store: Store) -> None:
    load(store, device="skylake/1")
    us = crew(store)
    claim, task = us.claim(JobStage.BUILD)
    assert task.device.arch == "skylake" and "avx2" in str(task.device.features)
    us.finish(claim, Built())
    assert us.claim(JobStage.EVALUATE)[1].device == task.device


@on_sqlite
def test_a_device_that_nobody_knows_makes_its_jobs_not_applicable(store: Store) -> None:
    load(store, device="abacus/1")
    assert crew(store).claims(JobStage.BUILD) == []
    status = only(store).status
    assert status.state is JobState.NOT_APPLICABLE and "abacus" in status.reason
    assert [line.event for line in store.jobs.history(only(store).id)] == [
        "claimed",
        "inapplicable",
    ]


@on_sqlite
def test_every_stage_gets_the_facts_of_all_before_it_in_order(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build(b"one", facts="b0")
    us.tell(finished=False, facts="e0")
    claim, task = us.claim(JobStage.BUILD)
    assert (task.round, words_of(task.facts)) == (1, ("b0", "e0"))
    us.finish(claim, Built(), facts=found_out("b1"))
    assert words_of(us.claim(JobStage.EVALUATE)[1].facts) == ("b0", "e0", "b1")


@on_sqlite
def test_an_evaluation_gets_what_its_round_built(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build(b"first", b"second")
    assert set(us.claims(JobStage.EVALUATE)[0][1].artifacts.values()) == {b"first", b"second"}
    store.queue.end_lease(us.owner, "done for today")
    us = crew(store)
    us.tell(finished=False)
    us.build(b"second", b"third")  # a builder brings the leaders so far along
    assert set(us.claim(JobStage.EVALUATE)[1].artifacts.values()) == {b"second", b"third"}


def test_a_round_whose_artifact_is_lost_is_built_again(store: Store) -> None:
    load(store)
    us = crew(store)
    us.build(b"code", facts="asked for these")
    claim, _ = us.claim(JobStage.EVALUATE)
    us.finish(claim, ArtifactLost("the file is gone"))
    claim, task = us.claim(JobStage.BUILD)
    assert (task.round, task.facts) == (0, ())  # requested again: the new facts replace them
    us.finish(claim, Built(), facts=found_out("built them again"))
    assert words_of(us.claim(JobStage.EVALUATE)[1].facts) == ("built them again",)


@on_sqlite
def test_a_machine_that_was_told_to_stop_gets_nothing(store: Store) -> None:
    load(store)
    us = crew(store)
    store.jobs.abort(machine="host")
    assert us.claims(JobStage.BUILD) == []
    store.jobs.resume(machine="host")
    assert len(us.claims(JobStage.BUILD)) == 1


@pytest.mark.parametrize("what", [{"label": "resnet"}, {"device": ZEN.name}])
def test_jobs_that_are_loaded_while_theirs_is_stopped_wait(
    store: Store, what: dict[str, str]
) -> None:
    load(store, 1)
    store.jobs.abort(**what)
    load(store, 2)
    us = crew(store)
    assert us.claims(JobStage.BUILD) == us.claims(JobStage.BUILD, label="resnet") == []
    assert states(store) == {JobState.ABORTED: 1, JobState.NEW: 1}
    store.jobs.resume(**what)
    assert len(us.claims(JobStage.BUILD, 9)) == 2


@on_sqlite
def test_an_owner_whose_lease_was_swept_gets_nothing(store: Store) -> None:
    load(store)
    us = crew(store)
    store.queue.end_lease(us.owner, "gone")
    assert us.claims(JobStage.BUILD) == []


@on_sqlite
def test_an_attempt_is_counted_for_every_claim(store: Store) -> None:
    load(store)
    us = crew(store)
    first, _ = us.claim(JobStage.BUILD)
    us.finish(first, Failed("disk full"))
    second, _ = us.claim(JobStage.BUILD)
    assert (first.attempt, second.attempt, only(store).attempt) == (1, 2, 2)


@on_sqlite
def test_no_want_no_job(store: Store) -> None:
    load(store)
    us = crew(store)
    assert store.queue.claim(us.owner, JobStage.BUILD, []) == []
    assert store.queue.claim(us.owner, JobStage.BUILD, [WorkRequest(us.machine, "0", (), 0)]) == []


@on_sqlite
def test_the_problem_of_a_task_is_its_own(store: Store) -> None:
    store.problems.add([NewProblem("add:4", "add", "", "f32")], "t")
    load(store, 3)
    store.jobs.add(Label("adds", "me"), [JobPlan("add:4", ZEN.name)])
    claimed = crew(store).claims(JobStage.BUILD, 9)
    problems = {job.id: job.plan.problem for job in store.jobs.find()}
    assert {claim.job: task.plan.problem for claim, task in claimed} == problems
