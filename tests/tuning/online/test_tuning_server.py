"""The process that tunes for a program, on the real engine: one search for all programs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.bank import Bank
from skipjack.core import Budget, protocol_for
from skipjack.execute import device_lock, wire
from skipjack.interrupt import Interrupt
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.runtime.online import RegretAccount, SearchAnswer, SearchRequest, TuningProcess
from skipjack.runtime.online.client import numbers
from skipjack.tuning.online.searches import RegretGate, SearchRecord, SearchRecords
from skipjack.tuning.online.server import TuningServer
from skipjack.tuning.study import TuneProgress

KEY = "matmul:16x16x16:f32"

ASKING = """
import json, sys, threading
from skipjack.runtime.online import SearchRequest, TuningProcess
process, body = TuningProcess(), json.loads(sys.argv[1])
found = set()
def ask(number):
    pending = process.search(SearchRequest.of({**body, "id": number}))
    answer = pending.wait(body["deadline"])
    found.add((pending.request.id, answer.status, answer.searched))
threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
process.close()
print(json.dumps(sorted(found)))
"""


def request(user_dir: Path, key: str = KEY, seconds: float = 1.0) -> SearchRequest:
    return SearchRequest(
        id=next(numbers),
        problem=key,
        device=cpu.detect().name,
        user_dir=str(user_dir),
        plugins=(),
        build_workers=1,
        core=None,
        verb="tune",
        seconds=seconds,
        deadline=time.monotonic() + PATIENCE_S,
        asked_at=time.time(),
    )


def test_threads_and_processes_that_ask_at_once_run_one_search(user_dir: Path) -> None:
    body = json.dumps(request(user_dir).body())
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASKING, body], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    answers = []
    for process in asking:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        answers += json.loads(out)
    searched = [number for number, _, searched in answers if searched]
    assert len(searched) == 1
    assert len({status for _, status, _ in answers}) == 1  # and all get the result
    with Ledger.open(user_dir) as ledger:
        assert len(ledger.decisions(KEY)) == 1
    assert Bank.open(user_dir).lookup(KEY, cpu.detect().class_key) is not None


@pytest.fixture
def process() -> Iterator[TuningProcess]:
    made = TuningProcess()
    yield made
    made.close()


def test_without_a_place_for_locks_a_search_fails_and_is_not_late(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: TuningProcess
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / "file" / "locks"))
    answer = process.search(request(user_dir)).wait(time.monotonic() + PATIENCE_S)
    assert answer is not None and answer.status == "failed"
    assert answer.reason.startswith(f"cannot create {tmp_path}/file/locks for the locks of devices")


def test_a_damaged_ledger_costs_no_problem_its_search(
    user_dir: Path, process: TuningProcess
) -> None:
    user_dir.mkdir(parents=True, exist_ok=True)
    (user_dir / "ledger.sqlite").write_bytes(b"no database" * 1000)
    answer = process.search(request(user_dir)).wait(time.monotonic() + PATIENCE_S)
    assert answer is not None and answer.status not in ("failed", "late"), answer
    with Ledger.open(user_dir) as ledger:
        assert len(ledger.decisions(KEY)) == 1
    assert list(user_dir.glob("ledger.sqlite.corrupt-*"))


def test_who_cannot_have_the_device_in_time_is_late_and_the_next_is_not(
    user_dir: Path, process: TuningProcess
) -> None:
    asked = replace(request(user_dir, "add:8:f32"), seconds=0.1)
    with device_lock(cpu.detect()):
        pending = process.search(replace(asked, deadline=time.monotonic() + 0.1))
        answer = pending.wait(time.monotonic() + PATIENCE_S)
    assert answer is not None and answer.status == "late"
    unknown = process.search(replace(asked, id=next(numbers), problem="nothing:8"))
    answer = unknown.wait(time.monotonic() + PATIENCE_S)
    assert answer is not None and answer.status == "failed"
    assert "unknown operation" in answer.reason


def test_records_of_searches_are_read_back_and_damage_is_none(tmp_path: Path) -> None:
    records = SearchRecords(tmp_path)
    assert records.last(KEY, "cpu") is None
    record = SearchRecord(KEY, "cpu", 12.5, "noisy", "why")
    records.put(record)
    assert records.last(KEY, "cpu") == record
    assert records.last(KEY, "another") is None
    for text in ("", "{", "[]", '{"problem": 3}', '{"more": 1}'):
        next((tmp_path / "online").glob("search-*")).write_text(text)
        assert records.last(KEY, "cpu") is None


def test_a_search_that_was_disturbed_is_not_repeated_within_a_day(tmp_path: Path) -> None:
    asked = request(tmp_path)
    ended = asked.asked_at - 3600.0
    noisy = SearchRecord(KEY, "cpu", ended, "noisy", "why", "tune", asked.seconds)
    assert noisy.answers(asked)
    assert not noisy.answers(replace(asked, seconds=2 * asked.seconds))
    assert not noisy.answers(replace(asked, retune=True))
    assert not noisy.answers(replace(asked, verb="find"))
    assert not replace(noisy, ended_at=ended - 86_400.0).answers(asked)
    assert not replace(noisy, status="failed").answers(asked)
    assert replace(noisy, status="failed", ended_at=asked.asked_at + 1).answers(asked)


def test_a_process_leaves_a_search_alone_that_was_disturbed_today(
    user_dir: Path, process: TuningProcess
) -> None:
    asked = request(user_dir)
    device = cpu.detect()
    where = f"{device.class_key}|{protocol_for(device).deployed}"
    record = SearchRecord(KEY, where, asked.asked_at - 9.0, "noisy", "why", "tune", asked.seconds)
    SearchRecords(user_dir).put(record)
    answer = process.search(asked).wait(asked.deadline)
    assert answer == SearchAnswer("noisy", "why", searched=False)


def test_the_answer_says_who_searched_and_how_it_went(
    user_dir: Path, process: TuningProcess
) -> None:
    asked = replace(request(user_dir), searcher="random")
    answer = process.search(asked).wait(asked.deadline)
    assert answer is not None and answer.searched
    assert answer.searcher == "random"
    assert answer.rounds and all(best > 0 and ended for best, ended in answer.rounds)


def server_of(*queued: SearchRequest) -> TuningServer:
    """One that has read these requests, and nothing more."""
    pipe = io.BytesIO()
    for request in queued:
        wire.send(pipe, {"verb": "search", "request": request.body()})
    pipe.seek(0)
    server = TuningServer(io.BytesIO())
    server.read(pipe)
    return server


def test_a_search_gets_what_is_left_of_its_seconds(tmp_path: Path) -> None:
    server, interrupt = server_of(), Interrupt()
    asked = replace(request(tmp_path), seconds=60.0, deadline=time.monotonic() + 40)
    with server._time(asked, interrupt) as seconds:
        assert 30 < seconds <= 32
        server.read(io.BytesIO(wire.encode({"verb": "search", "request": asked.body()})))
    assert not interrupt.requested  # a program waits for this one, too


def test_where_starting_took_them_it_gets_all_until_somebody_waits_for_another(
    tmp_path: Path,
) -> None:
    server, interrupt = server_of(), Interrupt()
    asked = replace(request(tmp_path), seconds=60.0, deadline=time.monotonic() + 20)
    with server._time(asked, interrupt) as seconds:
        assert seconds == 48.0
        assert not interrupt.requested
        server.read(io.BytesIO(wire.encode({"verb": "search", "request": asked.body()})))
        assert interrupt.requested
    waiting, late = server_of(asked), Interrupt()
    with waiting._time(asked, late):
        assert late.requested


def test_the_end_of_its_time_interrupts_a_search(tmp_path: Path) -> None:
    server, interrupt = server_of(), Interrupt()
    asked = replace(request(tmp_path), seconds=0.01, deadline=time.monotonic())
    with server._time(asked, interrupt):
        while not interrupt.requested:
            time.sleep(0.001)


def test_a_stop_interrupts_the_search_that_it_names(tmp_path: Path) -> None:
    first, second = (replace(request(tmp_path), id=number) for number in (1, 2))
    server = server_of(first, second)
    server.read(io.BytesIO(wire.encode({"verb": "stop", "id": 2})))
    assert [server._interrupts[number].requested for number in (1, 2)] == [False, True]


BACKGROUND = """
import time, numpy, skipjack
from skipjack.runtime.online import account_of_program
from skipjack.settings import load_settings
a = numpy.ones((96, 96), numpy.float32)
with skipjack.tuning_policy("incremental", seconds=1, background=True, regret="50%"):
    assert skipjack.lookup("matmul:96x96x96").source != "user"
    while (kernel := skipjack.lookup("matmul:96x96x96")).source != "user":
        numpy.testing.assert_allclose(kernel(a, a), a @ a)
