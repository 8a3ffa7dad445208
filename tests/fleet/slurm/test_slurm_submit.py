"""What becomes of sbatch's answers."""

from pathlib import Path

import pytest

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.slurm import SlurmRequest, Submitted, submit


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An sbatch that runs the file ``answer``."""
    program = tmp_path / "sbatch"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/script\n. {tmp_path}/answer\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "answer"


def test_without_slurm_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"sbatch is not on the PATH.*--dry-run"):
        submit(SlurmRequest("l"))


@pytest.mark.parametrize(
    ("answer", "expected"), [("17", Submitted(17)), ("17;green", Submitted(17, "green"))]
)
def test_the_job_and_its_cluster_are_told(
    answering: Path, answer: str, expected: Submitted
) -> None:
    answering.write_text(f"echo '{answer}'")
    assert submit(SlurmRequest("l")) == expected


def test_a_refusal_is_told_in_its_own_words(answering: Path) -> None:
    answering.write_text(
        "echo 'sbatch: error: Batch job submission failed: Invalid account' >&2; exit 1"
    )
    with pytest.raises(
        UsageError, match=r"^sbatch refused the job: Batch job .*: Invalid account$"
    ):
        submit(SlurmRequest("l"))


def test_a_controller_that_is_away_is_no_mistake_of_the_user(answering: Path) -> None:
    answering.write_text("echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(SkipjackError, match="Unable to contact slurm controller") as caught:
        submit(SlurmRequest("l"))
    assert not isinstance(caught.value, UsageError)


def test_an_answer_without_a_number_is_no_job(answering: Path) -> None:
    answering.write_text("echo welcome")
    with pytest.raises(SkipjackError, match="'welcome' instead of a job's number"):
        submit(SlurmRequest("l"))
