"""Real processes that crash, hang, are stopped or killed: every task comes back once."""

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import pytest

from processes import PATIENCE_S, alive, gone
from skipjack.execute import ForkedWorker, WorkerProcess, wire
from skipjack.execute.pool import Cause, PoolLimits, TaskDone, TaskLost, WorkerPool

Pool = WorkerPool[str, int]
Result = TaskDone[str, int] | TaskLost[str]
Start = Callable[..., Pool]


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """A worker that does what its tasks name, and answers with its process id."""
    faulthandler.disable()  # pytest's, which would print the stack of a crash that is meant
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        verb, _, value = message.body["task"].partition(":")
        if verb == "signal":
            os.kill(os.getpid(), signal.Signals[value])
        elif verb == "exit":
            os._exit(int(value))
        elif verb == "sleep":
            time.sleep(float(value))
        elif verb == "nonsense":
            wire.send(answers, {"pid": "none"})
        wire.send(answers, {"pid": os.getpid(), "bytes": sum(map(len, message.blobs))})


class Codec:
    """Tasks are sent one by one; a task ``large`` has a blob that no pipe holds at once."""

    def requests(self, tasks: Sequence[str]) -> Iterable[wire.Message]:
        for task in tasks:
            blobs = [bytes(1 << 20)] if task == "large" else []
            yield wire.Message({"task": task}, blobs)

    def answers(self, slot: str, message: wire.Message) -> Iterable[tuple[wire.Message, float]]:
        return [(message, 1.0)] if "pid" in message.body else []

    def result(self, task: str, answer: wire.Message) -> int:
        assert task != "large" or answer.body["bytes"] == 1 << 20
        return int(answer.body["pid"])


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def opened(workers: int = 1, **limits: float) -> Pool:
            slots = [f"slot-{number}" for number in range(workers)]
            pool = Pool(
                slots,
                lambda slot: ForkedWorker("test", serve),
                Codec(),
                PoolLimits(**limits),  # type: ignore[arg-type]
            )
            return stack.enter_context(pool)

        yield opened


def collect(pool: Pool, count: int) -> dict[str, Result]:
    """The next results by task."""
    found: dict[str, Result] = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found |= {one.task: one for one in pool.poll(0.1)}
    return found


def lost(result: Result) -> tuple[Cause, str]:
    assert isinstance(result, TaskLost)
    return result.cause, result.how


@pytest.mark.parametrize(
    ("task", "how"),
    [
        ("signal:SIGSEGV", "ended by SIGSEGV"),
        ("signal:SIGKILL", "ended by SIGKILL"),
        ("exit:3", "ended with exit code 3"),
        ("nonsense", "sent an invalid answer"),
    ],
)
def test_a_worker_that_ends_costs_its_current_task_only(start: Start, task: str, how: str) -> None:
    pool = start(ahead=2)
    pool.submit(["first", task, "last"])
    done = collect(pool, 3)
    cause, words = lost(done[task])
    assert cause is Cause.CRASHED
    assert words.startswith(how)
    assert isinstance(done["first"], TaskDone) and isinstance(done["last"], TaskDone)
    assert done["first"].answer != done["last"].answer, "another process took over"


def test_a_task_that_hangs_is_ended_with_its_worker(start: Start) -> None:
    pool = start(task_s=0.5)
    pool.submit(["sleep:600", "next"])
    pid = pool.pids["slot-0"]
    done = collect(pool, 2)
    assert lost(done["sleep:600"]) == (Cause.TIMED_OUT, "took longer than 0.5 s")
    assert isinstance(done["next"], TaskDone)
    assert not alive(pid)


def test_a_stopped_worker_is_silent(start: Start) -> None:
    pool = start(silence_s=0.5)
    pool.submit(["sleep:600"])
    while not pool.all_ready:
        pool.step(0.1)
    os.kill(pool.pids["slot-0"], signal.SIGSTOP)
    assert lost(collect(pool, 1)["sleep:600"])[0] is Cause.SILENT


def test_an_answer_that_waited_for_a_busy_caller_is_not_late(start: Start) -> None:
    pool = start(task_s=0.5)
    while not pool.all_ready:
        pool.step(0.1)
    pool.submit(["quick"])
    time.sleep(0.8)
    pool.submit(["next"])
    assert all(isinstance(one, TaskDone) for one in collect(pool, 2).values())


def test_a_task_whose_worker_is_killed_from_outside_is_tried_once_more(start: Start) -> None:
    pool = start(second_chance=True)
    pool.submit(["sleep:0.4"])
    while not pool.all_ready:
        pool.step(0.1)
    killed = pool.pids["slot-0"]
    os.kill(killed, signal.SIGKILL)
    done = collect(pool, 1)["sleep:0.4"]
    assert isinstance(done, TaskDone) and done.answer != killed


def test_every_task_comes_back_once_however_often_workers_are_killed(start: Start) -> None:
    pool = start(3, ahead=2)
    tasks = [f"sleep:{0.001 * (number % 10) + 1e-6 * number:.6f}" for number in range(90)]
    pool.submit(tasks)
    back: list[Result] = []
    for victim in ("slot-0", "slot-1", "slot-2", "slot-0", "slot-1"):
        back += pool.poll(0.05)
        if victim in pool.pids:
            os.kill(pool.pids[victim], signal.SIGKILL)
    while pool.pending:
        back += pool.poll(0.1)
    back += pool.take()
    assert sorted(one.task for one in back) == sorted(tasks)
    assert sum(isinstance(one, TaskLost) for one in back) <= 5


def test_a_request_that_no_pipe_holds_arrives_in_pieces(start: Start) -> None:
    pool = start()
    pool.submit(["sleep:0.1", "large"])
    assert isinstance(collect(pool, 2)["large"], TaskDone)


def test_what_is_cancelled_does_not_come_back(start: Start) -> None:
    pool = start(ahead=1)
    pool.submit(["sleep:600", "kept"])
    while not pool.all_ready:
        pool.step(0.1)
    pool.cancel(lambda task: task == "sleep:600")
    assert list(collect(pool, 1)) == ["kept"]
    assert pool.pending == 0


def test_tasks_come_back_when_no_worker_can_be_started() -> None:
    def refuse(slot: str) -> WorkerProcess:
        raise OSError(11, "Resource temporarily unavailable")

    with Pool(["only"], refuse, Codec(), PoolLimits(on_demand=True)) as pool:
        pool.submit(["task"])
        how = "could not be started: Resource temporarily unavailable"
        assert lost(collect(pool, 1)["task"]) == (Cause.NOT_STARTED, how)
        assert [one.how for one in pool.take_not_starting()] == [how]


def test_no_worker_is_left_after_close(start: Start) -> None:
    pool = start(3)
    pool.submit(["sleep:600"] * 3)
    pids = set(pool.pids.values())
    assert len(pids) == 3 and all(map(alive, pids))
    pool.close()
    assert gone(pids)
