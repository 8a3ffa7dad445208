"""Kernels that are checked beside a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

import skipjack
from processes import PATIENCE_S
from skipjack.errors import SkipjackError
from skipjack.runtime.checks import (
    StillCheckingError,
    background,
    check_in_background,
    forget_checks,
)
from skipjack.runtime.local_kernels import KernelCode

CODE = KernelCode(b"", "", "kernel", "abi", ())


def test_a_kernel_is_checked_once_however_many_threads_ask() -> None:
    calls: list[int] = []

    def work() -> KernelCode:
        calls.append(1)
        return CODE

    def ask(_: int) -> KernelCode | None:
        try:
            return check_in_background("a", work, PATIENCE_S)
        except StillCheckingError as error:
            assert error.check.finished.wait(PATIENCE_S)
            return error.check.outcome()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == [CODE] * 40
    assert len(calls) == 1


def test_what_is_wrong_is_remembered_until_all_is_forgotten() -> None:
    calls: list[int] = []

    def fail() -> KernelCode:
        calls.append(1)
        raise ValueError("broken")

    for _ in range(3):
        with pytest.raises(SkipjackError, match="ValueError: broken"):
            check_in_background("a", fail, PATIENCE_S)
    assert len(calls) == 1
    forget_checks()
    with pytest.raises(SkipjackError, match="broken"):
        check_in_background("a", fail, PATIENCE_S)
    assert len(calls) == 2


def test_nobody_waits_while_another_kernel_is_checked() -> None:
    go_on = Event()

    def slowly() -> KernelCode:
        assert go_on.wait(PATIENCE_S)
        return CODE

    with pytest.raises(StillCheckingError) as slow:
        check_in_background("slow", slowly, 0.0)
    with pytest.raises(StillCheckingError) as other:
        check_in_background("other", lambda: CODE, 10 * PATIENCE_S)  # which would be too long
    go_on.set()
    assert slow.value.check.finished.wait(PATIENCE_S)
    assert other.value.check.finished.wait(PATIENCE_S)
    assert check_in_background("other", lambda: CODE, 0.0) is CODE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_for_a_check_and_checks_what_is_queued_for_itself() -> None:
    begun = Event()

    def slowly() -> KernelCode:
        begun.set()
        time.sleep(0.2)
        return CODE

    with pytest.raises(StillCheckingError) as first:
        check_in_background("a", slowly, 0.0)
    with pytest.raises(StillCheckingError) as queued:
        check_in_background("b", slowly, 0.0)
    assert begun.wait(PATIENCE_S)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert first.value.check.outcome() is CODE
            # A lookup whose answer holds until the check is finished asks again.
            assert queued.value.check.finished.is_set()
            status = 0 if check_in_background("b", lambda: CODE, PATIENCE_S) is CODE else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert queued.value.check.finished.wait(PATIENCE_S)


_ENDS = """
import sys, time
from skipjack.runtime.checks import StillCheckingError, background as beside
from skipjack.runtime.checks import check_in_background as checked_beside
beside._AFTER_END_S = float(sys.argv[1])
def slowly():
    time.sleep(0.3)
    print("checked", flush=True)
for key in "abc":
    try:
        checked_beside(key, slowly, 0.0)
    except StillCheckingError:
        pass
time.sleep(0.1)
"""


@pytest.mark.parametrize(("after_end_s", "checked"), [("0", {1, 2}), ("60", {3})])
def test_a_program_that_ends_begins_checks_for_some_seconds_more(
    after_end_s: str, checked: set[int]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDS, after_end_s], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("checked") in checked  # what it was at is always finished


def test_not_more_outcomes_are_kept_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_MOST_KEPT", 3)
    for number in range(10):
        try:
            check_in_background(str(number), lambda: CODE, PATIENCE_S)
        except StillCheckingError as error:
            assert error.check.finished.wait(PATIENCE_S)
    assert len(background._checks) <= 4


def test_a_config_that_is_named_waits_for_its_turn(user_dir: Path) -> None:
    begun = Event()

    def slowly() -> KernelCode:
        begun.set()
        time.sleep(0.3)
        return CODE

    with pytest.raises(StillCheckingError):
        check_in_background("another kernel", slowly, 0.0)
    assert begun.wait(PATIENCE_S)
    kernel = skipjack.lookup("add:96", solver="nest", config={"schedule": "i:32 i/v"})
    assert kernel is not None
    assert kernel.source == "explicit"
