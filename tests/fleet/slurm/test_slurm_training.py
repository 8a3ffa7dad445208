"""A policy is trained in a Slurm job that starts Ray on its nodes."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, until

from needs import need_ray

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.long
DIMS = ("--dim-a", "16:32:16,16:32:16", "--dim-b", "16:32:16,16:32:16")


@pytest.fixture
def place(
    skipjack: Skipjack, slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    need_ray()
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", str(100 << 20))
    done = skipjack("loops", "dataset", "--kind", "mm", *DIMS, "-o", "tiny")
    assert done.returncode == 0, done.stderr
    return tmp_path


def submitted(skipjack: Skipjack, *words: str) -> int:
    done = skipjack(
        *("loops", "train", "--engine", "slurm", "-N", "2", "--time", "10", "--workers", "1"),
        *("--json", *words),
    )
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["slurm_job"])


def steps(run: Path) -> int:
    if not (run / "curves.csv").exists():
        return 0
    with (run / "curves.csv").open() as file:
        return max((int(row["steps"]) for row in csv.DictReader(file)), default=0)


def test_a_job_trains_and_judges_and_an_interrupted_one_is_continued(
    skipjack: Skipjack, slurm: SlurmCluster, place: Path
) -> None:
    new = ("--dataset", "tiny", "--total-steps", "4000000", "--episodes", "32", "--out", "run")
    judged = ("--eval-size", "1", "--eval-budget", "3", "--eval-rates", "model")
    job = submitted(skipjack, *new, *judged)
    said = place / f"skipjack-{job}.out"
    assert until(lambda: steps(place / "run") > 0, 200, pause_s=1), said.read_text()
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))
    slurm.finish(job, 120)
    assert "continue with skipjack loops train --resume" in said.read_text()
    done = steps(place / "run")
    record = json.loads((place / "run/run.json").read_text())
    assert record["sessions"][-1]["ended"] == "interrupted"
    assert record["sessions"][-1]["engine"] == "ray"

    more = ("--resume", "run", "--total-steps", str(done + 320))
    again = submitted(skipjack, *more)
    said = place / f"skipjack-{again}.out"
    assert slurm.finish(again, 200) == "COMPLETED", said.read_text()
    assert "Saved at: " in said.read_text()
    assert steps(place / "run") >= done + 320
    assert (place / "run/evaluation/steps.csv").exists()
