"""The conformance kit for engines reports engines that break the contract.

The engines that come with Skipjack go through it in `test_local` and `test_ray`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from skipjack.fleet.engines import LocalEngine
from skipjack.fleet.model import Done, Engine, Host, JobStage, RunningLog, Slot, Task
from skipjack.settings import load_settings
from skipjack.testing.fleet.engines import EngineConformance
from skipjack.testing.fleet.workers import make_stand_in


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """An engine that keeps the contract, for others to break."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path_factory.mktemp("user")))
        patch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path_factory.mktemp("locks")))
        with LocalEngine(load_settings(), 2, 1, make_worker=make_stand_in, stall_s=2.5) as engine:
            yield engine


class _Wrapping:
    """One that keeps the contract, for a subclass to break in one place."""

    name = "broken"

    def __init__(self, ours: LocalEngine, kit: EngineConformance) -> None:
        self.ours, self.kit = ours, kit

    def never(self) -> None:
        """What the kit waits for from now on will not happen."""
        self.kit.patience_s = 0.5

    def hosts(self) -> Sequence[Host]:
        return self.ours.hosts()

    def slots(self) -> Sequence[Slot]:
        return self.ours.slots()

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self.ours.submit(slot, tasks)

    def poll(self, timeout_s: float) -> list[Done]:
        return self.ours.poll(timeout_s)

    def running_logs(self) -> Sequence[RunningLog]:
        return self.ours.running_logs()

    def cancel(self, jobs: Sequence[int]) -> None:
        self.ours.cancel(jobs)

    def close(self) -> None:
        """The engine is used by other tests."""


class _Nameless(_Wrapping):
    name = ""


class _Twins(_Wrapping):
    def slots(self) -> Sequence[Slot]:
        return [replace(slot, name="build-1") for slot in super().slots()]


class _Elsewhere(_Wrapping):
    def slots(self) -> Sequence[Slot]:
        return [replace(slot, host="elsewhere") for slot in super().slots()]


class _Deviceless(_Wrapping):
    def slots(self) -> Sequence[Slot]:
        return [replace(slot, devices=()) for slot in super().slots()]


class _OfEvaluators(_Wrapping):
    def slots(self) -> Sequence[Slot]:
        self.never()
        return [slot for slot in super().slots() if slot.stage is JobStage.EVALUATE]


class _Scattering(_Wrapping):
    """Gives the second half of a slot's tasks to another one."""

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        half = len(tasks) // 2
        super().submit(slot, tasks[: half or 1])
        super().submit("build-2" if slot == "build-1" else "build-1", tasks[half or 1 :])


