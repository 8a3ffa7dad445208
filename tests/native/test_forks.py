"""Forks while other threads load, compile and import."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.native import forks
from skipjack.native.forks import background_work

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def forked() -> int:
    """The exit code of a child that ends at once."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_goes_before_the_next_piece_of_work() -> None:
    begun, ended = threading.Event(), threading.Event()
    done: list[int] = []

    def work() -> None:
        for number in range(100):
            with background_work():
                begun.set()
                time.sleep(0.02)
                done.append(number)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(PATIENCE_S)
    assert forked() == 0
    assert not ended.is_set() and done
    thread.join()


def test_work_may_fork_itself() -> None:
    with background_work():
        assert forked() == 0
    assert not forks._held


def test_code_that_holds_a_lock_and_takes_a_later_one_does_not_block_a_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer, inner, begun = threading.Lock(), threading.Lock(), threading.Event()
    # Registered in the other order, as a library's lock is that exists only once it is imported.
    monkeypatch.setattr(
        forks, "_locks", {forks.ForkOrder.LLVM: inner, forks.ForkOrder.LOADING: outer}
    )

    def load() -> None:
        with outer:
            begun.set()
            time.sleep(0.2)
            with inner:
                pass

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    signal.alarm(int(PATIENCE_S))
    assert forked() == 0
    signal.alarm(0)
    thread.join()
    assert not outer.locked() and not inner.locked()


_IMPORTING = """
import importlib, os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from skipjack.native.forks import background_work
sys.begun = threading.Event()
def work():
    with background_work():
        importlib.import_module("slow_to_import")
thread = threading.Thread(target=work)
thread.start()
sys.begun.wait()
child = os.fork()
signal.alarm(30)
if child == 0:
    import slow_to_import  # would wait for the thread that was importing it
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""


def test_a_process_forked_while_work_imports_a_module_can_import_it(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(
        "import sys, time\nsys.begun.set()\ntime.sleep(0.3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTING, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
