"""Forks while other threads load, compile and import."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.native import ForkOrder, background_work, forks

_HANGS_S = 60
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _no_test_hangs() -> Iterator[None]:
    signal.alarm(_HANGS_S)
    yield
    signal.alarm(0)


def forked() -> int:
    """The exit code of a child that does background work and ends."""
    child = os.fork()
    if child == 0:
        signal.alarm(_HANGS_S)
        with background_work():
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_goes_before_the_next_piece_of_work() -> None:
    begun, done = threading.Event(), list[int]()

    def work() -> None:
        for number in range(100):
            with background_work():
                begun.set()
                time.sleep(0.02)
                done.append(number)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(PATIENCE_S)
    pieces = len(done)
    assert forked() == 0
    # The child ended while further pieces were done: a few, not all of them.
    assert pieces < len(done) < 100
    thread.join()


def test_work_may_fork_itself_and_may_hold_work() -> None:
    with background_work(), background_work():
        assert forked() == 0
    assert forked() == 0


def test_work_forks_while_another_threads_fork_waits_for_it() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(forked()))
    with background_work():
        thread.start()
        while not forks._next.locked():
            time.sleep(0.01)
        assert forked() == 0
        assert not codes
    thread.join()
    assert codes == [0]


def test_code_that_holds_a_lock_and_takes_a_later_one_does_not_block_a_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer, inner, begun = threading.Lock(), threading.Lock(), threading.Event()
    # Registered in the other order, as a library's lock is that exists only once it is imported.
    monkeypatch.setattr(forks, "_locks", {ForkOrder.LLVM: inner, ForkOrder.LOADING: outer})

    def load() -> None:
        with outer:
            begun.set()
            time.sleep(0.2)
            with inner:
                pass

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    assert forked() == 0
    thread.join()
    assert not outer.locked() and not inner.locked()


def test_a_lock_that_is_made_while_a_fork_waits_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importing, late = threading.Lock(), threading.Lock()
    monkeypatch.setattr(forks, "_locks", {ForkOrder.LLVM_IMPORT: importing})
    begun, released = threading.Event(), list[bool]()

    def load() -> None:
        with importing:
            begun.set()
            time.sleep(0.2)
            late.acquire()
            forks.forks_wait_for(late, ForkOrder.LLVM)
        time.sleep(0.2)
        released.append(True)
        late.release()

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    assert forked() == 0
    assert released
    thread.join()


def run_script(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stderr == ""
    return done.stdout


_IMPORTING = """
import importlib, os, sys, threading, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from skipjack.native import background_work
import logging
sys.begun = threading.Event()
def work():
    with background_work():
        importlib.import_module("slow_to_import")
thread = threading.Thread(target=work)
thread.start()
sys.begun.wait()
child = os.fork()
if child == 0:
    import slow_to_import  # would wait for the thread that was importing it
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


def test_a_process_forked_while_work_imports_a_module_can_import_it(tmp_path: Path) -> None:
    slow = (
        "import sys, time, logging\nsys.begun.set()\ntime.sleep(0.3)\nlogging.getLogger('slow')\n"
    )
    (tmp_path / "slow_to_import.py").write_text(slow)
    assert run_script(_IMPORTING, str(tmp_path)) == "0\n"
