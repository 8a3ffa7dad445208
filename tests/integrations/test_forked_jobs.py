"""Calls in children: what they do stays there, what becomes of them is told."""

import errno
import faulthandler
import os
import signal
import threading
import time
from pathlib import Path

from skipjack.core import Status
from skipjack.integrations.triton.builds import run_jobs


def crash() -> None:
    faulthandler.disable()  # it would write to the terminal
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse() -> None:
    raise ValueError("not like this")


def test_calls_are_made_elsewhere_and_once_each(tmp_path: Path) -> None:
    def note(number: int) -> None:
        (tmp_path / f"{number}").write_text(str(os.getpid()))

    outcomes = run_jobs([lambda n=n: note(n) for n in range(7)], 3, 30.0)  # type: ignore[misc]
    assert [one.status for one in outcomes] == [Status.OK] * 7
    pids = {(tmp_path / f"{number}").read_text() for number in range(7)}
    assert str(os.getpid()) not in pids
    assert 1 <= len(pids) <= 3


def test_a_crash_an_error_and_a_hang_are_each_its_own_alone() -> None:
    jobs = [lambda: None, crash, lambda: None, refuse, lambda: time.sleep(60), lambda: None]
    outcomes = run_jobs(jobs, 2, 1.0)
    assert [one.status for one in outcomes] == [
        *(Status.OK, Status.BUILD_CRASH, Status.OK),
        *(Status.BUILD_ERROR, Status.BUILD_TIMEOUT, Status.OK),
    ]
    assert "SIGSEGV" in outcomes[1].reason
    assert outcomes[3].reason == "ValueError: not like this"
    assert "longer than 1 s" in outcomes[4].reason


def test_a_full_disk_is_not_held_against_a_call() -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (outcome,) = run_jobs([full], 1, 30.0)
    assert outcome.status is Status.ERROR
    assert "No space left" in outcome.reason


def test_leaving_the_process_is_a_crash() -> None:
    (outcome,) = run_jobs([lambda: os._exit(3)], 1, 30.0)
    assert outcome.status is Status.BUILD_CRASH
    assert "exit code 3" in outcome.reason


def _children() -> set[str]:
    """Of this process: other tests may have workers of their own."""
    tasks = Path("/proc/self/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


def test_no_child_is_left_behind() -> None:
    before = _children()
    run_jobs([crash, lambda: None, lambda: time.sleep(60)], 2, 0.5)
    assert _children() <= before


def test_a_thread_of_the_parent_does_no_harm() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert run_jobs([lambda: None] * 3, 2, 30.0)[-1].status is Status.OK
    finally:
        stop.set()
        thread.join()


def test_nothing_to_do_is_done() -> None:
    assert run_jobs([], 2, 1.0) == []
