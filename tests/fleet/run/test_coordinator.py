"""Coordinators on a real store (SQLite) with workers that are played by the test."""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.core import Device
from skipjack.fleet.bundle import export_bundle
from skipjack.fleet.model import (
    Done,
    Host,
    JobPlan,
    JobStage,
    JobState,
    Label,
    RunningLog,
    Slot,
    Task,
    TaskOutcome,
    WorkRequest,
)
from skipjack.fleet.model.states import MOST_FAILURES
from skipjack.fleet.run import Coordinator, RunRequest, RunSummary
from skipjack.fleet.store import BundleSelection, NewProblem, Store, open_store
from skipjack.fleet.store.catalog import machines
from skipjack.interrupt import Interrupt
from skipjack.processes import ProcessIdentity, began, this_process

DEVICE = Device("cpu", "znver4", 1)
HOST = Host("here", 2, 1 << 30, (DEVICE,))
FACTS = '{"format":1,"tables":{}}'

Work = Callable[[Task], TaskOutcome | str]


def works(task: Task) -> TaskOutcome:
    """Builds, and evaluates the second round with a verdict."""
    if task.stage is JobStage.BUILD:
        return TaskOutcome(task.job, task.stage, facts=FACTS)
    finished = task.round == 1
    result = {"status": "banked"} if finished else None
    return TaskOutcome(
        task.job, task.stage, finished=finished, facts=FACTS, trials=2, result=result
    )


class PlayedEngine:
    """Two workers that call a function; if it returns a text, the worker is lost for it."""

    name = "played"

    def __init__(self, work: Work = works) -> None:
        self.work = work
        self.given: list[Task] = []
        self.cancelled: list[int] = []
        self.slow = False
        self._waiting: list[tuple[str, Task]] = []

    def hosts(self) -> Sequence[Host]:
        return [HOST]

    def slots(self) -> Sequence[Slot]:
        return [
            Slot("b", JobStage.BUILD, "here"),
            Slot("e", JobStage.EVALUATE, "here", (DEVICE,), "cpu1"),
        ]

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self.given += tasks
        self._waiting += [(slot, task) for task in tasks]

    def poll(self, timeout_s: float) -> list[Done]:
        if not self._waiting or self.slow:
            time.sleep(timeout_s)
            return []
        done = [self._done(slot, self.work(task), task) for slot, task in self._waiting]
        self._waiting.clear()
        return done

    def _done(self, slot: str, answer: TaskOutcome | str, task: Task) -> Done:
        if isinstance(answer, str):
            return Done(slot, task.job, lost=answer)
        return Done(slot, task.job, answer, seconds=0.001)

    def running_logs(self) -> Sequence[RunningLog]:
        return []

    def cancel(self, jobs: Sequence[int]) -> None:
        self.cancelled += jobs
        self._waiting = [(slot, task) for slot, task in self._waiting if task.job not in jobs]

    def close(self) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path, user_dir: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/fleet.sqlite") as opened:
        keys = [f"matmul:{n}x8x8:f32" for n in range(8, 13)]
        opened.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "t")
        plans = [JobPlan(key, "znver4/1", budget=4, round=2) for key in keys]
        opened.jobs.add(Label("l", "me"), plans)
        yield opened


REQUEST = RunRequest("l", lease_s=4.0, linger_s=0.1)


def run(store: Store, engine: PlayedEngine, request: RunRequest = REQUEST) -> RunSummary:
    return Coordinator(store.queue, engine, request).run(Interrupt())


def test_jobs_go_through_their_rounds_to_the_end(store: Store) -> None:
    summary = run(store, PlayedEngine())
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert summary.settled == {"built": 10, "told": 5, "finished": 5}
    history = [line.event for line in store.jobs.history(1)]
    assert history == ["claimed", "built", "claimed", "told"] * 2
    assert store.jobs.get(1).gpu == "cpu1"


def test_a_builder_alone_leaves_what_it_built_for_others(store: Store) -> None:
    summary = run(store, PlayedEngine(), replace(REQUEST, stages=(JobStage.BUILD,)))
    assert dict(summary.counts) == {JobState.BUILT: 5}
    summary = run(store, PlayedEngine(), replace(REQUEST, stages=(JobStage.EVALUATE,)))
    assert dict(summary.counts) == {JobState.NEW: 5}


