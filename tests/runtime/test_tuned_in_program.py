"""When a lookup leads to a search, and what the program gets: never an exception, never a wait
that is longer than what it allowed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy_entry import entry

import skipjack
from skipjack.bank import Bank
from skipjack.errors import StorageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup
from skipjack.runtime.online import SearchAnswer, SearchRequest, counts, searches
from skipjack.runtime.online.client import PendingSearch
from skipjack.runtime.process import policy, program

KEY = "add:64:f32"
FOUND = SearchAnswer("vendor", "numpy is faster", searched=True)


class StandIn:
    """In the place of the process: banks what a test tells it to, and answers."""

    def __init__(self, user_dir: Path) -> None:
        self.user_dir = user_dir
        self.requests: list[SearchRequest] = []
        self.pending: list[PendingSearch] = []
        self.answers: SearchAnswer | None = FOUND
        """None: nothing comes back until `finish` is called."""

    def search(self, request: SearchRequest) -> PendingSearch:
        self.requests.append(request)
        self.pending.append(PendingSearch(request))
        if self.answers is not None:
            self.finish(self.answers)
        return self.pending[-1]

    def finish(self, answer: SearchAnswer = FOUND) -> None:
        if answer.searched:
            Bank.open(self.user_dir).put(entry(self.requests[-1].problem))
        self.pending[-1].finish(answer)


@pytest.fixture(autouse=True)
def process(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A process that has just begun, and one that tunes for it at once."""
    for name in ("SKIPJACK_FIND_ENFORCE", "SKIPJACK_FIND_MODE", "SKIPJACK_BANKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.setattr(searches, "_asked", {})
    monkeypatch.setattr(searches, "_meters", {})
    monkeypatch.setattr(policy, "_set", None)
    policy.environment_policy.cache_clear()
    counts.clear()
    made = StandIn(user_dir)
    monkeypatch.setattr(searches, "tuning_process", lambda: made)
    yield made
    policy.environment_policy.cache_clear()


def source(key: str = KEY) -> str:
    kernel = skipjack.lookup(key)
    assert kernel is not None
    a = np.ones(64, np.float32)
    np.testing.assert_array_equal(kernel(a, a), a + a)
    return kernel.source


def test_incremental_tunes_once_what_no_bank_knows(process: StandIn) -> None:
    with skipjack.tuning_policy("incremental", seconds=2):
        assert source() == "user"
        skipjack.reload()
        assert source() == "user"
    (request,) = process.requests
    assert (request.problem, request.verb, request.retune) == (KEY, "tune", False)
    assert request.device == cpu.detect().name
    assert request.seconds == 2


@pytest.mark.parametrize(("line", "seconds"), [("tune_seconds = 8", 8), ("finalists = 4", 5)])
def test_the_time_of_a_search_is_that_of_the_limits_unless_the_policy_says(
    process: StandIn, user_dir: Path, line: str, seconds: float
) -> None:
    user_dir.mkdir(exist_ok=True)
    (user_dir / "config.toml").write_text(f"[limits]\n{line}\n")
    with skipjack.tuning_policy("incremental"):
        source()
    assert process.requests[0].seconds == seconds


def test_a_search_is_for_the_deployment_that_is_asked_about(process: StandIn) -> None:
    with skipjack.tuning_policy("incremental", seconds=2):
        for _ in range(2):
            skipjack.lookup(KEY, protocol="eager/hot")
    (request,) = process.requests
    assert request.protocol == "eager/hot"


def test_db_and_off_search_nothing(process: StandIn) -> None:
    assert source() != "user"
    with skipjack.tuning_policy("off"):
        assert source() == "library"
    assert not process.requests


def test_what_a_bank_knows_is_searched_only_by_exhaustive(process: StandIn, user_dir: Path) -> None:
    Bank.open(user_dir).put(entry(KEY))
    for mode in ("db", "refresh", "incremental"):
        with skipjack.tuning_policy(mode):
            assert source() == "user"
    assert not process.requests
    with skipjack.tuning_policy("exhaustive"):
        assert source() == source() == "user"
        skipjack.reload()
        assert source() == "user"
    assert [request.retune for request in process.requests] == [True]


def test_refresh_tunes_again_what_is_stale(
    process: StandIn, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(user_dir).put(entry(KEY))
    monkeypatch.setattr("skipjack.bank.stale_reason", lambda *_: "another compiler")
    with skipjack.tuning_policy("incremental"):
        assert source() == "user"
    assert not process.requests
    with skipjack.tuning_policy("refresh"):
        assert source() == "user"
        assert source() == "user"
    assert len(process.requests) == 1


def test_clean_removes_the_entry_of_the_user_bank_alone(
    process: StandIn, user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    monkeypatch.setenv("SKIPJACK_BANKS", str(other))
    for place in (user_dir, other):
        Bank.open(place).put(entry(KEY))
    Bank.open(user_dir).put(entry("mul:64"))
    assert source() == "user"
    with skipjack.tuning_policy("clean"):
        assert source() == "bank other"
        assert source() == "bank other"
    assert source() == "bank other"
    assert [one.problem for one in Bank.open(user_dir).entries()] == ["mul:64:f32"]
    assert counts["cleaned"] == 1
    assert not process.requests


def test_an_entry_that_cannot_be_removed_is_told_as_such(
    process: StandIn,
    user_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("cannot write it: the file system is read-only")

    Bank.open(user_dir).put(entry(KEY))
    monkeypatch.setattr(Bank, "clean", refuse)
    with skipjack.tuning_policy("clean"):
        assert source() == "user"
    assert caplog.messages == [
        f"cannot remove the entry of {KEY} from the user bank: "
        "cannot write it: the file system is read-only"
    ]


def test_find_modes_measure_where_the_policy_is_db(
    process: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, mode in enumerate(("hybrid", "dynamic_hybrid", "normal", "fast")):
        monkeypatch.setenv("SKIPJACK_FIND_MODE", mode)
        policy.environment_policy.cache_clear()
        for _ in range(2):
            skipjack.lookup(f"add:{number + 1}")
            skipjack.reload()
    assert [request.verb for request in process.requests] == ["find", "propose", "find"]
    monkeypatch.setenv("SKIPJACK_FIND_MODE", "normal")
    policy.environment_policy.cache_clear()
    skipjack.lookup("add:1")  # which the bank knows
    assert len(process.requests) == 4


def test_a_search_that_fails_is_counted_and_told_once(
    process: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    process.answers = SearchAnswer("failed", "the disk is full")
    with skipjack.tuning_policy("incremental"):
        assert source() != "user"
        assert source() != "user"
        skipjack.lookup("mul:64")
    assert counts["failed"] == 2
    told = [record for record in caplog.records if "cannot be tuned" in record.getMessage()]
    assert len(told) == 1
    assert "the disk is full" in told[0].getMessage()


def test_whatever_goes_wrong_the_program_has_an_answer(
    process: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(searches, "tuning_process", refuse)
    with skipjack.tuning_policy("incremental"):
        assert source() != "user"
    assert counts["failed"] == 1


def test_a_search_that_is_late_is_not_waited_for_and_used_when_it_is_done(
    process: StandIn,
) -> None:
    process.answers = None
    with skipjack.tuning_policy("incremental", seconds=0.05):
        assert source() != "user"
        assert source() != "user"  # nobody waits twice
        assert counts["late"] == 1
        process.finish()
        assert source() == "user"
    assert len(process.requests) == 1


def test_one_that_did_not_begin_in_time_is_asked_for_again(
    process: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_lookup, "_INTERVAL_S", 0.0)
    process.answers = SearchAnswer("late", "not even started")
    with skipjack.tuning_policy("incremental"):
        assert source() != "user"
        process.answers = FOUND
        assert source() == "user"
    assert len(process.requests) == 2


def test_threads_that_ask_at_once_wait_for_one_search(process: StandIn) -> None:
    process.answers = None
    seen: list[str] = []

    def ask() -> None:
        with skipjack.tuning_policy("incremental", seconds=300):
            seen.append(source())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while counts["joined"] < 3:
        time.sleep(0.001)
    process.finish()
    for thread in threads:
        thread.join()
    assert seen == ["user"] * 4
    assert len(process.requests) == 1


def test_in_the_background_the_program_goes_on_and_gets_the_result_later(
    process: StandIn,
) -> None:
    process.answers = None
    with skipjack.tuning_policy("incremental", seconds=2, background=True, regret="10%"):
        assert source() != "user"
        (request,) = process.requests
        assert request.deadline is None
        assert request.account is not None
        assert request.regret == 0.1
        assert source() != "user"
        process.finish()
        assert source() == "user"
    assert len(process.requests) == 1


def test_nothing_is_tuned_while_a_graph_is_recorded(
    process: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = [True]
    cuda = SimpleNamespace(
        is_available=lambda: True, is_current_stream_capturing=lambda: recording[0]
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    monkeypatch.setattr(bank_lookup, "_INTERVAL_S", 0.0)
    with skipjack.tuning_policy("incremental"):
        assert source() != "user"
        assert not process.requests
        assert counts["recording"] == 1
        recording[0] = False
        assert source() == "user"  # it was only put off


def test_commands_are_logged_once_and_can_be_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from skipjack.runtime.online import tuning_lock

    monkeypatch.setenv("SKIPJACK_ENABLE_LOGGING_CMD", "1")
    monkeypatch.setattr(tuning_lock, "_logged", set())
    policy.logs_commands.cache_clear()
    try:
        skipjack.lookup("add:8")
        skipjack.reload()
        skipjack.lookup("add:8")
        skipjack.lookup("conv2d:n1c2h4w4k2y1x1", layout="NHWC", direction="bwd")
        for protocol in ("native/hot", "eager/cold", "eager/cold", "native/cold"):
            skipjack.lookup("add:8", protocol=protocol)
    finally:
        monkeypatch.undo()
        policy.logs_commands.cache_clear()
    here = cpu.detect().name
    conv: Any = parse("conv2d:n1c2h4w4k2y1x1", layout="NHWC", direction="bwd").key
    assert capfd.readouterr().err.splitlines() == [
        f"skipjack tune add:8:f32 --device {here}",
        f"skipjack tune {conv} --device {here}",
        f"skipjack tune add:8:f32 --device {here} --deployed eager --caches cold",
        f"skipjack tune add:8:f32 --device {here} --deployed native --caches cold",
    ]


@pytest.mark.parametrize(
    ("searchers", "asked"),
    [({"vector": "policy"}, ["policy"]), ({"cube": "genetic"}, []), (None, ["auto"])],
)
def test_the_searcher_is_that_of_the_operations_class(
    searchers: dict[str, str] | None, asked: list[str], process: StandIn
) -> None:
    with skipjack.tuning_policy("incremental", searchers=searchers):
        assert skipjack.lookup(KEY) is not None
    assert [request.searcher for request in process.requests] == asked


def test_what_a_search_came_to_can_be_asked_for(process: StandIn) -> None:
    process.answers = SearchAnswer("vendor", "", True, "policy", ((80.0, "2026-11-16 10:15:00"),))
    device = cpu.detect().name
    assert searches.search_of(KEY, device) is None
    with skipjack.tuning_policy("incremental"):
        skipjack.lookup(KEY)
    assert searches.search_of(KEY, device) == process.answers
    assert SearchAnswer.of(process.answers.body()) == process.answers


def test_a_disk_with_too_little_room_is_one_sentence_and_nothing_is_tuned(
    process: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SKIPJACK_FREE_DISK", "900000 GB")
    with skipjack.tuning_policy("incremental"):
        assert skipjack.lookup(KEY) is not None
        assert skipjack.lookup("add:65:f32") is not None
    assert process.requests == []
    assert caplog.text.count("GB free, but SKIPJACK_FREE_DISK requires 900,000.00 GB") == 1
    assert "which continues untuned" in caplog.text
