"""Ray itself on a Slurm of two nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, until

from needs import need_ray
from skipjack.fleet.slurm import SlurmRequest, submit

RUN = (sys.executable, str(Path(__file__).with_name("ray_run.py")))


def processes_of(job: int) -> list[str]:
    """Running processes of a job's Ray, all of which have the directory as an argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"/tmp/skj-{job}." in words:
            found.append(words.replace("\0", " "))
    return found


@pytest.fixture
def place(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_ray()
    monkeypatch.chdir(tmp_path)
    # Two nodes of one host would share its memory between two object stores.
    monkeypatch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", str(100 << 20))
    return tmp_path


@pytest.mark.long
def test_tasks_run_on_every_node_and_nothing_is_left(slurm: SlurmCluster, place: Path) -> None:
    job = submit(SlurmRequest("l", nodes=2), skipjack=RUN).job
    ended = slurm.finish(job, 120)
    assert ended == "COMPLETED", (place / f"skipjack-{job}.out").read_text()
    assert json.loads((place / "told.json").read_text()) == {"nodes": 2, "cpus": 4.0}
    assert until(lambda: not processes_of(job), 20), processes_of(job)
    assert not list(Path("/tmp").glob(f"skj-{job}.*"))
