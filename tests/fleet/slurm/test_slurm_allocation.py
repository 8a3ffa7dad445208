"""The batch script on a real Slurm of two nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster, until

from processes import PATIENCE_S
from skipjack.errors import UsageError
from skipjack.fleet.slurm import SlurmRequest, submit

HERE = Path(__file__).parent
RUN = (sys.executable, str(HERE / "stand_in_run.py"))


@pytest.fixture
def place(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of submitted jobs, where the stand-ins for Ray and the coordinator report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STAND_IN_PLACE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(HERE / "stand_in_ray"))
    (tmp_path / "jobs").write_text("a\nb")
    return tmp_path


def history(place: Path) -> list[str]:
    path = place / "story"
    return path.read_text().splitlines() if path.exists() else []


def output(place: Path, job: int) -> str:
    return (place / f"skipjack-{job}.out").read_text()


def leftovers(job: int) -> list[str]:
    """The files of a job. The first run of a requeued job ends after Slurm reports the requeue."""

    def found() -> list[str]:
        return [str(path) for path in Path("/tmp").glob(f"skj-{job}.*")]

    until(lambda: not found(), PATIENCE_S)
    return found()


def start_waiting(slurm: SlurmCluster, place: Path, request: SlurmRequest) -> int:
    """Submit, and come back when the coordinator hangs in the middle of its work."""
    (place / "jobs").write_text("a\nwait\nb")
    job = submit(request, skipjack=RUN).job
    assert until(lambda: "did a" in history(place), 60), output(place, job)
    return job


def test_a_label_is_run_on_all_nodes_to_the_end(slurm: SlurmCluster, place: Path) -> None:
    label = """it's "a" label $(touch pwned) `touch pwned` \\ %j"""
    request = SlurmRequest(label, nodes=2, gpus_per_node=8, run_arguments=("--build", "a b"))
    job = submit(request, skipjack=RUN).job
    assert slurm.finish(job) == "COMPLETED", output(place, job)
    assert history(place) == ["started", "did a", "did b"]
    argv = json.loads((place / "argv").read_text())
    assert argv[:-1] == ["run", "-l", label, "--engine", "ray", "--build", "a b", "--address"]
    told = [json.loads((place / f"told-{node}").read_text()) for node in ("n1", "n2")]
    assert f"--address={argv[-1]}" in told[1]["arguments"]
    assert not (place / "pwned").exists()
    assert not list(place.glob("node-*")) and not leftovers(job)


def test_nodes_share_a_token_that_nobody_else_can_read(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of another cluster")
    job = submit(SlurmRequest("l", nodes=2), skipjack=RUN).job
    assert slurm.finish(job) == "COMPLETED", output(place, job)
    first, second = (json.loads((place / f"told-{node}").read_text()) for node in ("n1", "n2"))
    assert first["token"] == second["token"] and len(first["token"]) == 64
    assert (first["mode"], first["inherited"]) == ("token", None)
    assert (first["token_bits"], first["place_bits"]) == (0o600, 0o700)
    assert first["token"] not in output(place, job)
    assert "--num-gpus=0" in first["arguments"]


def test_before_the_time_limit_the_coordinator_gives_back(slurm: SlurmCluster, place: Path) -> None:
    job = start_waiting(slurm, place, SlurmRequest("l"))
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))  # what --signal=B:USR1@60 does
    assert slurm.finish(job) == "FAILED"
    assert slurm.exit_code(job) == 143
    assert history(place) == ["started", "did a", "gave back"]
    assert "submit the same again" in output(place, job)


