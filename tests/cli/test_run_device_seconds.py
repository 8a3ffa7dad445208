"""``skipjack run --device-seconds``: what is refused, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

import pytest

from skipjack.app import EngineName, RunOptions, SlurmOptions, run, submit_run
from skipjack.errors import UsageError
from skipjack.fleet.model import DeviceTime, JobKind, JobPlan, Label
from skipjack.fleet.store import NewProblem, open_store
from skipjack.native import cpu
from skipjack.report.fleet.jobs import device_time_json, device_time_text


class Skipjack(Protocol):
    def __call__(self, *arguments: str) -> CompletedProcess[str]: ...


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"device_seconds": 0.0}, "--device-seconds is 0; give a finite number above 0"),
        ({"device_seconds": -1.0}, "--device-seconds is -1"),
        ({"device_seconds": float("nan")}, "--device-seconds is nan"),
        ({"device_seconds": float("inf")}, "--device-seconds is inf"),
        ({"kind": JobKind.FIND}, "--find does each job once"),
        ({"kind": JobKind.KERNELS}, "--kernel-cache does each job once"),
        ({"wait": True}, "--wait waits until every job has ended"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        RunOptions("l", **{"device_seconds": 60.0, **options})  # type: ignore[arg-type]


def test_slurm_does_not_resubmit_what_a_budget_leaves() -> None:
    options = RunOptions("l", engine=EngineName.SLURM, device_seconds=60.0)
    with pytest.raises(UsageError, match="--until-done resubmits"):
        submit_run(options, SlurmOptions(until_done=True), dry_run=True)


def test_a_label_without_jobs_has_nothing_to_divide(user_dir: Path) -> None:
    with open_store() as store:
        store.problems.add([NewProblem("add:8:f32", "add", "", "f32")], "t")
        store.jobs.add(Label("empty", "me"), [])
        with pytest.raises(UsageError, match="label empty has no tuning jobs to divide"):
            run(RunOptions("empty", device_seconds=60.0), store=store)


def test_the_command_line_says_so_in_a_sentence(skipjack: Skipjack) -> None:
    for value in ("0", "-3", "nan", "much"):
        said = skipjack("run", "-l", "l", "--device-seconds", value)
        assert said.returncode == 2 and "--device-seconds" in said.stderr
        assert "Traceback" not in said.stderr


@pytest.mark.long
def test_a_run_and_its_status_show_what_was_used(skipjack: Skipjack, user_dir: Path) -> None:
    with open_store() as store:
        store.problems.add([NewProblem("add:4096:f32", "add", "", "f32")], "t")
        store.problems.set_calls({"add:4096:f32": 1000.0}, "t")
        plan = JobPlan("add:4096:f32", cpu.detect().name, budget=16, round=16)
        store.jobs.add(Label("l", "me"), [plan], tag="t")
    done = skipjack("run", "-l", "l", "--device-seconds", "30", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["device_seconds"]
    assert shown["budget"] == 30.0 and shown["used"] > 0.0 and shown["weighted"]
    status = json.loads(skipjack("status", "-l", "l", "--json").stdout)
    assert status["device_seconds"] == shown
    assert status["states"] == {"evaluated": 1}
    again = skipjack("run", "-l", "l", "--device-seconds", "0.001")
    assert again.returncode == 0 and "a larger number continues" in again.stderr
    assert "device-seconds" in skipjack("status", "-l", "l").stdout


def test_device_time_in_words_and_for_machines() -> None:
    time = DeviceTime(3600.0, 812.44, 421_000.0, weighted=True)
    assert device_time_text(time) == (
        "device-seconds: 812.4 of 3,600 used, 2,787.6 left; 1.93 per microsecond won in all calls"
    )
    assert device_time_json(time) == {
        "budget": 3600.0,
        "used": 812.44,
        "left": 2787.56,
        "won_us": 421.0,
        "per_us": 1.93,
        "weighted": True,
    }
    assert device_time_text(DeviceTime(60.0)).endswith("nothing won yet")
