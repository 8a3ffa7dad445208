"""A label from import to results, on a Slurm of two nodes with Ray."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, until

from needs import need_ray

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.long


@pytest.fixture
def ask(
    skipjack: Skipjack, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, object]]:
    """Runs a command with ``--json`` and returns its output."""
    need_ray()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", str(100 << 20))

    def run(*arguments: str) -> dict[str, object]:
        done = skipjack(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    return run


def load_jobs(ask: Callable[..., dict[str, object]], count: int, budget: int) -> None:
    keys = [f"matmul:{64 + 8 * n}x64x64\n" for n in range(count)]
    Path("problems.txt").write_text("".join(keys))
    ask("import", "-f", "problems.txt", "-t", "t")
    assert ask("load", "-t", "t", "-l", "a label", "--budget", str(budget))["jobs"] == count


def submit(ask: Callable[..., dict[str, object]], *more: str) -> int:
    answer = ask("run", "-l", "a label", "--engine", "slurm", "-N", "2", "--time", "10", *more)
    return int(str(answer["slurm_job"]))


def output(job: int) -> str:
    return Path(f"skipjack-{job}.out").read_text()


def counts(ask: Callable[..., dict[str, object]]) -> dict[str, int]:
    return ask("status", "-l", "a label")["states"]  # type: ignore[return-value]


def test_all_jobs_of_a_label_are_evaluated(
    ask: Callable[..., dict[str, object]], slurm: SlurmCluster
) -> None:
    load_jobs(ask, 4, budget=4)
    job = submit(ask)
    assert slurm.finish(job, 300) == "COMPLETED", output(job)
    assert counts(ask) == {"evaluated": 4}


def test_what_the_time_limit_interrupts_is_finished_by_the_next_job(
    ask: Callable[..., dict[str, object]], slurm: SlurmCluster
) -> None:
    load_jobs(ask, 48, budget=16)
    job = submit(ask)
    assert until(lambda: counts(ask).get("evaluated", 0) > 0, 300, pause_s=1), output(job)
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))
    slurm.finish(job, 120)
    left = counts(ask)
    assert left["evaluated"] < 48 and not {"building", "evaluating"} & set(left), left
    again = submit(ask)
    assert slurm.finish(again, 300) == "COMPLETED", output(again)
    assert counts(ask) == {"evaluated": 48}
