"""The state machine of a pool: events in, instructions out, without processes."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.execute.pool import Cause, NotStarting, PoolLimits, TaskLost
from skipjack.execute.pool.state import EndWorker, PoolState, SendTasks, StartWorker

RULES = PoolLimits(task_s=10.0, silence_s=5.0, start_s=60.0, most_failed_starts=2, pause_s=30.0)


def pool_of(*slots: str, **limits: object) -> PoolState[str]:
    """A pool whose workers are all ready at the time 0."""
    state: PoolState[str] = PoolState(slots, dataclasses.replace(RULES, **limits))  # type: ignore[arg-type]
    assert state.decide(0.0) == [StartWorker(slot) for slot in slots]
    for slot in slots:
        state.ready(slot, 0.0)
    return state


def submit(state: PoolState[str], *tasks: str, slot: str = "") -> None:
    for task in tasks:
        state.submit(task, slot)


def later(state: PoolState[str], now: float, *heard: str) -> list[object]:
    """What follows once everything that workers said until then was read."""
    state.expire(now, heard)
    return list(state.decide(now))


class TestQueue:
    def test_a_worker_has_one_task_and_as_many_ahead_as_it_may(self) -> None:
        state = pool_of("a", ahead=1)
        submit(state, "x", "y", "z")
        assert state.decide(0.0) == [SendTasks("a", ("x", "y"))]
        assert state.answered("a", 1.0, seconds=1.0)
        assert state.decide(1.0) == [SendTasks("a", ("z",))]

    def test_workers_are_sent_equally_many(self) -> None:
        state = pool_of("a", "b", ahead=3)
        submit(state, "x", "y", "z")
        assert state.decide(0.0) == [SendTasks("a", ("x", "z")), SendTasks("b", ("y",))]

    def test_a_quick_worker_is_sent_more(self) -> None:
        state = pool_of("a", quick_ahead=2)
        submit(state, *"wxyz")
        assert state.decide(0.0) == [SendTasks("a", ("w",))]
        state.answered("a", 0.0, seconds=0.001)
        assert state.decide(0.0) == [SendTasks("a", ("x", "y", "z"))]

    def test_a_task_for_one_slot_waits_for_that_slot(self) -> None:
        state = pool_of("a", "b")
        submit(state, "x", "y", slot="b")
        assert state.decide(0.0) == [SendTasks("b", ("x",))]

    def test_what_was_not_sent_is_withdrawn(self) -> None:
        state = pool_of("a")
        submit(state, "x", "y", "z")
        state.decide(0.0)
        assert state.withdraw() == ["y", "z"]
        assert state.pending == 1

    def test_workers_may_be_started_for_tasks_only(self) -> None:
        state: PoolState[str] = PoolState("a", dataclasses.replace(RULES, on_demand=True))
        assert state.decide(0.0) == []
        submit(state, "x")
        assert state.decide(0.0) == [StartWorker("a")]

    def test_an_answer_without_a_task_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="an answer without a task"):
            pool_of("a").current("a")


class TestBlame:
    def test_a_worker_that_dies_costs_the_current_task_only(self) -> None:
        state = pool_of("a", ahead=2)
        submit(state, "x", "y", "z")
        state.decide(0.0)
        state.answered("a", 1.0, seconds=1.0)
        state.died("a", 3.0, "ended by SIGSEGV")
        lost = TaskLost("a", "y", Cause.CRASHED, "ended by SIGSEGV", seconds=2.0)
        assert state.decide(3.0) == [lost, StartWorker("a")]
        state.ready("a", 4.0)
        assert state.decide(4.0) == [SendTasks("a", ("z",))]

    def test_a_worker_that_dies_idle_costs_nothing(self) -> None:
        state = pool_of("a")
        state.died("a", 1.0, "ended by SIGKILL", from_outside=True)
        assert state.decide(1.0) == [StartWorker("a")]

    def test_tasks_that_a_dead_worker_did_not_take_are_not_to_blame(self) -> None:
        state = pool_of("a", ahead=1)
        submit(state, "x", "y")
        state.decide(0.0)
        state.refused("a", 2)
        state.died("a", 0.0, "ended by SIGSEGV")
        assert state.decide(0.0) == [StartWorker("a")]
        state.ready("a", 1.0)
        assert state.decide(1.0) == [SendTasks("a", ("x", "y"))]

    def test_a_worker_ended_from_outside_gives_its_task_one_more_chance_alone(self) -> None:
        state = pool_of("a", ahead=2, second_chance=True)
        submit(state, "x", "y", "z")
        state.decide(0.0)
        state.died("a", 1.0, "ended by SIGKILL", from_outside=True)
        assert state.decide(1.0) == [StartWorker("a")]
        state.ready("a", 2.0)
        assert state.decide(2.0) == [SendTasks("a", ("x",))]
        state.died("a", 3.0, "ended by SIGKILL", from_outside=True)
        lost = TaskLost("a", "x", Cause.CRASHED, "ended by SIGKILL", seconds=1.0)
        assert state.decide(3.0) == [lost, StartWorker("a")]

    def test_a_second_chance_waits_until_its_worker_is_idle(self) -> None:
        state = pool_of("a", "b", ahead=1, second_chance=True)
        submit(state, "x", "y")
        state.decide(0.0)
        state.died("a", 1.0, "ended by SIGKILL", from_outside=True)
        assert state.decide(1.0) == [StartWorker("a")], "b is at y"
        state.answered("b", 2.0, seconds=2.0)
        assert state.decide(2.0) == [SendTasks("b", ("x",))]

    def test_an_interruption_blames_no_task(self) -> None:
        state = pool_of("a")
        submit(state, "x")
        state.decide(0.0)
        state.interrupted("a")
        assert state.decide(1.0) == [StartWorker("a")]
        assert state.pending == 1


class TestTime:
    def test_a_task_that_takes_too_long_is_lost_with_its_worker(self) -> None:
        state = pool_of("a", ahead=1, silence_s=1000.0)
        submit(state, "x", "y")
        state.decide(0.0)
        assert later(state, 10.0) == []
        lost = TaskLost("a", "x", Cause.TIMED_OUT, "took longer than 10 s", seconds=10.5)
        assert later(state, 10.5) == [EndWorker("a"), lost, StartWorker("a")]

    def test_the_time_of_a_task_begins_when_it_is_the_first(self) -> None:
        state = pool_of("a", ahead=1, silence_s=1000.0)
        submit(state, "x", "y")
        state.decide(0.0)
        state.answered("a", 9.0, seconds=9.0)
        assert later(state, 18.0) == []

    def test_one_that_has_just_said_something_is_not_late_though_the_caller_was_busy(self) -> None:
        state = pool_of("a")
        submit(state, "x")
        state.decide(0.0)
        assert later(state, 99.0, "a") == []

    def test_time_alone_ends_no_worker_before_it_was_listened_to(self) -> None:
        state = pool_of("a")
        submit(state, "x")
        state.decide(0.0)
        assert state.decide(99.0) == []

    def test_a_silent_worker_is_ended_and_one_that_talks_is_not(self) -> None:
        state = pool_of("a", "b", task_s=1000.0)
        submit(state, "x", slot="a")
        submit(state, "y", slot="b")
        state.decide(0.0)
        state.heard("b", 4.0)
        how = "sent no heartbeat for 5 s and was ended"
        lost = TaskLost("a", "x", Cause.SILENT, how, seconds=6.0)
        assert later(state, 6.0) == [EndWorker("a"), lost, StartWorker("a")]

    def test_a_pool_that_did_not_listen_blames_no_worker_for_silence(self) -> None:
        state = pool_of("a")
        state.add_idle_time(100.0)
        assert later(state, 104.0) == []


class TestStarts:
    def test_after_several_failures_in_a_row_a_place_pauses(self) -> None:
        state: PoolState[str] = PoolState("a", RULES)
        submit(state, "mine", slot="a")
        submit(state, "anyones")
        assert state.decide(0.0) == [StartWorker("a")]
        state.died("a", 1.0, "ended with exit code 1")
        assert state.decide(1.0) == [StartWorker("a")]
        state.died("a", 2.0, "ended with exit code 1")
        how = "ended with exit code 1"
        assert state.decide(2.0) == [
            NotStarting("a", how),
            TaskLost("a", "mine", Cause.NOT_STARTED, how),
            TaskLost("a", "anyones", Cause.NOT_STARTED, how),
        ]
        submit(state, "next", slot="a")
        assert state.decide(31.0) == []
        assert state.decide(32.0) == [StartWorker("a")]

    def test_tasks_for_any_place_go_to_those_that_start(self) -> None:
        state: PoolState[str] = PoolState(("a", "b"), RULES)
        submit(state, "x")
        state.decide(0.0)
        state.ready("b", 1.0)
        state.died("a", 1.0, "failed")
        state.decide(1.0)
        state.died("a", 1.0, "failed")
        assert state.decide(1.0) == [NotStarting("a", "failed")]
        assert state.pending == 1

    def test_a_worker_that_does_not_become_ready_is_ended(self) -> None:
        state: PoolState[str] = PoolState("a", RULES)
        state.decide(0.0)
        assert later(state, 61.0) == [EndWorker("a"), StartWorker("a")]
        assert later(state, 123.0) == [
            EndWorker("a"),
            NotStarting("a", "was not ready within 60 s"),
        ]

    def test_one_that_starts_takes_the_failures_back(self) -> None:
        state: PoolState[str] = PoolState("a", RULES)
        for now in range(5):
            assert state.decide(now) == [StartWorker("a")]
            state.died("a", now, "failed")
            assert state.decide(now) == [StartWorker("a")]
            state.ready("a", now)
            state.died("a", now, "ended")


class TestCancelling:
    def test_a_worker_with_a_cancelled_current_task_is_ended(self) -> None:
        state = pool_of("a", ahead=1)
        submit(state, "x", "y")
        state.decide(0.0)
        state.cancel(lambda task: task == "x")
        assert state.decide(1.0) == [EndWorker("a"), StartWorker("a")]
        state.ready("a", 2.0)
        assert state.decide(2.0) == [SendTasks("a", ("y",))]

    def test_a_cancelled_task_further_back_waits_for_its_turn_and_ends_there(self) -> None:
        state = pool_of("a", ahead=1)
        submit(state, "x", "y")
        state.decide(0.0)
        state.cancel(lambda task: task == "y")
        assert state.decide(1.0) == []
        assert state.answered("a", 2.0, seconds=2.0)
        assert state.decide(2.0) == [EndWorker("a"), StartWorker("a")]

    def test_nothing_is_reported_of_cancelled_tasks(self) -> None:
        state = pool_of("a", ahead=1)
        submit(state, "x", "y")
        state.decide(0.0)
        state.died("a", 1.0, "ended")
        state.cancel(lambda task: True)
        assert state.decide(1.0) == [StartWorker("a")]
        assert state.pending == 0


EVENTS = st.lists(
    st.sampled_from(["submit", "answer", "crash", "kill", "interrupt", "start", "wait", "cancel"]),
    max_size=60,
)


@given(EVENTS)
def test_every_task_comes_back_once_whatever_happens(events: list[str]) -> None:
    limits = dataclasses.replace(RULES, ahead=2, second_chance=True)
    state: PoolState[int] = PoolState(("a", "b"), limits)
    back: list[int] = []
    cancelled: set[int] = set()
    submitted, now, up = 0, 0.0, {"a": False, "b": False}

    def follow() -> None:
        for one in state.decide(now):
            if isinstance(one, TaskLost):
                back.append(one.task)
            elif isinstance(one, StartWorker | EndWorker):
                up[one.slot] = isinstance(one, StartWorker)

    def happen(event: str, slot: str) -> None:
        nonlocal submitted, now
        if event == "submit":
            state.submit(submitted, slot if submitted % 3 == 0 else "")
            submitted += 1
        elif event == "wait":
            now += 7.0
            state.expire(now)
        elif event == "cancel":
            cancelled.update(set(range(0, submitted, 4)) - set(back))
            state.cancel(lambda task: task in cancelled)
        elif up[slot] and event == "start":
            state.ready(slot, now)
        elif up[slot] and event == "interrupt":
            up[slot] = False
            state.interrupted(slot)
        elif up[slot] and event in ("crash", "kill"):
            up[slot] = False
            state.died(slot, now, "ended", from_outside=event == "kill")
        elif up[slot] and event == "answer":
            try:
                task = state.current(slot)
            except ValueError:
                return
            if state.answered(slot, now, 1.0):
                back.append(task)

    for number, event in enumerate(events):
        happen(event, "ab"[number % 2])
        follow()
    for number in range(8 * (submitted + 4)):
        if state.pending == 0:
            break
        now += 1.0
        happen("answer" if number % 2 else "start", "ab"[number // 2 % 2])
        follow()
    assert state.pending == 0
    assert len(back) == len(set(back))
    assert set(back) | cancelled == set(range(submitted))
    assert not set(back) & cancelled
