"""Through a store, builders learn what failed to build on other machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skipjack import app, plugins
from skipjack.app import RunOptions
from skipjack.fleet import detect_host
from skipjack.fleet.model import Done, JobPlan, JobStage, Label, WorkRequest, claim_result_of
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.fleet.work import make_worker
from skipjack.native import cpu
from skipjack.processes import this_process
from skipjack.settings import load_settings

PICKY = Path(__file__).parents[2] / "picky_solver.py"
PROBLEMS = ("add:777:f32", "add:778:f32")
ODD = {"1", "3"}
HERE = cpu.detect()


@pytest.fixture
def on(tmp_path: Path, user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Work on a machine from now on: its user directory, and the file of its compilations."""
    plugins.load((str(PICKY),))
    monkeypatch.setenv(plugins.VARIABLE, str(PICKY))
    monkeypatch.setenv("SKIPJACK_DB", f"sqlite:///{tmp_path / 'team.sqlite'}")
    key = tmp_path / "fleet.key"
    key.write_text("00" * 32 + "\n")
    key.chmod(0o600)
    monkeypatch.setenv("SKIPJACK_FLEET_KEY", str(key))

    def switch(name: str) -> Path:
        monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / name))
        monkeypatch.setenv("SKIPJACK_MACHINE", name)
        monkeypatch.setenv("PICKY_SOLVER_COUNT", str(tmp_path / f"compiled_{name}"))
        return tmp_path / f"compiled_{name}"

    return switch


def loaded(store: Store, label: str, *, budget: int, problems: tuple[str, ...] = PROBLEMS) -> None:
    store.problems.add([NewProblem(key, "add", "", "f32") for key in problems], tag="sums")
    plans = [
        JobPlan(key, HERE.name, "picky", "exhaustive", budget=budget, round=4) for key in problems
    ]
    store.jobs.add(Label(label, "me"), plans)


def run(label: str) -> None:
    app.run(RunOptions(label, builders=1, evaluators=1), settings=load_settings())


@pytest.mark.long
def test_two_evaluators_and_builders_of_another_machine_compile_no_known_failure(
    on: Callable[[str], Path],
) -> None:
    compiled = on("first")
    with open_store() as store:
        loaded(store, "one", budget=8, problems=PROBLEMS[:1])
        run("one")
        assert set(compiled.read_text().split()) > ODD
        compiled = on("second")
        loaded(store, "two", budget=8)
        with ThreadPoolExecutor(2) as threads:  # two runs, each with a builder and an evaluator
            list(threads.map(lambda _: run("two"), range(2)))
        counts = store.queue.live("two")
        assert {str(state): count for state, count in counts.items() if count} == {"evaluated": 2}
        assert not ODD & set(compiled.read_text().split())
        logs = [
            text.text for job in store.jobs.find(label="two") for text in store.jobs.log(job.id)
        ]
        assert any("it failed on first" in text for text in logs)


def test_a_store_tells_each_failure_and_its_candidates(
    store: Store, user_dir: Path, on: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    on("first")
    loaded(store, "one", budget=4, problems=PROBLEMS[:1])
    owner = store.queue.start_lease(this_process(), 60)
    machine = store.queue.register(detect_host("first"), "local")
    request = WorkRequest(machine.id, "slot", (HERE,))
    ((claim, task),) = store.queue.claim(owner, JobStage.BUILD, [request], label="one")
    worker = make_worker(JobStage.BUILD)
    try:
        outcome = worker.perform(task)
    finally:
        worker.close()
    assert store.queue.failed_builds(None) == ({}, 0.0)
    done = Done("slot", task.job, outcome, attempt=claim.attempt)
    assert store.queue.finish(owner, [claim_result_of(claim, done)]) == []
    facts, until = store.queue.failed_builds(None)
    assert until > 0
    numbers = Counter(row["reason"][-1] for row in facts["builds"])
    assert set(numbers) <= ODD and numbers
    assert {row["machine"] for row in facts["builds"]} == {"first"}
    assert {row["candidate"] for row in facts["candidate_builds"]} == {
        row["id"] for row in facts["candidates"]
    }
    again, later = store.queue.failed_builds(until)
    assert again == facts and later == until, "results of the last seconds may have been missed"
    assert store.queue.failed_builds(until + 60) == ({}, until + 60)
