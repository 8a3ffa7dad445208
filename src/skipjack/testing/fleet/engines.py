"""A conformance kit for the fleet's engines. In a test file of yours::

from skipjack.testing.fleet.engines import EngineConformance
from skipjack.testing.fleet.workers import make_stand_in

class TestMyEngine(EngineConformance):
    def start(self):
        return MyEngine(..., make_worker=make_stand_in)

The workers are stand-ins that do what the text of a problem says: they sleep, fail or exit.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError
from skipjack.fleet.model import (
    Done,
    Engine,
    JobPlan,
    JobStage,
    RunningLog,
    Slot,
    Task,
    TaskOutcome,
)
from skipjack.native import cpu


class EngineConformance:
    """The contract of engines (`skipjack.fleet.model.engine.Engine`).

    Subclass it, supply `start`, and let pytest collect it.
    """

    patience_s = 600.0
    """Timeout of all waits, so long that a busy machine fails no test."""
    same_machine = True
    """Whether workers run on the machine of the tests, so that their processes can be found."""

    def start(self) -> AbstractContextManager[Engine]:
        """A new engine with at least one builder, whose workers are created by `make_stand_in`.

        A worker without a heartbeat for a few seconds should count as lost.
        """
        raise NotImplementedError("supply start(self) in your subclass")

    def shared(self) -> AbstractContextManager[Engine]:
        """The engine of all tests except those that close it; override it if starting takes long.

        Return a `contextlib.nullcontext` of a running engine.
        """
        return self.start()

    def test_its_slots_are_on_its_hosts(self) -> None:
        with self.shared() as engine:
            self._slot(engine)
            hosts, slots = engine.hosts(), engine.slots()
        assert engine.name, "its name is empty"
        for what, names in (("hosts", [h.name for h in hosts]), ("slots", [s.name for s in slots])):
            twice = [name for name, times in Counter(names).items() if times > 1]
            assert not twice, f"two of its {what} have the name {twice[0]}"
        for slot in slots:
            assert slot.host in [host.name for host in hosts], (
                f"slot {slot.name} is on {slot.host}, which is not among the hosts"
            )
            assert slot.devices or slot.stage is JobStage.BUILD, (
                f"slot {slot.name} evaluates and has no devices"
            )

    def test_tasks_come_back_in_order_with_their_artifacts(self) -> None:
        data = bytes(range(256)) * 4096
        blob = {hashlib.sha256(data).hexdigest(): data}
        tasks = [_task(job, artifacts=blob if job == 7 else {}, attempt=job) for job in range(100)]
        with self.shared() as engine:
            slot = self._slot(engine)
            engine.submit(slot, tasks[:60])
            engine.submit(slot, tasks[60:])  # while others are still waiting
            done = self._collected(engine, range(100))
        order = [one.job for one in done]
        assert order == sorted(order), "tasks of one slot did not come back in order"
        for one in done:
            outcome = self._outcome(one)
            assert one.slot == slot, f"a task of {slot} came back from {one.slot}"
            assert one.attempt == one.job, (
                f"attempt {one.job} of job {one.job} came back as attempt {one.attempt}"
            )
            wanted = blob if one.job == 7 else {}
            assert outcome.artifacts == wanted, (
                f"job {one.job} came back with other artifacts than its worker gave"
            )

    def test_each_slot_does_its_own_tasks(self) -> None:
        with self.shared() as engine:
            self._slot(engine)
            slots = dict(enumerate(engine.slots()))
            for number, slot in slots.items():
                engine.submit(slot.name, [_task(number, stage=slot.stage)])
            done = self._collected(engine, slots)
        for one in done:
            slot = slots[one.job]
            assert one.slot == slot.name, f"a task of {slot.name} came back from {one.slot}"
            assert self._outcome(one).stage is slot.stage, (
                f"{slot.name} ran a task of another stage"
            )

    def test_poll_gives_nothing_where_nothing_was_submitted(self) -> None:
        with self.shared() as engine:
            self._slot(engine)
            done = engine.poll(0.1)
        assert not done, f"job {done[0].job} came back and was not submitted"

    def test_what_a_task_raises_is_its_outcome(self) -> None:
        with self.shared() as engine:
            engine.submit(self._slot(engine), [_task(1, "fail:out of luck"), _task(2)])
            first, second = self._collected(engine, (1, 2))
        failed = self._outcome(first).failed
        assert "out of luck" in failed, (
            f"a task raised RuntimeError('out of luck'), but its outcome failed with {failed!r}"
        )
        assert not self._outcome(second).failed, "a task failed with the one before it"

    def test_a_worker_that_dies_costs_its_task_only(self) -> None:
        with self.shared() as engine:
            slot = self._slot(engine)
            family = {self._pid(engine, slot), int(self._facts(engine, slot, "family"))}
            engine.submit(slot, [_task(1), _task(2, "end:SIGKILL"), _task(3), _task(4)])
            done = {one.job: one for one in self._collected(engine, (1, 2, 3, 4))}
            self._expect_lost(done.pop(2), "killed its worker")
            for one in done.values():
                self._outcome(one)
            self._expect_gone(family, "a worker was killed: one of its processes")
            self._expect_work(engine)

    def test_a_worker_that_is_silent_is_lost_and_replaced(self) -> None:
        with self.shared() as engine:
            slot = self._slot(engine)
            pid = self._pid(engine, slot)
            engine.submit(slot, [_task(1, "end:SIGSTOP")])
            (lost,) = self._collected(engine, (1,))
            self._expect_lost(lost, "stopped its worker")
            self._expect_gone({pid}, "a worker that was lost")
            self._expect_work(engine)

    def test_every_task_comes_back_once_whoever_dies(self) -> None:
        problems = ("nothing", "sleep:0.02", "end:SIGKILL", "fail:x", "nothing", "end:SIGSEGV")
        with self.shared() as engine:
            self._slot(engine)
            slots = engine.slots()
            for job in range(12):
                slot = slots[job // 6 % len(slots)]
                engine.submit(slot.name, [_task(job, problems[job % 6], stage=slot.stage)])
            done = self._collected(engine, range(12))
        lost = {one.job for one in done if one.lost}
        guilty = {job for job in range(12) if problems[job % 6].startswith("end:")}
        assert lost == guilty, f"jobs {sorted(guilty)} ended their workers; lost are {sorted(lost)}"

    def test_a_cancelled_job_ends_and_others_go_on(self) -> None:
        with self.shared() as engine:
            slot = self._slot(engine)
            pid = self._pid(engine, slot)
            engine.submit(slot, [_task(1, "sleep:600"), _task(2), _task(3)])
            early = engine.poll(0.2)
            assert not early, f"job {early[0].job} came back before the task ahead of it"
            engine.cancel([1, 3, 77])
            (other,) = self._collected(engine, (2,))
            self._outcome(other)
            self._expect_gone({pid}, "a cancelled job")

    def test_a_cancelled_job_can_be_submitted_again(self) -> None:
        with self.shared() as engine:
            engine.submit(self._slot(engine), [_task(1, "sleep:600", attempt=1)])
            engine.cancel([1])
            engine.submit(self._slot(engine), [_task(1, attempt=2)])
            (done,) = self._collected(engine, (1,))
        assert done.attempt == 2, "attempt 1 of a job came back although it was cancelled"
        self._outcome(done)

    def test_what_a_worker_has_said_so_far_is_heard(self) -> None:
        if not self.same_machine:
            return
        running_logs: list[RunningLog] = []

        def listen(engine: Engine) -> bool:
            early = engine.poll(0.1)
            assert not early, f"job {early[0].job} came back before it ended"
            running_logs.extend(engine.running_logs())
            return bool(running_logs)

        with self.shared() as engine, tempfile.TemporaryDirectory() as folder:
            go = Path(folder) / "go"
            engine.submit(self._slot(engine), [_task(7, f"murmur:{go}", attempt=3)])
            try:
                said = self._until(lambda: listen(engine))
                again = engine.running_logs()
            finally:
                go.touch()
            assert said, "running_logs returns nothing of what a worker logs during its task"
            self._collected(engine, (7,))
        named = [(one.job, one.attempt) for one in running_logs]
        assert named == [(7, 3)], (
            f"attempt 3 of job 7 logs, but running_logs returned (job, attempt) {named}"
        )
        assert "halfway there" in running_logs[0].text, (
            f"the log lacks its line: {running_logs[0].text!r}"
        )
        assert not again, "running_logs returned a log again that had not grown"

    def test_tasks_of_a_slot_that_is_not_there_do_not_vanish(self) -> None:
        """A slot may disappear before `submit`: its tasks are lost, or the call raises an error."""
        with self.shared() as engine:
            self._slot(engine)
            try:
                engine.submit("no such slot", [_task(1)])
            except SkipjackError:
                return
            (done,) = self._collected(engine, (1,))
        self._expect_lost(done, "was given to a slot that does not exist")

    def test_nothing_is_left_after_close(self) -> None:
        with self.start() as engine:
            slot = self._slot(engine)
            pid = self._pid(engine, slot)
            child = int(self._facts(engine, slot, "family"))
            engine.submit(slot, [_task(1, "sleep:600")])
            engine.poll(0.1)
            engine.close()
            self._expect_gone({pid, child}, "the engine was closed: a worker")

    # helpers of the tests

    def _until(self, condition: Callable[[], Any]) -> bool:
        began = time.monotonic()
        while not (holds := condition()) and time.monotonic() < began + self.patience_s:
            time.sleep(0.02)
        return bool(holds)

    def _slot(self, engine: Engine) -> str:
        """The slot of a builder, once there is one."""
        found: list[Slot] = []

        def look() -> bool:
            found.extend(slot for slot in engine.slots() if slot.stage is JobStage.BUILD)
            return bool(found)

        assert self._until(look), f"none of its slots is a builder after {self.patience_s:g} s"
        return found[0].name

    def _collected(self, engine: Engine, jobs: Sequence[int] | Any) -> list[Done]:
        """Collect these jobs, each of which must come back once."""
        done: list[Done] = []

        def take() -> bool:
            done.extend(engine.poll(0.1))
            return len(done) >= len(jobs)

        self._until(take)
        done += engine.poll(0.05)
        count = Counter(one.job for one in done)
        for job, times in count.items():
            assert job in jobs, f"job {job} came back although it was cancelled or not submitted"
            assert times == 1, f"job {job} came back {times} times instead of once"
        missing = [job for job in jobs if job not in count]
        assert not missing, (
            f"job {missing[0]} did not come back within {self.patience_s:g} s, "
            f"nor did {len(missing) - 1} others of {len(jobs)}"
        )
        return done

    def _outcome(self, done: Done) -> TaskOutcome:
        assert not done.lost, (
            f"job {done.job} is lost although its worker did not fail: {done.lost}"
        )
        assert done.outcome, f"job {done.job} came back with neither an outcome nor a reason"
        assert done.outcome.job == done.job, (
            f"job {done.job} came back with the outcome of job {done.outcome.job}"
        )
        return done.outcome

    def _expect_lost(self, done: Done, what: str) -> None:
        assert done.lost and done.outcome is None, (
            f"job {done.job} {what}, and is not reported as lost with a reason"
        )

    def _expect_work(self, engine: Engine) -> None:
        """Check that another worker replaces one that ended."""
        engine.submit(self._slot(engine), [_task(50)])
        (done,) = self._collected(engine, (50,))
        self._outcome(done)

    def _facts(self, engine: Engine, slot: str, problem: str) -> str:
        engine.submit(slot, [_task(99, problem)])
        (done,) = self._collected(engine, (99,))
        return self._outcome(done).facts

    def _pid(self, engine: Engine, slot: str) -> int:
        return int(self._facts(engine, slot, "where").split()[0])

    def _expect_gone(self, pids: set[int], whose: str) -> None:
        if self.same_machine:
            left = set(pids)
            self._until(lambda: not {pid for pid in left if _alive(pid)})
            left = {pid for pid in left if _alive(pid)}
            assert not left, f"{whose} still runs, as process {min(left)}"


def _task(
    job: int, problem: str = "nothing", stage: JobStage = JobStage.BUILD, **fields: Any
) -> Task:
    device = cpu.detect()
    return Task(job, stage, JobPlan(problem, device.name), device, **fields)


def _alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
