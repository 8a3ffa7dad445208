"""What no bank knew is written down once, becomes jobs of the fleet, and comes back tuned."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy_entry import entry

import skipjack
from processes import PATIENCE_S
from skipjack.bank import Bank
from skipjack.fleet.problem_import import miss_sender, misses_of
from skipjack.fleet.store import open_store
from skipjack.native import cpu
from skipjack.runtime import MissedProblem, MissFile, bank_lookup, missed_problems
from skipjack.runtime.online import account_of_program, searches
from skipjack.runtime.process import policy, program
from skipjack.settings import load_settings

Command = Callable[..., subprocess.CompletedProcess[str]]
Wish = Callable[[str], None]
KEY = "add:64:f32"


@pytest.fixture(autouse=True)
def fresh(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just begun."""
    for name in ("SKIPJACK_FIND_ENFORCE", "SKIPJACK_FIND_MODE", "SKIPJACK_DB", "SKIPJACK_BANKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.setattr(missed_problems, "_logs", {})
    monkeypatch.setattr(policy, "_set", None)
    caches = policy.on_miss.cache_clear, policy.environment_policy.cache_clear
    for clear in caches:
        clear()
    yield
    for clear in caches:
        clear()


@pytest.fixture
def wish(monkeypatch: pytest.MonkeyPatch) -> Wish:
    """Sets SKIPJACK_ON_MISS."""

    def set_it(value: str) -> None:
        monkeypatch.setenv("SKIPJACK_ON_MISS", value)

    return set_it


def asked(key: str = KEY, calls: int = 0) -> str:
    kernel = skipjack.lookup(key)
    assert kernel is not None
    a = np.ones(64, np.float32)
    for _ in range(calls):
        kernel(a, a)
    return kernel.source


def test_a_missed_problem_is_written_down_once_with_its_calls_and_their_time(
    wish: Wish, user_dir: Path
) -> None:
    wish("record")
    for _ in range(3):
        asked(calls=50)
    assert [one.lookups for one in MissFile(user_dir).missed()] == [1]  # at once
    missed_problems.flush()
    (one,) = MissFile(user_dir).missed()
    assert (one.problem, one.device) == (KEY, cpu.detect().name)
    assert (one.lookups, one.calls, one.sent) == (1, 150, False)
    assert one.time_ns > 0
    skipjack.reload()
    asked(calls=1)
    missed_problems.flush()
    (one,) = MissFile(user_dir).missed()
    assert (one.lookups, one.calls) == (2, 151)


def test_calls_of_what_was_bound_count_too(wish: Wish, user_dir: Path) -> None:
    wish("record")
    kernel = skipjack.lookup(KEY)
    assert kernel is not None
    a = np.ones(64, np.float32)
    bound = kernel.bind(a, a, out=np.empty_like(a))
    for _ in range(5):
        bound()
    missed_problems.flush()
    assert MissFile(user_dir).missed()[0].calls == 5


def test_a_program_in_the_background_of_which_is_tuned_counts_both_ways(
    wish: Wish, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish("record")
    monkeypatch.setattr(searches, "_meters", {})
    monkeypatch.setattr(searches, "search_verb", lambda *_: None)
    with skipjack.tuning_policy("incremental", background=True):
        asked(calls=64)
    missed_problems.flush()
    assert MissFile(user_dir).missed()[0].calls == 64
    assert account_of_program(user_dir).add().kernel_ns > 0


def test_nothing_is_written_down_unless_that_is_wanted(wish: Wish, user_dir: Path) -> None:
    asked()
    wish("ignore")
    policy.on_miss.cache_clear()
    asked("add:65")
    assert not (user_dir / missed_problems.FILE_NAME).exists()


def test_a_value_that_means_nothing_is_one_warning(
    wish: Wish, user_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wish("recrod")
    asked()
    asked("add:65")
    assert caplog.text.count("SKIPJACK_ON_MISS") == 1
    assert "write one of ignore, record, tune, fleet" in caplog.text
    assert not (user_dir / missed_problems.FILE_NAME).exists()


def test_a_hit_and_what_the_policy_keeps_from_banks_are_no_misses(
    wish: Wish, user_dir: Path
) -> None:
    wish("record")
    Bank.open(user_dir).put(entry(KEY))
    assert asked() == "user"
    with skipjack.tuning_policy("off"):
        asked("add:65")
    assert skipjack.lookup("add:66", strict=True) is None
    assert not MissFile(user_dir).missed()


def test_tune_is_the_policy_incremental_where_nobody_chose_another(
    wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish("tune")
    assert policy.current_policy().mode == "incremental"
    with skipjack.tuning_policy("db"):
        assert not policy.current_policy().measures
    policy.environment_policy.cache_clear()
    monkeypatch.setenv("SKIPJACK_FIND_ENFORCE", "1")
    assert policy.current_policy().mode == "db"


def test_a_remembered_miss_costs_no_system_call(
    wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish("record")
    asked()
    monkeypatch.setattr(bank_lookup, "_INTERVAL_S", 1e9)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the file is not touched")

    monkeypatch.setattr(MissFile, "add", refuse)
    monkeypatch.setattr(missed_problems.MissLog, "note", refuse)
    for _ in range(100):
        asked(calls=1)


def test_a_miss_of_the_user_bank_is_remembered_until_a_bank_is_written(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert skipjack.lookup(KEY, strict=True) is None
    with monkeypatch.context() as patch:
        patch.setattr(bank_lookup, "_INTERVAL_S", 1e9)
        patch.delattr(bank_lookup, "_look_up")
        assert skipjack.lookup(KEY, strict=True) is None
    Bank.open(user_dir).put(entry(KEY))
    found = skipjack.lookup(KEY, strict=True)
    assert found is not None and found.source == "user"


def test_sums_are_written_from_time_to_time(
    wish: Wish, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_problems, "_FLUSH_S", 0.0)
    wish("record")
    asked(calls=200)
    assert MissFile(user_dir).missed()[0].calls >= 129  # at the last that was timed


def missed(problem: str, **numbers: int) -> MissedProblem:
    device = cpu.detect()
    return MissedProblem(problem, device.name, device.class_key, **numbers)


def test_the_most_valuable_come_first(user_dir: Path) -> None:
    MissFile(user_dir).add(
        [
            missed("add:1:f32", lookups=9),
            missed("add:2:f32", calls=1000, time_ns=5),
            missed("add:3:f32", calls=10, time_ns=5_000),
            missed("add:2:f32", calls=1000, time_ns=5),
        ]
    )
    found = MissFile(user_dir).missed()
    assert [one.problem for one in found] == ["add:3:f32", "add:2:f32", "add:1:f32"]
    assert found[1].calls == 2000


def test_torn_and_foreign_lines_are_passed_over(user_dir: Path) -> None:
    kept = MissFile(user_dir)
    kept.add([missed("add:1:f32", lookups=1)])
    with kept.path.open("ab") as written:
        written.write(b'{"format": 2, "problem": "add:7:f32"}\n[]\n{"format": 1, "calls": "x"}\n')
        written.write(missed("add:2:f32", lookups=1).line()[:-20])  # by a process that was killed
    kept.add([missed("add:3:f32", lookups=1)])
    assert [one.problem for one in kept.missed()] == ["add:1:f32", "add:3:f32"]


def test_a_file_of_many_lines_is_written_anew(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_problems, "_COMPACT_BYTES", 2000)
    kept = MissFile(user_dir)
    for _ in range(100):
        kept.add([missed("add:1:f32", lookups=1), missed("add:2:f32", calls=2)])
    assert kept.path.stat().st_size < 3000
    assert [(one.lookups, one.calls) for one in kept.missed()] == [(0, 200), (100, 0)]


def _add_many(user_dir: str) -> None:
    for _ in range(25):
        MissFile(Path(user_dir)).add([missed("add:1:f32", lookups=1, calls=3)])


def test_processes_that_write_at_once_lose_nothing(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_problems, "_COMPACT_BYTES", 1000)
    monkeypatch.setattr(missed_problems, "_WAIT_S", PATIENCE_S)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_add_many, args=(str(user_dir),)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    (one,) = MissFile(user_dir).missed()
    assert (one.lookups, one.calls) == (100, 300)


def test_jobs_are_made_of_what_still_no_bank_knows(user_dir: Path, skipjack: Command) -> None:
    MissFile(user_dir).add(
        [missed("add:1:f32", time_ns=1), missed("add:2:f32", time_ns=2), missed("add:3:f32")]
    )
    other = cpu.detect().name
    MissFile(user_dir).add([MissedProblem("add:5:f32", other, "cpu:another:class")])
    Bank.open(user_dir).put(entry("add:3:f32"))
    said = skipjack("load", "--misses", "-l", "tonight", "--budget", "2", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["jobs"] == 2
    assert "1 problem missed on other devices of the same name" in said.stderr
    with open_store() as store:
        assert [plan.problem for plan in store.labels.plans("tonight")] == [
            "add:2:f32",
            "add:1:f32",
        ]
        assert {plan.budget for plan in store.labels.plans("tonight")} == {2}
    assert "2 were there already" in skipjack("load", "--misses", "-l", "tonight").stdout


def test_without_misses_load_says_how_to_get_some(skipjack: Command) -> None:
    said = skipjack("load", "--misses", "-l", "tonight")
    assert said.returncode == 1
    assert "SKIPJACK_ON_MISS=record" in said.stderr
    assert skipjack("load", "--misses", "--all", "-l", "tonight").returncode == 2


def test_what_programs_miss_is_in_the_store_once(user_dir: Path) -> None:
    MissFile(user_dir).add([missed("add:1:f32"), missed("add:2:f32")])
    settings = load_settings()
    assert miss_sender.send(settings) == 2
    assert miss_sender.send(settings) == 0
    MissFile(user_dir).add([missed("add:1:f32", calls=5), missed("add:3:f32")])
    assert len(misses_of(settings, (cpu.detect(),), unsent=True).plans) == 1
    assert miss_sender.send(settings) == 1
    with open_store() as store:
        assert len(store.labels.plans("misses")) == 3


def test_a_program_that_ends_at_once_has_told_the_fleet(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_ON_MISS", "fleet")
    program = [sys.executable, "-c", "import skipjack; skipjack.lookup('add:64')"]
    subprocess.run(program, check=True, timeout=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S
    while not all(one.sent for one in MissFile(user_dir).missed()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with open_store() as store:
        assert [plan.problem for plan in store.labels.plans("misses")] == [KEY]


def test_a_fleet_that_cannot_be_reached_is_one_warning(
    wish: Wish, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wish("fleet")
    monkeypatch.setenv("SKIPJACK_DB", "sqlite:////nowhere/fleet.sqlite")
    asked()
    deadline = time.monotonic() + PATIENCE_S
    while "cannot be sent to the fleet" not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "/nowhere" in caplog.text


def test_a_user_directory_that_cannot_be_used_is_one_warning(
    wish: Wish, user_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wish("record")
    user_dir.write_text("not a directory")
    assert asked(calls=2) != "user"
    assert asked("add:65", calls=0) != "user"
    missed_problems.flush()
    assert caplog.text.count("cannot be recorded") == 1


def test_missed_job_run_build_hit_in_one_process(
    wish: Wish, user_dir: Path, skipjack: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_lookup, "_INTERVAL_S", 0.0)
    wish("record")
    assert asked(calls=3) != "user"
    missed_problems.flush()
    for words in (
        ("load", "--misses", "-l", "tonight", "--budget", "2"),
        ("run", "-l", "tonight"),
        ("bank", "build", "-l", "tonight"),
    ):
        done = skipjack(*words)
        assert done.returncode == 0, done.stderr
    assert asked(calls=1) == "user"
    assert "nothing to tune" in skipjack("load", "--misses", "-l", "again").stderr
