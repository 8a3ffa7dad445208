"""A real job, built on a machine with the store and evaluated without store or cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from built_jobs import LABEL, export

from processes import PATIENCE_S
from skipjack.fleet import detect_host
from skipjack.fleet.bundle import import_bundle
from skipjack.fleet.model import (
    Done,
    JobPlan,
    JobStage,
    JobState,
    Label,
    WorkRequest,
    claim_result_of,
)
from skipjack.fleet.signature import FILE_NAME
from skipjack.fleet.store import NewProblem, Store
from skipjack.fleet.work import make_worker
from skipjack.processes import ProcessIdentity

MISSING = ("sqlalchemy", "alembic", "psycopg", "pymysql", "ray", "platformdirs", "torch")
BARE = f"""
import sys
for name in {MISSING!r}:
    sys.modules[name] = None
from skipjack.cli import run
run()
"""


def build_really(store: Store, problem: str) -> None:
    host = detect_host()
    store.problems.add([NewProblem(problem, "add", "", "f32")], "some")
    plan = JobPlan(problem, host.devices[0].name, solver="nest", budget=2, round=2)
    store.jobs.add(Label(LABEL, "ada"), [plan])
    machine, owner = (
        store.queue.register(host, "local"),
        store.queue.start_lease(ProcessIdentity("head", 1), 60.0),
    )
    worker = make_worker(JobStage.BUILD)
    try:
        for claim, task in store.queue.claim(
            owner, JobStage.BUILD, [WorkRequest(machine.id, "b0")]
        ):
            outcome = worker.perform(task)
            assert not outcome.failed
            store.queue.finish(owner, [claim_result_of(claim, Done("b0", claim.job, outcome))])
    finally:
        worker.close()


def on_a_bare_machine(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``skipjack`` where none of the packages for stores and clusters is installed."""
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, "SKIPJACK_USER_DB_PATH": str(home), "SKIPJACK_MACHINE": "bare"},
    )


@pytest.mark.long
def test_a_job_is_evaluated_with_numpy_and_the_device_s_packages_alone(
    file_store: Store, user_dir: Path, jobs: Path, results: Path, tmp_path: Path
) -> None:
    build_really(file_store, "add:256:f32")
    export(file_store, jobs)
    command = ("bundle", "evaluate", str(jobs), "-o", str(results))
    refused = on_a_bare_machine(tmp_path / "bare", *command)
    assert refused.returncode == 2
    assert f"copy {FILE_NAME}" in refused.stderr
    assert not results.exists()
    done = on_a_bare_machine(
        tmp_path / "bare", *command, "--key", str(user_dir / FILE_NAME), "--json"
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["done"], counts["failed"]) == (1, 0)
    assert not (tmp_path / "bare" / FILE_NAME).exists()
    assert import_bundle(file_store, results).finished == 1
    (job,) = file_store.jobs.find(label=LABEL)
    assert (job.status.state, job.eval_machine) == (JobState.EVALUATED, "bare")
