"""``skipjack job log``: the log of a finished stage, and of one that is running."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from skipjack.cli.fleet import jobs
from skipjack.cli.main import app
from skipjack.fleet.model import (
    Built,
    Claim,
    ClaimResult,
    Host,
    JobPlan,
    JobStage,
    Label,
    RunningLog,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.processes import ProcessIdentity

LINES = ("one", "two", "two", "three")


@pytest.fixture
def store(user_dir: Path) -> Iterator[Store]:
    with open_store() as opened:
        yield opened


def worked_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A job whose builder says a line whenever somebody waits, and is done after the last."""
    store.problems.add([NewProblem("relu:64:f32", "relu")], "t")
    store.jobs.add(Label("L", "me"), [JobPlan("relu:64:f32", "znver4/1")])
    machine = store.queue.register(Host("gpu7", 8, 1), "local")
    owner = store.queue.start_lease(ProcessIdentity("gpu7", 1), 60.0)
    ((claim, _),) = store.queue.claim(
        owner, JobStage.BUILD, [WorkRequest(machine.id, "b")], label="L"
    )
    said: list[str] = []

    def pause(seconds: float) -> None:
        text = "".join(f"{line}\n" for line in LINES[: len(said) + 1])
        if len(said) < len(LINES):
            said.append(LINES[len(said)])
            store.queue.store_logs(owner, [RunningLog(claim.job, claim.attempt, text)])
        elif seconds:
            done = ClaimResult(claim, Built(), log=f"{text}done\n", log_started=True)
            assert not store.queue.finish(owner, [done])

    pause(1.0)
    monkeypatch.setattr(jobs, "time", SimpleNamespace(sleep=pause))
    return claim


def shown(*words: str) -> list[str]:
    done = CliRunner().invoke(app, ["job", "log", *words])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_log_of_a_stage_is_followed_until_it_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = str(worked_on(store, monkeypatch).job)
    head, *lines = shown(job, "--follow")
    assert head.endswith("build of round 0 on gpu7, still running")
    assert lines == [*LINES, "done"]
    head, *lines = shown(job, "--follow")
    assert head.endswith("build of round 0 on gpu7"), "nothing runs any more"
    assert lines == [*LINES, "done"]


def test_machines_are_told_what_is_new(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job = str(worked_on(store, monkeypatch).job)
    assert [json.loads(line)["text"] for line in shown(job, "--json")] == ["one"]
    told = [json.loads(line) for line in shown(job, "--follow", "--json")]
    assert [one["text"] for one in told] == ["one\ntwo", "two", "three", "done"]
    assert [one["running"] for one in told] == [True, True, True, False]
    assert shown(job, "--follow", "--stage", "evaluate") == ["this job has no log yet"]