sums = account_of_program(load_settings().user_dir).add()
assert 0 < sums.trial_ns < sums.kernel_ns, sums
"""


@pytest.mark.long
def test_a_program_goes_on_and_has_the_tuned_kernel_later(user_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BACKGROUND],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class FakeTime:
    """Time that passes while the gate sleeps; meanwhile the program runs kernels."""

    def __init__(self, account: RegretAccount) -> None:
        self.now_s = 0.0
        self.account = account
        self.slept_s = 0.0
        self.held = 0

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert not self.held, "who waits does not keep the device from others"
        self.now_s += seconds
        self.slept_s += seconds
        self.account.add(kernel_ns=int(seconds * 1e9))

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.held += 1
        yield
        self.held -= 1


def progress(phase: str = "search") -> TuneProgress:
    return TuneProgress(KEY, phase, 1, 0, 1, None, None, 0.0, Budget(seconds=1.0))


def test_trials_wait_until_their_share_of_the_kernels_time_is_there(tmp_path: Path) -> None:
    account = RegretAccount(tmp_path / "account")
    fake = FakeTime(account)
    share = 0.05
    with RegretGate(account, share, Interrupt(), fake.hold, fake.now, fake.sleep) as gate:
        began = gate.clock()
        for _ in range(20):
            fake.now_s += 0.1  # a batch
            gate.observe(progress())
            sums = account.add()
            assert sums.trial_ns + 0.1e9 <= share * sums.kernel_ns * (1 + 1e-6)
        assert gate.clock() - began == pytest.approx(2.0)  # pauses are not of the budget
        slept = fake.slept_s
        gate.observe(progress("final"))  # it takes longer than a batch
        assert fake.slept_s > slept
    assert account.add().trial_ns == pytest.approx(2e9)


def test_an_interrupt_ends_the_wait(tmp_path: Path) -> None:
    interrupt = Interrupt()
    threading.Timer(0.05, lambda: setattr(interrupt, "requested", True)).start()
    account = RegretAccount(tmp_path / "account")
    fake = FakeTime(account)
    with RegretGate(account, 0.05, interrupt, fake.hold):
        assert interrupt.requested


def test_a_search_enters_the_bank_for_the_deployment_that_it_is_for(user_dir: Path) -> None:
    process = TuningProcess()
    try:
        asked = replace(request(user_dir), protocol="eager/hot")
        answer = process.search(asked).wait(asked.deadline)
        assert answer is not None and answer.searched, answer
    finally:
        process.close()
    known = [one.deployed for one in Bank.open(user_dir).entries()]
    assert set(known) <= {"eager/hot"}
    assert known or answer.status in ("noisy", "late", "failed")
