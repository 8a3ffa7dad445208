"""A budget of device-seconds on every database, with workers that the test plays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from skipjack.core import Config, Device, Study, Trial
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
    claim_result_of,
)
from skipjack.fleet.run import BudgetedCoordinator, Coordinator, RunRequest, RunSummary
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.interrupt import Interrupt
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.processes import ProcessIdentity, this_process

DEVICE = Device("cpu", "znver4", 1)
REQUEST = RunRequest("l", lease_s=4.0, linger_s=0.1)
SLICE_S, VERDICT_S = 2.0, 0.5
JOBS, TRIALS = 4, 24


def time_ns(job: int, trial: int) -> float:
    """Job 1 falls for long, the others only once."""
    return 1000.0 * (0.97 ** (trial if job == 1 else min(trial, 1)))


class PlayedEngine:
    """A builder and an evaluator that search as `time_ns` says."""

    name = "played"

    def __init__(self, name: str = "here", asked: dict[int, int] | None = None) -> None:
        self.host = name
        self.rounds: Counter[int] = Counter()
        self.asked = {} if asked is None else asked
        """The configs that were built for the next evaluation, which another engine may do."""
        self.loses: set[int] = set()
        self.slow = False
        self._waiting: list[tuple[str, Task]] = []

    def hosts(self) -> Sequence[Host]:
        return [Host(self.host, 2, 1 << 30, (DEVICE,))]

    def slots(self) -> Sequence[Slot]:
        return [
            Slot("b", JobStage.BUILD, self.host),
            Slot("e", JobStage.EVALUATE, self.host, (DEVICE,), "cpu1"),
        ]

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self._waiting += [(slot, task) for task in tasks]

    def poll(self, timeout_s: float) -> list[Done]:
        if not self._waiting or self.slow:
            time.sleep(timeout_s)
            return []
        done = [self._done(slot, task) for slot, task in self._waiting]
        self._waiting.clear()
        return done

    def _done(self, slot: str, task: Task) -> Done:
        before = sum(text.count('"tell"') for text in task.facts)
        if task.stage is JobStage.BUILD:
            self.asked[task.job] = min(task.plan.round, task.plan.budget - before)
            outcome = TaskOutcome(task.job, task.stage, facts=facts_of(task, ()))
            return Done(slot, task.job, outcome, attempt=task.attempt, seconds=0.001)
        if task.job in self.loses:
            self.loses.remove(task.job)
            return Done(slot, task.job, lost="killed", attempt=task.attempt, seconds=SLICE_S)
        self.rounds[task.job] += 1
        asked = self.asked[task.job]
        after = before + asked
        times = [time_ns(task.job, trial) for trial in range(before, after)]
        finished = after >= task.plan.budget
        outcome = TaskOutcome(
            task.job,
            task.stage,
            finished=finished,
            facts=facts_of(task, times),
            trials=asked,
            best_ns=time_ns(task.job, after - 1),
            result={"status": "banked"} if finished else None,
            device_seconds=SLICE_S if asked else VERDICT_S,
        )
        return Done(slot, task.job, outcome, attempt=task.attempt, seconds=2 * SLICE_S)

    def running_logs(self) -> Sequence[RunningLog]:
        return []

    def cancel(self, jobs: Sequence[int]) -> None:
        self._waiting = [(slot, task) for slot, task in self._waiting if task.job not in jobs]

    def close(self) -> None:
        pass


def facts_of(task: Task, times: Sequence[float]) -> str:
    """What a round found out: its tells."""
    with Ledger.in_memory() as ledger:
        before = ledger.snapshot()
        study = Study(parse(task.plan.problem), "nest", DEVICE.class_key, "random", task.round)
        ledger.start_study(study, 1)
        ledger.log_tells(
            study.id, [Trial(Config({"at": at}), value=time) for at, time in enumerate(times)]
        )
        return ledger.facts_since(before)


def loaded(store: Store, **calls: float) -> None:
    keys = [f"matmul:{n}x8x8:f32" for n in range(8, 8 + JOBS)]
    store.problems.add([NewProblem(key, "matmul", "", "f32") for key in keys], "t")
    store.problems.set_calls({keys[int(n[1:]) - 1]: count for n, count in calls.items()}, "t")
    plans = [JobPlan(key, "znver4/1", budget=TRIALS, round=16) for key in keys]
    store.jobs.add(Label("l", "me"), plans)


def run(store: Store, seconds: float, engine: PlayedEngine | None = None) -> RunSummary:
    store.labels.set_device_seconds("l", seconds)
    coordinator = BudgetedCoordinator(store.queue, engine or PlayedEngine(), REQUEST)
    return coordinator.run(Interrupt())


def test_time_goes_to_the_job_that_gains_and_every_job_has_a_verdict(store: Store) -> None:
    loaded(store)
    engine = PlayedEngine()
    summary = run(store, 19.0, engine)
    assert dict(summary.counts) == {JobState.EVALUATED: JOBS}
    jobs = store.jobs.find(label="l")
    assert jobs[0].trials == TRIALS and all(8 <= one.trials < TRIALS for one in jobs[1:])
    time = store.labels.device_time("l")
    slices = sum(one.trials for one in jobs) // 8
    verdicts = sum(engine.rounds.values()) - slices
    assert time.used_s == pytest.approx(slices * SLICE_S + verdicts * VERDICT_S)
    assert time.used_s <= 19.0 + SLICE_S
    assert time.left_s == max(0.0, 19.0 - time.used_s)
    won = sum(1000.0 - one.best_ns for one in jobs if one.best_ns)
    assert time.won_ns == pytest.approx(won)
    assert not time.weighted
    assert store.jobs.get(2).plan.budget == TRIALS, "its plan never changes"


def test_a_larger_budget_continues_where_the_first_ended(store: Store) -> None:
    loaded(store)
    run(store, 16.0)
    assert dict(run(store, 16.0).settled) == {}, "nothing is left"
    summary = run(store, 100.0)
    assert dict(summary.counts) == {JobState.EVALUATED: JOBS}
    assert [store.jobs.get(id).trials for id in range(1, 5)] == [TRIALS] * 4
    events = [line.event for line in store.jobs.history(2)]
    assert events.count("continued") == 1 and events[-1] == "told"
    assert store.labels.device_time("l").used_s < 100.0


def test_a_budget_that_is_too_small_leaves_jobs_that_another_run_continues(store: Store) -> None:
    loaded(store)
    engine = PlayedEngine()
    summary = run(store, 3.0, engine)
    assert summary.counts[JobState.NEW] >= JOBS - 2
    assert store.labels.device_time("l").used_s <= 3.0 + SLICE_S + VERDICT_S
    done = Coordinator(store.queue, engine, REQUEST).run(Interrupt())
    assert done.counts == {JobState.EVALUATED: JOBS}, "without a budget all trials are done"


def test_two_runs_share_one_budget(store: Store, store_url: str) -> None:
    loaded(store)
    store.labels.set_device_seconds("l", 16.0)

    asked: dict[int, int] = {}

    def work(name: str) -> None:
        with open_store(store_url) as opened:
            engine = PlayedEngine(name, asked)
            BudgetedCoordinator(opened.queue, engine, REQUEST).run(Interrupt())

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, ("one", "two")))
    time = store.labels.device_time("l")
    assert 12.0 <= time.used_s <= 16.0 + 2 * SLICE_S
    assert all(one.trials >= 8 for one in store.jobs.find(label="l"))
    assert not [one for one in store.jobs.find(label="l") if one.status.state.claimed]


def test_calls_decide_where_time_goes_and_are_shown(store: Store) -> None:
    loaded(store, n1=1.0, n2=1.0, n3=1e6, n4=1.0)
    run(store, 12.0)
    trials = [one.trials for one in store.jobs.find(label="l")]
    assert trials[2] == max(trials) > 8
    time = store.labels.device_time("l")
    assert time.weighted and time.won_ns > 1e6


def test_priority_comes_before_gain(store: Store) -> None:
    loaded(store)
    store.problems.add([NewProblem("matmul:99x8x8:f32", "matmul", "", "f32")], "t")
    urgent = JobPlan("matmul:99x8x8:f32", "znver4/1", budget=TRIALS, round=16)
    store.jobs.add(Label("l", "me"), [urgent], priority=1)
    run(store, 20.0)
    *others, last = store.jobs.find(label="l")
    assert last.trials == TRIALS
    assert all(one.trials < TRIALS for one in others)


def test_the_time_of_lost_workers_and_dead_coordinators_counts(store: Store) -> None:
    loaded(store)
    engine = PlayedEngine()
    engine.loses = {2}
    run(store, 18.0, engine)
    assert store.labels.device_time("l").used_s >= 7 * SLICE_S, "the lost slice was repeated"
    before = store.labels.device_time("l").used_s
    store.labels.set_device_seconds("l", 100.0)
    store.queue.begin_slices([3], [])
    machine = store.queue.register(Host("here", 2, 1 << 30, (DEVICE,)), "played")
    dead = store.queue.start_lease(ProcessIdentity("gone", 1), 0.6)
    build = WorkRequest(machine.id, "b")
    ((claim, task),) = store.queue.claim(dead, JobStage.BUILD, [build], label="l")
    assert task.job == 3
    done = engine._done("b", task)
    store.queue.finish(dead, [claim_result_of(claim, done)])
    evaluate = WorkRequest(machine.id, "e", (DEVICE,))
    assert store.queue.claim(dead, JobStage.EVALUATE, [evaluate], label="l")
    time.sleep(0.3)
    assert store.queue.renew(dead)
    time.sleep(1.0)  # it is dead for some time before its lease is swept
    us = store.queue.start_lease(this_process(), 60.0)
    assert store.queue.sweep() == 1
    used = store.labels.device_time("l").used_s - before
    assert 0.25 <= used <= 0.6, "up to its last sign of life"
    assert store.jobs.get(3).status.state is JobState.BUILT
    store.queue.end_lease(us, "the test ends")


def test_ctrl_c_counts_what_was_used_and_gives_all_jobs_back(store: Store) -> None:
    loaded(store)
    engine, interrupt = PlayedEngine(), Interrupt()
    store.labels.set_device_seconds("l", 16.0)

    original = engine._done

    def stops(slot: str, task: Task) -> Done:
        interrupt.requested = task.stage is JobStage.EVALUATE
        return original(slot, task)

    engine._done = stops  # type: ignore[method-assign]
    summary = BudgetedCoordinator(store.queue, engine, REQUEST).run(interrupt)
    assert summary.interrupted
    counts = store.queue.live("l")
    assert not counts.get(JobState.BUILDING) and not counts.get(JobState.EVALUATING)
    engine._done = original  # type: ignore[method-assign]
    assert dict(run(store, 40.0, engine).counts) == {JobState.EVALUATED: JOBS}


def test_jobs_of_devices_that_are_not_here_are_left_to_other_runs(store: Store) -> None:
    loaded(store)
    elsewhere = [JobPlan(f"matmul:{n}x8x8:f32", "haswell/1", budget=TRIALS) for n in range(8, 12)]
    store.jobs.add(Label("l", "me"), elsewhere)
    builder = store.queue.start_lease(this_process(), 60.0)
    machine = store.queue.register(Host("there", 2, 1 << 30, ()), "played")
    request = WorkRequest(machine.id, "b", count=2, builds_for=("haswell/1",))
    for claim, task in store.queue.claim(builder, JobStage.BUILD, [request], label="l"):
        done = PlayedEngine()._done("b", task)
        assert store.queue.finish(builder, [claim_result_of(claim, done)]) == []
    store.queue.end_lease(builder, "it only builds")
    run(store, 100.0)
    jobs = store.jobs.find(label="l")
    assert [one.trials for one in jobs if one.plan.device != "haswell/1"] == [TRIALS] * JOBS
    states = [one.status.state for one in jobs if one.plan.device == "haswell/1"]
    assert states.count(JobState.BUILT) == 2 and states.count(JobState.NEW) == 2


def test_without_a_budget_jobs_are_done_in_order_with_all_trials(store: Store) -> None:
    loaded(store)
    engine = PlayedEngine()
    summary = Coordinator(store.queue, engine, REQUEST).run(Interrupt())
    assert dict(summary.counts) == {JobState.EVALUATED: JOBS}
    assert engine.rounds == {1: 2, 2: 2, 3: 2, 4: 2}, "rounds of 16 trials"
    assert store.labels.device_time("l").budget_s is None