def test_a_run_for_some_devices_leaves_the_jobs_of_others(store: Store) -> None:
    store.jobs.add(Label("l", "me"), [JobPlan("matmul:8x8x8:f32", "skylake/1")])
    summary = run(store, PlayedEngine(), replace(REQUEST, devices=("znver4/1",)))
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert dict(store.queue.live("l")) == {JobState.NEW: 1, JobState.EVALUATED: 5}


def test_a_run_for_a_machine_is_evaluated_there_alone(store: Store) -> None:
    engine = PlayedEngine()
    summary = run(store, engine, replace(REQUEST, machine="elsewhere"))
    assert dict(summary.counts) == {JobState.BUILT: 5}
    assert dict(run(store, engine, replace(REQUEST, machine="here")).counts) == {
        JobState.EVALUATED: 5
    }


def test_what_a_worker_has_said_so_far_is_written_down(store: Store) -> None:
    class Talking(PlayedEngine):
        """Logs about its first job until the log was stored."""

        def running_logs(self) -> Sequence[RunningLog]:
            return [RunningLog(task.job, task.attempt, "halfway there") for task in self.given[:1]]

        def poll(self, timeout_s: float) -> list[Done]:
            self.slow = not (self.given and store.jobs.log(self.given[0].job))
            return super().poll(timeout_s)

    engine = Talking()
    summary = run(store, engine)
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert [log.text for log in store.jobs.log(engine.given[0].job)] == ["halfway there"]


def test_two_windows_that_run_at_once_wait_for_each_other(store: Store, tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/fleet.sqlite") as other:
        request = replace(REQUEST, stages=(JobStage.EVALUATE,), linger_s=30.0)
        window = threading.Thread(target=run, args=(other, PlayedEngine(), request))
        window.start()
        run(store, PlayedEngine(), replace(REQUEST, stages=(JobStage.BUILD,), wait=True))
        window.join(30)
    assert dict(store.queue.live("l")) == {JobState.EVALUATED: 5}


def test_workers_that_vanish_cost_a_retry_and_nothing_else(store: Store) -> None:
    lost: Counter[int] = Counter()

    def dies_once(task: Task) -> TaskOutcome | str:
        lost[task.job] += 1
        return "killed" if lost[task.job] == 2 else works(task)

    summary = run(store, PlayedEngine(dies_once))
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert summary.settled["lost"] == 5
    reasons = [line.reason for line in store.jobs.history(1) if line.event == "lost"]
    assert reasons == ["killed"]


def test_a_worker_that_always_fails_ends_in_an_error_with_its_stage_and_reason(
    store: Store,
) -> None:
    def fails(task: Task) -> TaskOutcome:
        if task.job == 3 and task.stage is JobStage.EVALUATE:
            return TaskOutcome(task.job, task.stage, failed="the disk is full", log="no space")
        return works(task)

    summary = run(store, PlayedEngine(fails))
    assert dict(summary.counts) == {JobState.EVALUATED: 4, JobState.ERROR: 1}
    status = store.jobs.get(3).status
    assert (status.stage, status.reason) == (JobStage.EVALUATE, "the disk is full")
    assert [text.text for text in store.jobs.log(3)][-1] == "no space"
    assert sum(line.event == "failed" for line in store.jobs.history(3)) == MOST_FAILURES


def test_a_machine_that_keeps_failing_is_set_aside_and_named(store: Store) -> None:
    def fails(task: Task) -> TaskOutcome:
        return TaskOutcome(task.job, task.stage, failed="no compiler")

    summary = run(store, PlayedEngine(fails))
    assert summary.idle_machines and "no compiler" in summary.idle_machines[0]
    assert summary.counts.get(JobState.NEW) or summary.counts.get(JobState.ERROR)
    (machine,) = store.machines.all()
    assert machine.quarantined
    store.jobs.resume(machine="here")
    store.jobs.reset("l", JobState.ERROR, JobState.NEW)
    assert dict(run(store, PlayedEngine()).counts) == {JobState.EVALUATED: 5}


def test_a_machine_whose_workers_are_lost_pauses_says_so_and_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "FIRST_PAUSE_S", 0.2)
    died: Counter[int] = Counter()
    notes: set[str] = set()

    def dies_twice(task: Task) -> TaskOutcome | str:
        died[task.job] += 1
        return "killed by the kernel" if died[task.job] <= 2 else works(task)

    class OneByOne(PlayedEngine):
        """Loses its workers one after the other."""

        def poll(self, timeout_s: float) -> list[Done]:
            later = self._waiting[1:]
            del self._waiting[1:]
            done = super().poll(timeout_s)
            self._waiting += later
            return done

    request = replace(REQUEST, observer=lambda progress: notes.add(progress.note))
    summary = run(store, OneByOne(dies_twice), request)
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert any("here pauses for 0.2 s: 5 workers in a row were lost" in note for note in notes)
    (machine,) = store.machines.all()
    assert (machine.quarantined, machine.losses) == ("", 0)


