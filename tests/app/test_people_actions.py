"""Actions are recorded with who did them: in the history of jobs, and in a list."""

from pathlib import Path

import pytest

from skipjack.app import (
    ActionTarget,
    ResetRequest,
    abort_jobs,
    disable_machines,
    enable_machines,
    recorded_actions,
    reset_jobs,
    resume_jobs,
)
from skipjack.errors import UsageError
from skipjack.fleet.model import JobPlan, JobState, Label, Registration
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.settings import load_settings


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = open_store(settings=load_settings(user_dir=tmp_path))
    opened.problems.add([NewProblem("matmul:64x64x64", "matmul")], "tag")
    opened.jobs.add(Label("resnet", "ann"), [JobPlan("matmul:64x64x64", "znver4/1")])
    opened.registrations.add(Registration("gpu7", "10.0.0.7"))
    return opened


def test_an_abort_and_a_resume_say_who_did_them(store: Store) -> None:
    label = ActionTarget(label="resnet")
    assert abort_jobs(store, label, by="ben", reason="too hot").sentence == "1 job aborted"
    (job,) = store.jobs.find()
    assert job.status.reason == "aborted by ben: too hot"
    assert resume_jobs(store, label, by="ann").jobs == 1
    assert [(one.event, one.reason) for one in store.jobs.history(job.id)] == [
        ("aborted", "aborted by ben: too hot"),
        ("resumed", "resumed by ann"),
    ]
    newest, before = recorded_actions(store, kind="label", target="resnet")
    assert (newest.who, newest.action, newest.jobs) == ("ann", "resume", 1)
    assert (before.who, before.action, before.reason) == ("ben", "abort", "too hot")


def test_a_reset_says_who_did_it(store: Store) -> None:
    (job,) = store.jobs.find()
    done = reset_jobs(store, ResetRequest("resnet", JobState.NEW, JobState.NEW), by="ben")
    assert done.reset == 1
    assert [one.reason for one in store.jobs.history(job.id)] == ["to new by ben"]
    (action,) = recorded_actions(store)
    assert (action.action, action.reason, action.jobs) == ("reset", "new to new", 1)


def test_single_jobs_can_be_reset(store: Store) -> None:
    store.problems.add([NewProblem("matmul:32x32x32", "matmul")], "tag")
    store.jobs.add(Label("resnet", "ann"), [JobPlan("matmul:32x32x32", "znver4/1")])
    first, second = store.jobs.find()
    one = ResetRequest("resnet", JobState.NEW, JobState.NEW, jobs=[second.id])
    assert reset_jobs(store, one, by="ben").reset == 1
    assert f"job {one.jobs[0]}" in recorded_actions(store)[0].reason
    assert not store.jobs.history(first.id)


def test_machines_remember_who_disabled_and_enabled_them(store: Store) -> None:
    assert disable_machines(store, ["gpu7"], by="ben", reason="new fans") == ["gpu7"]
    assert store.registrations.get("gpu7").disabled_why == "disabled by ben: new fans"
    assert enable_machines(store, ["gpu7"], by="ann") == ["gpu7"]
    done = recorded_actions(store, kind="machine", target="gpu7")
    assert [(one.action, one.who) for one in done] == [("enable", "ann"), ("disable", "ben")]


def test_a_refused_action_is_not_recorded(store: Store) -> None:
    with pytest.raises(UsageError, match="did you mean resnet"):
        abort_jobs(store, ActionTarget(label="resnt"), by="ben")
    assert recorded_actions(store) == []


def test_a_target_is_one_thing() -> None:
    with pytest.raises(UsageError, match="name one target"):
        ActionTarget(label="resnet", machine="gpu7")
