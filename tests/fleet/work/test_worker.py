"""The side of the local engine that runs in a worker process."""

from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.execute import Message
from skipjack.fleet.model import JobPlan, JobStage, Task, TaskOutcome, pack_batch, unpack_batch
from skipjack.fleet.work import worker
from skipjack.native import cpu


class Obliging:
    def perform(self, task: Task) -> TaskOutcome:
        return TaskOutcome(task.job, task.stage, facts="done")

    def close(self) -> None:
        pass


@pytest.fixture
def task() -> Task:
    device = cpu.detect()
    return Task(7, JobStage.BUILD, JobPlan("matmul:8x8x8", device.name), device)


def test_no_work_is_begun_on_a_full_disk(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker.run_message(Obliging(), task.message(), tmp_path).facts == "done"
    monkeypatch.setattr(worker, "disk_shortage", lambda directory: f"{directory} is full")
    outcome = worker.run_message(Obliging(), task.message(), tmp_path)
    assert outcome == TaskOutcome(7, JobStage.BUILD, failed=f"{tmp_path} is full")


def test_machine_code_that_was_damaged_on_the_way_is_refused(task: Task, tmp_path: Path) -> None:
    message = replace(task, artifacts={"0" * 64: b"code"}).message()
    outcome = worker.run_message(Obliging(), message, tmp_path)
    assert (outcome.job, outcome.stage) == (7, JobStage.BUILD)
    assert "does not match its digest" in outcome.failed


def test_a_parcel_gives_back_what_it_holds() -> None:
    messages = [Message({"a": 1}, (b"x", b"y")), Message({}), Message({"b": 2}, (b"",))]
    parcel = pack_batch(messages, seconds=[1, 2, 3])
    assert unpack_batch(parcel) == messages
    assert parcel.body["seconds"] == [1, 2, 3]