def test_an_abort_stops_what_runs_and_resume_goes_on(store: Store, tmp_path: Path) -> None:
    engine = PlayedEngine()
    engine.slow = True
    interrupt = Interrupt()
    with open_store(f"sqlite:///{tmp_path}/fleet.sqlite") as other:
        thread = threading.Thread(
            target=Coordinator(other.queue, engine, REQUEST).run, args=(interrupt,)
        )
        thread.start()
        _until(lambda: bool(engine.given))
        store.jobs.abort(label="l", reason="not now")
        _until(lambda: set(engine.cancelled) >= {task.job for task in engine.given})
        thread.join(30)
    assert dict(store.queue.live("l")) == {JobState.ABORTED: 5}
    assert dict(run(store, PlayedEngine()).counts) == {JobState.ABORTED: 5}
    store.jobs.resume(label="l")
    assert dict(run(store, PlayedEngine()).counts) == {JobState.EVALUATED: 5}


def test_workers_that_are_away_for_a_while_are_waited_for(store: Store) -> None:
    class Cluster(PlayedEngine):
        """Its evaluator comes late and is gone for a while after its first."""

        away_until = time.monotonic() + 1.5

        def slots(self) -> Sequence[Slot]:
            here = time.monotonic() > self.away_until
            return [slot for slot in super().slots() if here or slot.stage is JobStage.BUILD]

        def submit(self, slot: str, tasks: Sequence[Task]) -> None:
            super().submit(slot, tasks)
            if slot == "e" and len(self.given) < 8:
                self.away_until = time.monotonic() + 1.5

    assert dict(run(store, Cluster()).counts) == {JobState.EVALUATED: 5}


def test_ctrl_c_gives_everything_back_at_once(store: Store) -> None:
    engine = PlayedEngine()
    engine.slow = True
    interrupt = Interrupt()
    threading.Timer(0.5, lambda: setattr(interrupt, "requested", True)).start()
    summary = Coordinator(store.queue, engine, REQUEST).run(interrupt)
    assert summary.interrupted
    assert dict(store.queue.live("l")) == {JobState.NEW: 5}
    assert store.jobs.get(1).status.failures == store.jobs.get(1).status.losses == 0


def test_what_a_dead_coordinator_held_is_done_by_another(store: Store) -> None:
    machine = store.queue.register(HOST, "played")
    dead = store.queue.start_lease(ProcessIdentity("gone", 1), 0.3)
    assert store.queue.claim(
        dead, JobStage.BUILD, [WorkRequest(machine.id, "b", count=5)], label="l"
    )
    time.sleep(0.5)
    summary = run(store, PlayedEngine())
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert sum(line.event == "lost" for line in store.jobs.history(1)) == 1


def test_what_a_killed_coordinator_of_this_machine_held_is_not_waited_for(store: Store) -> None:
    killed = subprocess.Popen(["sleep", "600"])
    process = replace(this_process(), pid=killed.pid, began=began(killed.pid))
    machine = store.queue.register(HOST, "played")
    dead = store.queue.start_lease(process, 600.0)
    assert store.queue.claim(
        dead, JobStage.BUILD, [WorkRequest(machine.id, "b", count=5)], label="l"
    )
    killed.kill()
    killed.wait()
    summary = run(store, PlayedEngine())
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert "ended without giving its jobs back" in store.jobs.history(1)[1].reason


