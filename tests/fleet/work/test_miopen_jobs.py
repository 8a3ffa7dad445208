"""Jobs of MIOpen: a program does them, and whatever it does is the job's result or its reason."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hip_stand_in import DEVICE, HipStandIn

from processes import gone
from skipjack.core import Device
from skipjack.fleet.model import JobKind, JobPlan, JobStage, PriorResult, Task, TaskOutcome
from skipjack.fleet.work import make_worker
from skipjack.gpu.discovery import only_drivers
from skipjack.interop.miopen import find_key, perf_key
from skipjack.operations import parse
from skipjack.settings import MIOPEN_TIMEOUT_S
from skipjack.solvers.miopen.solver import DRIVER_VARIABLE
from skipjack.testing import miopen_driver

KEY = parse("conv2d:n2c8h9w9k8y3x3p1q1", "f16").key
Evaluate = Callable[..., TaskOutcome]


@pytest.fixture
def driver(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in as the MIOpenDriver of this machine."""
    path = miopen_driver.install(tmp_path)
    monkeypatch.setenv(DRIVER_VARIABLE, str(path))
    return path


@pytest.fixture
def evaluate(driver: Path) -> Iterator[Evaluate]:
    """Does jobs on the second GPU; one worker for all of a test."""
    with only_drivers(HipStandIn()):
        builder = make_worker(JobStage.BUILD)
        worker = make_worker(JobStage.EVALUATE, gpu="hip:1")

        def evaluated(
            kind: JobKind = JobKind.TUNE, device: Device = DEVICE, **known: str
        ) -> TaskOutcome:
            plan = JobPlan(KEY, device.name, "miopen", kind=kind, driver="miopen")
            lines = (PriorResult("miopen", known),) if known else ()
            built = builder.perform(Task(1, JobStage.BUILD, plan, device, known=lines))
            task = Task(1, JobStage.EVALUATE, plan, device, artifacts=built.artifacts)
            return TaskOutcome.of(worker.perform(Task.of(task.message())).message())

        yield evaluated
        builder.close()
        worker.close()


def test_a_search_ends_with_a_ranking_and_the_lines_of_the_databases(evaluate: Evaluate) -> None:
    outcome = evaluate()
    assert outcome.finished and not outcome.failed, outcome.failed
    assert outcome.result is not None
    first, *_, last = outcome.result["solvers"]
    assert first["status"] == "ok" and first["verified"]
    assert 0 < first["time_ns"] <= last["time_ns"]
    assert outcome.best_ns == pytest.approx(first["time_ns"])
    assert first["algorithm"].startswith("miopenConvolutionFwdAlgo")
    params = {row["solver"]: row["config"] for row in outcome.result["solvers"]}
    assert params["ConvAsm1x1U"] == {"params": "0,8,16,16"} and params["GemmFwdRest"] == {}
    kept = outcome.result["miopen"]
    assert kept["version"] == "3_2_0_a1b2c3d" in outcome.result["toolchain"]
    (found,), (tuned,) = kept["find_db"], kept["perf_db"]
    assert found.startswith(find_key(parse(KEY)) + "=ConvAsm1x1U:")
    assert tuned.startswith(perf_key(parse(KEY)) + "=ConvAsm1x1U:0,8,16,16;")
    assert "GPU Kernel Time Forward Conv. Elapsed" in outcome.log


def test_a_find_and_kernels_build_upon_what_was_found_before(
    evaluate: Evaluate, user_dir: Path
) -> None:
    searched = evaluate().result
    assert searched is not None
    lines = {name: searched["miopen"][name][0] for name in ("find_db", "perf_db")}
    found = evaluate(JobKind.FIND, **lines).result
    assert found is not None
    assert found["miopen"]["find_db"] == searched["miopen"]["find_db"]
    packed = evaluate(JobKind.KERNELS, **lines)
    assert packed.result is not None
    (kernel,) = packed.result["miopen"]["kernels"]
    assert set(packed.artifacts) == {kernel["digest"]} == set(packed.digests)
    (place,) = (user_dir / "miopen").iterdir()
    assert place.name.endswith("hip_1-fake-b"), "a folder for each very GPU"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("crash", "ended by SIGABRT (Memory access fault by GPU node-1"),
        ("unknown-flag", "does not know the flag s"),
    ],
)
def test_a_failing_program_is_the_reason_of_a_failed_job(
    evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch, how: str, reason: str
) -> None:
    monkeypatch.setenv(miopen_driver.VARIABLE, how)
    outcome = evaluate()
    assert reason in outcome.failed and not outcome.hopeless and not outcome.finished


def test_a_wrong_result_leaves_the_ranking_of_the_others(
    evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(miopen_driver.VARIABLE, "wrong")
    outcome = evaluate()
    assert outcome.finished and outcome.failed_trials == 1 and outcome.result is not None
    first, *_, last = outcome.result["solvers"]
    assert (first["status"], last["status"]) == ("ok", "untimed")
    assert "result is wrong: Forward Convolution FAILED" in last["reason"]
    assert last["solver"] not in outcome.result["miopen"]["find_db"][0]


def test_lines_of_another_format_are_refused(evaluate: Evaluate) -> None:
    plan = JobPlan(KEY, DEVICE.name, kind=JobKind.FIND, driver="miopen")
    data = json.dumps({"format": 2, "lines": []}).encode()
    task = Task(1, JobStage.EVALUATE, plan, DEVICE, artifacts={"digest": data})
    worker = make_worker(JobStage.EVALUATE, gpu="hip:1")
    try:
        outcome = worker.perform(task)
    finally:
        worker.close()
    assert "have format 2, but this Skipjack reads 1" in outcome.failed and not outcome.hopeless


def test_a_program_that_hangs_is_ended_with_all_that_it_started(
    evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(miopen_driver.VARIABLE, "hang")
    pids = tmp_path / "pids"
    monkeypatch.setenv(miopen_driver.PIDS_VARIABLE, str(pids))
    for limit in ("1.2", "10", "60", "300"):  # on a busy machine programs take long to start
        pids.write_text("")
        monkeypatch.setenv(MIOPEN_TIMEOUT_S.name, limit)
        outcome = evaluate()
        assert f"did not end within {limit} s and was killed" in outcome.failed
        started = {int(line) for line in pids.read_text().split()}
        assert gone(started)
        if len(started) == 2:
            return
    pytest.fail("the program never started its own")


def test_a_machine_without_the_program_says_where_it_was_looked_for(
    evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DRIVER_VARIABLE)
    monkeypatch.setenv("PATH", "")
    outcome = evaluate()
    assert f"set {DRIVER_VARIABLE} to its path" in outcome.failed and not outcome.hopeless


def test_a_program_on_another_gpu_is_not_believed(
    evaluate: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(miopen_driver.DEVICE_VARIABLE, "gfx90a/104")
    assert "runs on gfx90a/104 as GPU hip:1, not on gfx908/120" in evaluate().failed


def test_the_build_stage_passes_on_what_can_be_done(user_dir: Path) -> None:
    builder = make_worker(JobStage.BUILD)
    try:
        for problem, refused in ((KEY, ""), ("matmul:8x8x8:f16", "for convolutions only")):
            plan = JobPlan(parse(problem).key, DEVICE.name, "miopen", driver="miopen")
            outcome = builder.perform(Task(1, JobStage.BUILD, plan, DEVICE))
            assert refused in outcome.inapplicable and bool(refused) == bool(outcome.inapplicable)
            assert not outcome.failed and not outcome.digests
    finally:
        builder.close()