class _Unlabelled(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return [replace(one, slot="build-1") for one in super().poll(timeout_s)]


class _Backwards(_Wrapping):
    """Returns everything at the end, in reverse order."""

    def __init__(self, ours: LocalEngine, kit: EngineConformance) -> None:
        super().__init__(ours, kit)
        self.out, self.done = 0, list[Done]()

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self.out += len(tasks)
        super().submit(slot, tasks)

    def poll(self, timeout_s: float) -> list[Done]:
        self.done += super().poll(timeout_s)
        if len(self.done) < self.out:
            return []
        done, self.out, self.done = self.done[::-1], 0, []
        return done


class _Uncounting(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return [replace(one, attempt=0) for one in super().poll(timeout_s)]


class _WithoutArtifacts(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return [
            replace(one, outcome=one.outcome and replace(one.outcome, artifacts={}))
            for one in super().poll(timeout_s)
        ]


class _Repeating(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return 2 * super().poll(timeout_s)


class _Inventing(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return [Done("build-1", 5, lost="by chance")]


class _Dropping(_Wrapping):
    """Does not report lost tasks."""

    def poll(self, timeout_s: float) -> list[Done]:
        done = super().poll(timeout_s)
        if any(one.lost for one in done):
            self.never()
        return [one for one in done if not one.lost]


class _Wordless(_Wrapping):
    def poll(self, timeout_s: float) -> list[Done]:
        return [replace(one, lost="") for one in super().poll(timeout_s)]


class _Losing(_Wrapping):
    """Reports what failed as lost."""

    def poll(self, timeout_s: float) -> list[Done]:
        return [
            replace(one, outcome=None, lost=one.outcome.failed)
            if one.outcome and one.outcome.failed
            else one
            for one in super().poll(timeout_s)
        ]


class _Blaming(_Wrapping):
    """A worker that dies takes all that its slot still had to do with it."""

    dead: str = ""

    def poll(self, timeout_s: float) -> list[Done]:
        done = []
        for one in super().poll(timeout_s):
            self.dead = self.dead or one.lost
            done.append(replace(one, outcome=None, lost=self.dead) if self.dead else one)
        return done


class _Reporting(_Wrapping):
    """Reports cancelled tasks."""

    def __init__(self, ours: LocalEngine, kit: EngineConformance) -> None:
        super().__init__(ours, kit)
        self.cancelled = list[Done]()

    def cancel(self, jobs: Sequence[int]) -> None:
        super().cancel(jobs)
        self.cancelled += [Done("build-1", job, lost="it was cancelled", attempt=1) for job in jobs]

    def poll(self, timeout_s: float) -> list[Done]:
        cancelled, self.cancelled = self.cancelled, []
        return [*cancelled, *super().poll(timeout_s)]


class _Deaf(_Wrapping):
    def running_logs(self) -> Sequence[RunningLog]:
        self.never()
        return []


class _Chatty(_Wrapping):
    said: Sequence[RunningLog] = ()

    def running_logs(self) -> Sequence[RunningLog]:
        self.said = self.ours.running_logs() or self.said
        return self.said


class _Swallowing(_Wrapping):
    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        if slot in {one.name for one in self.slots()}:
            super().submit(slot, tasks)
        else:
            self.never()


class _Leaving(_Wrapping):
    """Closes without ending its workers."""

    def close(self) -> None:
        self.never()


@pytest.mark.parametrize(
    ("broken", "test", "said"),
    [
        (_Nameless, "its_slots_are_on_its_hosts", "its name is empty"),
        (_Twins, "its_slots_are_on_its_hosts", "two of its slots have the name build-1"),
        (_Elsewhere, "its_slots_are_on_its_hosts", "is on elsewhere, which is not among the hosts"),
        (_Deviceless, "its_slots_are_on_its_hosts", "evaluates and has no devices"),
        (_Scattering, "tasks_come_back_in_order_with_their_artifacts", "in order|came back from"),
        (_Backwards, "tasks_come_back_in_order_with_their_artifacts", "did not come back in order"),
        (_Uncounting, "tasks_come_back_in_order_with_their_artifacts", "came back as attempt 0"),
        (_WithoutArtifacts, "tasks_come_back_in_order_with_their_artifacts", "other artifacts"),
        (_Repeating, "tasks_come_back_in_order_with_their_artifacts", "times instead of once"),
        (_Unlabelled, "each_slot_does_its_own_tasks", "a task of .* came back from build-1"),
        (_Inventing, "poll_gives_nothing_where_nothing_was_submitted", "and was not submitted"),
        (_Losing, "what_a_task_raises_is_its_outcome", "is lost although its worker"),
        (_Wordless, "a_worker_that_dies_costs_its_task_only", "not reported as lost with a reason"),
        (_Blaming, "a_worker_that_dies_costs_its_task_only", "is lost although its worker"),
        (_Wordless, "a_worker_that_is_silent_is_lost_and_replaced", "not reported as lost"),
        (_Blaming, "every_task_comes_back_once_whoever_dies", "ended their workers; lost are"),
        (_Reporting, "a_cancelled_job_ends_and_others_go_on", "although it was cancelled"),
        (_Reporting, "a_cancelled_job_can_be_submitted_again", "instead of once|attempt 1"),
        (_Chatty, "what_a_worker_has_said_so_far_is_heard", "again that had not grown"),
        (_OfEvaluators, "its_slots_are_on_its_hosts", "none of its slots is a builder"),
        (_Dropping, "a_worker_that_dies_costs_its_task_only", "did not come back within 0.5 s"),
        (_Deaf, "what_a_worker_has_said_so_far_is_heard", "running_logs returns nothing of"),
        (_Swallowing, "tasks_of_a_slot_that_is_not_there_do_not_vanish", "did not come back"),
        (_Leaving, "nothing_is_left_after_close", "still runs, as process"),
    ],
)
def test_the_kit_tells_what_is_wrong(
    local: LocalEngine, broken: type[_Wrapping], test: str, said: str
) -> None:
    class Kit(EngineConformance):
        def start(self) -> AbstractContextManager[Engine]:
            return nullcontext(broken(local, self))

    with pytest.raises(AssertionError, match=said):
        getattr(Kit(), f"test_{test}")()
    local.cancel(range(100))
    while local.poll(0.0):
        """What this test left is nothing for the next."""
    local.running_logs()
