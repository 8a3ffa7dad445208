"""The side of the local engine that runs in a worker process."""

from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.execute.wire import Message
from skipjack.fleet import worker
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.records import Plan
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.native import cpu


class Obliging:
    def perform(self, task: Task) -> Outcome:
        return Outcome(task.job, task.stage, facts="done")

    def close(self) -> None:
        pass


@pytest.fixture
def task() -> Task:
    device = cpu.detect()
    return Task(7, Stage.BUILD, Plan("matmul:8x8x8", device.name), device)


def test_no_work_is_begun_on_a_full_disk(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker.perform(Obliging(), task.message(), tmp_path).facts == "done"
    monkeypatch.setattr(worker, "disk_shortage", lambda directory: f"{directory} is full")
    outcome = worker.perform(Obliging(), task.message(), tmp_path)
    assert outcome == Outcome(7, Stage.BUILD, failed=f"{tmp_path} is full")


def test_machine_code_that_was_damaged_on_the_way_is_refused(task: Task, tmp_path: Path) -> None:
    message = replace(task, artifacts={"0" * 64: b"code"}).message()
    outcome = worker.perform(Obliging(), message, tmp_path)
    assert (outcome.job, outcome.stage) == (7, Stage.BUILD)
    assert "does not match its digest" in outcome.failed


def test_a_parcel_gives_back_what_it_holds() -> None:
    messages = [Message({"a": 1}, (b"x", b"y")), Message({}), Message({"b": 2}, (b"",))]
    parcel = pack(messages, seconds=[1, 2, 3])
    assert unpack(parcel) == messages
    assert parcel.body["seconds"] == [1, 2, 3]
