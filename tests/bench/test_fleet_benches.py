"""What the fleet's benchmarks compute by themselves; their measurements are not repeated here."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest

import fleet_durations
from fleet_celery import _batches
from fleet_engine import VirtualDevices, Window
from fleet_record import spread
from skipjack.core import Device
from skipjack.fleet.model import JobPlan, JobStage, Task, TaskOutcome
from skipjack.interrupt import Interrupt

DEVICE = Device("cpu", "znver4", 1)


def virtual(window: Window, interrupt: Interrupt | None = None) -> VirtualDevices:
    outcome = TaskOutcome(0, JobStage.EVALUATE, finished=True)
    rng = np.random.default_rng(0)
    return VirtualDevices(3, 9, DEVICE, outcome, window, interrupt or Interrupt(), rng)


def task(job: int) -> Task:
    return Task(job, JobStage.EVALUATE, JobPlan("matmul:8x8x8", DEVICE.name), DEVICE)


def test_a_window_counts_what_falls_into_it() -> None:
    window = Window(10.0, 20.0)
    assert [window.within(0, 12), window.within(12, 13), window.within(19, 30)] == [2, 1, 1]
    assert window.within(0, 9) == window.within(21, 30) == 0


def test_a_virtual_device_does_its_tasks_one_after_the_other() -> None:
    now = time.monotonic()
    devices = virtual(Window(now, now + 1e6))
    assert [len(devices.hosts()), len(devices.slots())] == [2, 9]
    first = devices.slots()[0].name
    devices.submit(first, [task(1), task(2)])
    done = []
    while len(done) < 2:
        done += devices.poll(10.0)
    assert [one.job for one in done] == [1, 2]
    assert all(one.outcome and one.outcome.job == one.job for one in done)
    assert devices.busy_s == pytest.approx(sum(one.seconds for one in done))


def test_the_run_ends_with_the_window() -> None:
    interrupt = Interrupt()
    virtual(Window(0.0, time.monotonic() - 1), interrupt).poll(0.0)
    assert interrupt.requested


def test_the_median_job_takes_two_seconds(tmp_path: Path) -> None:
    times = [{"times": {"runtimes": [1.0, 2.0 + at % 5], "framework": 1.0}} for at in range(200)]
    with gzip.open(tmp_path / "some_T4.json.gz", "wt") as file:
        json.dump({"results": times}, file)
    found = fleet_durations.derive(tmp_path, np.random.default_rng(0))
    middle = found["quantiles_s"][len(found["quantiles_s"]) // 2]
    assert middle == pytest.approx(fleet_durations.MEDIAN_S, rel=1e-3)
    kept = fleet_durations.load()
    drawn = [fleet_durations.draw(kept, np.random.default_rng(seed)) for seed in range(50)]
    assert kept[0] <= min(drawn) < max(drawn) <= kept[-1]


def test_results_are_committed_in_full_batches_and_before_a_pause() -> None:
    found = iter([{"job": 1}, {"job": 2}, {"job": 3}, None, None, {"job": 4}])
    batches = [[one["job"] for one in some] for some in _batches(found, 2, 4)]
    assert batches == [[1, 2], [3], [4]]


def test_a_spread_names_the_median_and_the_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "runs": 3}
