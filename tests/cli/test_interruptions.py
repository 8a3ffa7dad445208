"""Ctrl-C, kill -9, a busy device: results are kept, nothing is left, the next run continues."""

import json
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from processes import PATIENCE_S, command, gone, workers_of
from skipjack.ledger import Ledger
from verdicts import agrees

Skipjack = Callable[..., subprocess.CompletedProcess[str]]
PROBLEM = "matmul:96x96x96"
LONG = ("tune", PROBLEM, "--seconds", "60", "--json")


@pytest.fixture
def running(user_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """A tuning that has begun to measure."""
    process = subprocess.Popen(
        command(LONG), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            eventually(lambda: trials(user_dir) > 10)
            yield process
        finally:
            process.kill()


def eventually(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def trials(user_dir: Path) -> int:
    """How many the ledger knows."""
    if not (user_dir / "ledger.sqlite").exists():
        return 0
    with Ledger.open(user_dir) as ledger:
        return ledger.summary().tells


def test_ctrl_c_keeps_what_is_known_and_shows_it(
    running: subprocess.Popen[str], user_dir: Path, scratch: Path, skipjack: Skipjack
) -> None:
    workers = workers_of(running.pid)
    assert workers
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    record = json.loads(out)
    assert record["interrupted"]
    assert agrees(record), record
    assert err.splitlines()[-1].startswith("skipjack: interrupted; what was measured is kept")
    assert "Traceback" not in err
    assert gone(workers)
    assert {path.suffix for path in scratch.iterdir()} == {".lock"}
    before = trials(user_dir)
    assert before == record["trials"]
    again = json.loads(skipjack("tune", PROBLEM, "--budget", "3", "--json").stdout)
    assert trials(user_dir) == before + again["trials"]
    assert again["builds"] <= again["trials"] <= 3


def test_a_second_ctrl_c_stops_at_once(running: subprocess.Popen[str]) -> None:
    workers = workers_of(running.pid)
    for _ in range(2):
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert gone(workers)


def test_a_killed_tuning_leaves_no_workers_and_a_sound_ledger(
    running: subprocess.Popen[str], user_dir: Path, scratch: Path, skipjack: Skipjack
) -> None:
    workers = workers_of(running.pid)
    assert len(workers) == 2
    running.kill()
    running.communicate(timeout=PATIENCE_S)
    assert gone(workers)
    assert {path.suffix for path in scratch.iterdir()} == {".lock"}
    with closing(sqlite3.connect(user_dir / "ledger.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    before = trials(user_dir)
    assert before > 10
    done = skipjack("tune", PROBLEM, "--budget", "3", "--json")
    assert done.returncode == 0
    again = json.loads(done.stdout)
    assert trials(user_dir) == before + again["trials"]
    assert again["builds"] <= again["trials"]


def test_who_finds_the_device_busy_says_so_and_waits(
    running: subprocess.Popen[str], skipjack: Skipjack
) -> None:
    waiting = subprocess.Popen(
        command(["tune", "add:8", "--budget", "2", "--json"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with waiting:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert "waiting for" in said
        assert f"process {running.pid}" in said
        assert waiting.poll() is None
        running.send_signal(signal.SIGINT)
        out, _ = waiting.communicate(timeout=PATIENCE_S)
    assert waiting.returncode == 0
    assert json.loads(out)["problem"] == "add:8:f32"
