"""Rounds for a GPU: built anywhere, timed where it is, by the evaluator of that very one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.core import Device
from skipjack.errors import WorkerError
from skipjack.fleet import detect_host
from skipjack.fleet.engines import LocalEngine
from skipjack.fleet.model import JobPlan, JobStage, Task, TaskOutcome
from skipjack.fleet.store import describable
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.work import make_worker
from skipjack.fleet.work.task_context import assign_gpu
from skipjack.gpu.discovery import only_drivers
from skipjack.settings import load_settings
from skipjack.solvers import find_solver
from skipjack.testing.fake_gpu import DEVICE, FakeDriver

SOLVER = Path(__file__).parents[2] / "tuning" / "fake_gpu_solver.py"


@pytest.fixture(scope="module")
def fake_everywhere() -> Iterator[None]:
    """The fake GPU and a solver for it, here and in every worker that is started from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((str(SOLVER),))
        patch.setenv(plugins.VARIABLE, str(SOLVER))
        yield


def test_a_round_is_built_and_timed_on_the_gpu(fake_everywhere: None, user_dir: Path) -> None:
    plan = JobPlan("add:1000:f32", DEVICE.name, searcher="exhaustive", budget=4, round=4)
    builder = make_worker(JobStage.BUILD)
    try:
        built = builder.perform(Task(1, JobStage.BUILD, plan, DEVICE))
    finally:
        builder.close()
    assert not built.failed and not built.inapplicable, built
    task = Task(1, JobStage.EVALUATE, plan, DEVICE, 0, 0, (built.facts,), built.artifacts)
    told = evaluated(task)
    assert not told.failed, told.failed
    assert told.finished and (told.trials, told.failed_trials) == (4, 2)
    assert told.result is not None
    assert told.result["status"] == "banked" and "right" in str(told.result["config"])
    assert "fake compiler 1" in told.result["toolchain"]
    assert "llvm" not in told.result["toolchain"]
    assert told.result["solver_version"] == 1


def evaluated(task: Task) -> TaskOutcome:
    evaluator = make_worker(JobStage.EVALUATE, gpu="fake:0")
    try:
        return evaluator.perform(task)
    finally:
        evaluator.close()


def test_a_result_is_as_fresh_as_its_builds_where_the_compiler_is_not_installed(
    fake_everywhere: None, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = JobPlan("add:1000:f32", DEVICE.name, searcher="exhaustive", budget=2, round=2)
    builder = make_worker(JobStage.BUILD)
    try:
        built = builder.perform(Task(1, JobStage.BUILD, plan, DEVICE))
    finally:
        builder.close()
    there = toolchain(DEVICE)
    solver = type(find_solver("fake_gpu"))
    monkeypatch.setattr(solver, "compiler", lambda self: "fake compiler (not installed)")
    assert toolchain(DEVICE) != there
    told = evaluated(
        Task(1, JobStage.EVALUATE, plan, DEVICE, 0, 0, (built.facts,), built.artifacts)
    )
    assert told.result is not None
    assert told.result["toolchain"] == there


def test_a_host_lists_its_gpus(fake_everywhere: None) -> None:
    host = detect_host()
    assert host.devices[-1] == DEVICE
    assert host.devices[0].kind == "cpu"


def test_each_gpu_has_an_evaluator_of_its_own(fake_everywhere: None, user_dir: Path) -> None:
    slots = LocalEngine(load_settings(), 1, 1).slots()
    build, on_cores, on_gpu = slots
    assert build.stage is JobStage.BUILD
    assert DEVICE.name not in [one.name for one in on_cores.devices]
    assert ([one.name for one in on_gpu.devices], on_gpu.gpu) == ([DEVICE.name], "fake:0")
    assert [slot.stage for slot in LocalEngine(load_settings(), 1, 0).slots()] == [JobStage.BUILD]


def test_jobs_are_built_for_gpus_that_nobody_has() -> None:
    assert describable("sm_90/132") and describable("gfx942/304")
    assert not describable("gfx900/56")


class Pair(FakeDriver):
    """Two GPUs that differ."""

    def devices(self) -> list[Device]:
        return [DEVICE, replace(DEVICE, units=8, serial="fake-1")]


def test_a_gpu_is_taken_by_its_device_and_held_by_its_serial() -> None:
    large = Device("fake", "fake_1", 8)
    with only_drivers(Pair()):
        seat = assign_gpu(large, "", (0,))
        assert (seat.gpu, seat.units, seat.device.units) == ("fake:1", ("fake-1",), 8)
        assert assign_gpu(large, "1", (0,)).gpu == "fake:1"
        assert assign_gpu(large, "7", (0,)).gpu == "fake:1", "a number of a scheduler's own"
        with pytest.raises(WorkerError, match="GPU fake:0 is fake_1/4, not fake_1/8"):
            assign_gpu(large, "fake:0", (0,))
        with pytest.raises(WorkerError, match="no GPU fake:3; it has fake:0, fake:1"):
            assign_gpu(large, "fake:3", (0,))
        assert assign_gpu(large, "GPU-fake-1", (0,)).gpu == "fake:1"
    with pytest.raises(WorkerError, match="this machine has no fake_1/8; found: no GPU"):
        assign_gpu(large, "", (0,))
