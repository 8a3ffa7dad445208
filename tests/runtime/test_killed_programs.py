"""kill -9 at any moment loses at most the entry that was being written."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from numpy_entry import entry

import skipjack
from processes import PATIENCE_S, gone
from skipjack.bank import Bank
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.runtime import MissedProblem, MissFile, bank_lookup
from skipjack.runtime.answers import Agreement
from skipjack.runtime.answers.agreement import AgreedAnswer
from skipjack.storage import FileLock

TEMPLATE = entry("add:8")


@pytest.fixture(autouse=True)
def fresh(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bank_lookup, "_kept", {})
    yield
    skipjack.reload()


def write_for_good(user_dir: Path, first: int, wrote: Connection) -> None:
    """Bank, misses and agreements, one after another; each is told when it is written."""
    bank, misses = Bank(user_dir / "bank.jsonl"), MissFile(user_dir)
    shared = Agreement(user_dir / "ranks")
    for number in range(first, first + 10**6):
        bank.put(replace(TEMPLATE, problem=f"add:{number}:f32"))
        misses.add([MissedProblem(f"add:{number}:f32", "d/1", "d", lookups=1)])
        shared.settle(str(number), lambda: AgreedAnswer("numpy", "{}", "user", True))
        wrote.send(number)


def kill_writers(user_dir: Path, times: int) -> None:
    """Kill a writer at random moments; what it had told of is there each time."""
    context = multiprocessing.get_context("fork")
    told: list[int] = []
    for round in range(times):
        heard, wrote = context.Pipe(duplex=False)
        writer = context.Process(target=write_for_good, args=(user_dir, round * 10**6, wrote))
        writer.start()
        wrote.close()
        told.append(heard.recv())  # it has begun
        time.sleep(random.random() / 50)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        try:
            while True:
                told.append(heard.recv())
        except (EOFError, OSError):
            pass
        writer.join()
        known = {one.problem for one in Bank(user_dir / "bank.jsonl").entries()}
        missed = {one.problem for one in MissFile(user_dir).missed()}
        wanted = {f"add:{number}:f32" for number in told}
        assert wanted <= known
        assert wanted <= missed
        # It may have had one entry more in the file than it could tell of.
        assert len(known) <= len(wanted) + round + 1


def test_a_writer_that_is_killed_loses_the_entry_it_was_writing_at_most(user_dir: Path) -> None:
    kill_writers(user_dir, 10)


@pytest.mark.long
def test_two_hundred_writers_that_are_killed_lose_nothing_else(user_dir: Path) -> None:
    kill_writers(user_dir, 200)


PROGRAM = """
import skipjack, sys
print("begins", flush=True)
with skipjack.tuning_policy("incremental", seconds=2):
    for size in range(64, 96):
        print(size, skipjack.lookup(f"add:{size}").source, flush=True)
"""


def kill_programs(user_dir: Path, times: int, within_s: float) -> None:
    """Kill a program that tunes at random moments: what is left can be read and gone on with."""
    for _ in range(times):
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert program.stdout is not None
        said = [program.stdout.readline()]
        time.sleep(random.random() * within_s)
        program.kill()
        said += program.stdout.readlines()
        program.wait()
        tuned = [int(line.split()[0]) for line in said if line.endswith(" user\n")]
        bank = Bank(user_dir / "bank.jsonl")
        here = cpu.detect().class_key
        for size in tuned:
            assert bank.lookup(f"add:{size}:f32", here) is not None
        with Ledger.open(user_dir) as ledger:
            ledger.summary()
    skipjack.reload()
    kernel = skipjack.lookup("add:64")
    assert kernel is not None
    a = np.ones(64, np.float32)
    np.testing.assert_array_equal(kernel(a, a), a + a)


def test_a_program_that_is_killed_while_it_tunes_leaves_what_the_next_goes_on_with(
    user_dir: Path,
) -> None:
    kill_programs(user_dir, 2, 2.0)


@pytest.mark.long
def test_programs_that_are_killed_while_they_tune(user_dir: Path) -> None:
    kill_programs(user_dir, 30, 8.0)


HOLDER = """
import sys, time
from pathlib import Path
from skipjack.storage import FileLock
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("name", ["bank.lock", "misses.lock"])
def test_a_lock_of_a_dead_process_holds_nobody_up(user_dir: Path, name: str) -> None:
    user_dir.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(user_dir / name)], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    assert gone({holder.pid}, PATIENCE_S)
    holder.wait()
    Bank.open(user_dir).put(entry("add:64"))
    MissFile(user_dir).add([MissedProblem("add:65:f32", "d/1", "d", lookups=1)])
    kernel = skipjack.lookup("add:64")
    assert kernel is not None and kernel.source == "user"


def test_a_bank_and_misses_that_somebody_else_holds_are_read_and_done_without(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from skipjack.runtime import missed_problems
    from skipjack.runtime.process import policy, program

    monkeypatch.setattr(program, "_said", set())
    monkeypatch.setattr(missed_problems, "_logs", {})
    monkeypatch.setattr(missed_problems, "_WAIT_S", 0.01)
    monkeypatch.setenv("SKIPJACK_ON_MISS", "record")
    policy.on_miss.cache_clear()
    Bank.open(user_dir).put(entry("add:64"))
    try:
        with FileLock(user_dir / "bank.lock"), FileLock(user_dir / "misses.lock"):
            hit, missed = skipjack.lookup("add:64"), skipjack.lookup("add:65")
            assert hit is not None and hit.source == "user"
            assert missed is not None and missed.source != "user"
            assert caplog.text.count("missed problems cannot be recorded") == 1
        missed_problems.flush()
        assert [one.problem for one in MissFile(user_dir).missed()] == ["add:65:f32"]
    finally:
        monkeypatch.undo()
        policy.on_miss.cache_clear()