def _until(true: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_answer_to_an_earlier_claim_is_not_taken_for_this_one(store: Store) -> None:
    """The job was given away while a worker had it, and came back with another attempt."""
    machine = store.queue.register(HOST, "played")
    late: list[TaskOutcome] = []

    class Stubborn(PlayedEngine):
        """Continues with a cancelled job, and answers later."""

        def cancel(self, jobs: Sequence[int]) -> None:
            late.extend(
                replace(works(task), attempt=task.attempt, log="late")
                for task in self.given
                if task.job in jobs
            )
            super().cancel(jobs)

        def poll(self, timeout_s: float) -> list[Done]:
            answers = [Done("b", one.job, one, attempt=one.attempt) for one in late]
            late.clear()
            return answers or super().poll(timeout_s)

    engine = Stubborn()
    engine.slow = True

    def disturb() -> None:
        _until(lambda: bool(engine.given))
        store.jobs.abort(machine="here")
        store.jobs.resume(machine="here")
        _until(lambda: len(engine.given) > 5 or bool(engine.cancelled))
        engine.slow = False

    with open_store(store.database.engine.url.render_as_string()) as other:
        thread = threading.Thread(target=disturb)
        thread.start()
        summary = Coordinator(other.queue, engine, REQUEST).run(Interrupt())
        thread.join(30)
    assert dict(summary.counts) == {JobState.EVALUATED: 5}
    assert machine.id == store.machines.all()[0].id
    assert all(text.text != "late" for job in range(1, 6) for text in store.jobs.log(job))


def test_a_result_that_the_store_cannot_take_does_not_keep_others_from_it(store: Store) -> None:
    def odd(task: Task) -> TaskOutcome:
        outcome = works(task)
        return replace(outcome, trials=1 << 80) if task.job == 2 else outcome

    summary = run(store, PlayedEngine(odd))
    assert summary.counts[JobState.EVALUATED] == 4
    assert "cannot be stored" in store.jobs.get(2).status.reason


def test_jobs_for_a_device_that_nobody_builds_for_wait(store: Store) -> None:
    store.jobs.add(Label("g", "me"), [JobPlan("matmul:8x8x8:f32", "gfx900/56")])
    summary = run(store, PlayedEngine(), replace(REQUEST, label="g"))
    assert dict(summary.counts) == {JobState.NEW: 1}
    assert summary.unbuildable == ("gfx900/56",)


def test_jobs_of_miopen_pass_any_builder(store: Store, tmp_path: Path) -> None:
    """A device that Triton does not know and that was never seen."""
    ours, theirs = "matmul:8x8x8:f32", "matmul:9x8x8:f32"
    jobs = [JobPlan(ours, "gfx900/56"), JobPlan(theirs, "gfx900/56", "miopen", driver="miopen")]
    store.jobs.add(Label("g", "me"), jobs)
    engine = PlayedEngine()
    summary = run(store, engine, replace(REQUEST, label="g", stages=(JobStage.BUILD,)))
    assert dict(summary.counts) == {JobState.NEW: 1, JobState.BUILT: 1}
    (task,) = engine.given
    assert (task.plan.problem, task.device.name, task.device.kind) == (theirs, "gfx900/56", "hip")
    bundle = export_bundle(store, BundleSelection("g"), tmp_path / "jobs.skj")
    assert (bundle.jobs, bundle.runnable) == (1, 1)
    real = Device("hip", "gfx900", 56, "Vega 10", features=("xnack-",))
    machine = store.queue.register(Host("gpu7", 8, 1, (real,)), "played")
    owner = store.queue.start_lease(ProcessIdentity("gpu7", 1), 60.0)
    ((_, task),) = store.queue.claim(
        owner, JobStage.EVALUATE, [WorkRequest(machine.id, "e", (real,))], label="g"
    )
    assert task.device == real, "what was passed on was built for no other"
