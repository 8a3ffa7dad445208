"""The process that tunes for a program: one search for all who ask, and no trouble of its own."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S, alive, gone
from skipjack.execute import WorkerProcess
from skipjack.runtime.online import SearchRequest, TuningProcess, client
from skipjack.runtime.online.client import PendingSearch, numbers

HERE = str(Path(__file__).parent)


def start() -> WorkerProcess:
    return WorkerProcess("tune", module="stand_in_tuner", settings={"PYTHONPATH": HERE})


@pytest.fixture
def process() -> Iterator[TuningProcess]:
    made = TuningProcess(start)
    yield made
    made.close()


def request(problem: str, seconds: float = PATIENCE_S, **other: object) -> SearchRequest:
    return SearchRequest(
        id=next(numbers),
        problem=problem,
        device="znver4/1",
        user_dir="/nowhere",
        plugins=("mine",),
        build_workers=1,
        core=None,
        verb="tune",
        seconds=seconds,
        deadline=time.monotonic() + seconds,
        asked_at=time.time(),
        **other,  # type: ignore[arg-type]
    )


def answer_of(pending: PendingSearch) -> tuple[str, str]:
    found = pending.wait(time.monotonic() + PATIENCE_S)
    assert found is not None
    return found.status, found.reason


def test_a_request_survives_the_pipe() -> None:
    asked = request("add:8:f32", account="/a/file", regret=0.05)
    assert SearchRequest.of(asked.body()) == asked


def test_it_is_started_once_and_serves_many(process: TuningProcess) -> None:
    first, served = answer_of(process.search(request("a")))[1].split()
    assert served == "1"
    assert answer_of(process.search(request("b")))[1].split() == [first, "2"]
    assert alive(int(first))
    process.close()
    assert gone({int(first)})


def test_threads_that_ask_for_the_same_problem_share_a_search(process: TuningProcess) -> None:
    shared = process.search(request("stopped"))
    seen: list[PendingSearch] = []
    threads = [
        threading.Thread(target=lambda: seen.append(process.search(request("stopped"))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [shared] * 4
    process.stop(shared)
    assert answer_of(shared)[1].endswith(" 1")


def test_one_that_dies_is_a_failure_and_the_next_request_starts_another(
    process: TuningProcess,
) -> None:
    status, reason = answer_of(process.search(request("dies")))
    assert (status, reason) == ("failed", "ended with exit code 3")
    assert answer_of(process.search(request("a")))[0] == "banked"


def test_one_that_is_killed_is_a_failure(process: TuningProcess) -> None:
    pid = int(answer_of(process.search(request("a")))[1].split()[0])
    waiting = process.search(request("stopped"))
    os.kill(pid, 9)
    assert answer_of(waiting) == ("failed", "ended by SIGKILL")


def test_one_that_hangs_is_ended() -> None:
    process = TuningProcess(start, silence_s=2.0)
    pid = int(answer_of(process.search(request("a")))[1].split()[0])
    waiting = process.search(request("hangs", seconds=0.1))
    assert waiting.wait(waiting.request.deadline) is None  # who waits goes on in time
    status, reason = answer_of(waiting)
    assert (status, reason) == ("failed", "the process that tunes hangs does not respond")
    assert gone({pid})
    process.close()


def test_one_that_cannot_be_started_is_not_tried_for_good() -> None:
    tried = []

    def refuse() -> WorkerProcess:
        tried.append(1)
        raise OSError(11, "Resource temporarily unavailable")

    process = TuningProcess(refuse)
    for number in range(5):
        status, reason = answer_of(process.search(request(f"{number}")))
        assert status == "failed"
    assert len(tried) == 3
    assert "3 tuning processes" in reason
    process.close()


def test_a_forked_process_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_process", TuningProcess(start))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if client._process is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