def test_until_done_goes_back_into_the_queue(slurm: SlurmCluster, place: Path) -> None:
    job = start_waiting(slurm, place, SlurmRequest("l", until_done=True))
    (place / "jobs").write_text("wait\nb")
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))
    assert until(lambda: "gave back" in history(place), PATIENCE_S)
    (place / "jobs").write_text("b")
    # Slurm holds a requeued job for two minutes, so that its nodes can clean up.
    assert until(lambda: slurm.state(job) == "PENDING" and not slurm.stays(job), PATIENCE_S)
    # Its nodes refuse it within the second in which they saw it off.
    slurm.ask("scontrol", "update", f"JobId={job}", "StartTime=now+2")
    assert slurm.finish(job) == "COMPLETED", output(place, job)
    assert history(place) == ["started", "did a", "gave back", "started", "did b"]
    assert not leftovers(job)


@pytest.mark.long
def test_a_coordinator_that_does_not_listen_is_ended(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_DEAF", "yes")
    job = start_waiting(slurm, place, SlurmRequest("l", nodes=2, margin_s=30))
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))
    assert slurm.finish(job) == "FAILED"
    assert slurm.exit_code(job) == 137
    assert not leftovers(job)


def test_a_cancelled_job_gives_back_and_stays_away(slurm: SlurmCluster, place: Path) -> None:
    job = start_waiting(slurm, place, SlurmRequest("l", until_done=True))
    slurm.ask("scancel", str(job))
    assert slurm.finish(job) == "CANCELLED"
    assert history(place) == ["started", "did a", "gave back"]


def test_work_starts_without_a_node_that_does_not_come(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_BROKEN", "n2")
    job = submit(SlurmRequest("l", nodes=2, gather_s=1), skipjack=RUN).job
    assert slurm.finish(job) == "COMPLETED", output(place, job)
    assert history(place) == ["started", "did a", "did b"]
    assert "1 of 2 nodes" in output(place, job)


def test_a_job_that_is_asked_to_end_while_it_waits_for_nodes_does_so(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_BROKEN", "n2")
    job = submit(SlurmRequest("l", nodes=2, gather_s=300), skipjack=RUN).job
    assert until((place / "told-n1").exists, PATIENCE_S)
    slurm.ask("scancel", "--batch", "--signal=USR1", str(job))
    assert slurm.finish(job).startswith(("FAILED", "COMPLETED"))
    assert history(place) == []


def test_a_head_that_does_not_start_fails_the_job(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_BROKEN", "n1,n2")
    job = submit(SlurmRequest("l", nodes=2), skipjack=RUN).job
    assert slurm.finish(job) == "FAILED"
    assert "Ray did not start on n1" in output(place, job)
    assert history(place) == []


def test_the_job_fails_as_the_coordinator_does(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "yes")
    job = submit(SlurmRequest("l"), skipjack=RUN).job
    assert slurm.finish(job) == "FAILED"
    assert slurm.exit_code(job) == 7


def test_two_jobs_on_one_node_do_not_collide(slurm: SlurmCluster, place: Path) -> None:
    request = SlurmRequest("l", shared=True, extra=("--nodelist=n1", "--cpus-per-task=1"))
    job = start_waiting(slurm, place, request)
    first = json.loads((place / "argv").read_text())[-1]
    other = submit(request, skipjack=RUN).job
    assert until(lambda: history(place).count("started") == 2, PATIENCE_S), output(place, other)
    assert json.loads((place / "argv").read_text())[-1] != first
    (place / "jobs").write_text("")
    assert slurm.finish(job) == slurm.finish(other) == "COMPLETED"


def test_a_request_that_slurm_refuses_is_told_in_its_words(
    slurm: SlurmCluster, place: Path
) -> None:
    with pytest.raises(UsageError, match=r"refused the job: invalid partition specified: nowhere"):
        submit(SlurmRequest("l", partition="nowhere"), skipjack=RUN)
    with pytest.raises(UsageError, match="Requested node configuration is not available"):
        submit(SlurmRequest("l", gpus_per_node=9), skipjack=RUN)


def test_options_are_stronger_than_the_environment(
    slurm: SlurmCluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    job = submit(SlurmRequest("l", partition="main"), skipjack=RUN).job
    slurm.ask("scancel", str(job))
    assert slurm.finish(job) in ("CANCELLED", "COMPLETED")
