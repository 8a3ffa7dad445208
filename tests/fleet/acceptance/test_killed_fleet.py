"""Whatever is killed, stopped or away for a while: every job ends, exactly once."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from chaos import Chaos
from coordinators import Coordinators
from database_outages import locked_file, stopped_server
from fleet_under_fire import LABEL, Battle, Report, load, plans, strikes_at_processes
from process_tree import Process
from servers import Server
from store_audit import complaints, events

from processes import PATIENCE_S
from skipjack.fleet.model import JobState
from skipjack.fleet.store import Store, open_store

pytestmark = pytest.mark.usefixtures("user_dir", "rogue_everywhere")

SEED = int(os.environ.get("SKIPJACK_TEST_SEED", "1"))
JOBS = int(os.environ.get("SKIPJACK_TEST_JOBS", "500"))
"""Of the long form."""
LONGEST_S = max(900.0, 3.0 * JOBS)

Say = Callable[[Report], None]


@pytest.fixture
def file(user_dir: Path) -> Iterator[str]:
    """An SQLite store, which the coordinators find by themselves."""
    user_dir.mkdir(parents=True, exist_ok=True)
    yield f"sqlite:///{user_dir / 'fleet.sqlite'}"


def test_a_few_jobs_survive_kills_on_a_file(file: str, tmp_path: Path, say: Say) -> None:
    crew = Coordinators(LABEL, tmp_path, count=2)
    chaos = Chaos([*strikes_at_processes(crew), locked_file(file)], SEED, most=6)
    report = Battle(file, tmp_path, plans(8), crew, chaos, 240.0).fight()
    say(report)
    assert not report.complaints
    assert sum(report.struck.values())


@pytest.mark.long
def test_hundreds_of_jobs_survive_kills_on_a_file(file: str, tmp_path: Path, say: Say) -> None:
    crew = Coordinators(LABEL, tmp_path, count=3)
    chaos = Chaos([*strikes_at_processes(crew), locked_file(file)], SEED, most=JOBS)
    jobs = plans(JOBS, hanging=1 + JOBS // 100)
    report = Battle(file, tmp_path, jobs, crew, chaos, LONGEST_S).fight()
    say(report)
    assert not report.complaints


@pytest.mark.long
def test_hundreds_of_jobs_survive_kills_on_a_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, say: Say
) -> None:
    url = server.fresh()
    monkeypatch.setenv("SKIPJACK_DB", url)
    crew = Coordinators(LABEL, tmp_path, count=3)
    chaos = Chaos([*strikes_at_processes(crew), *stopped_server(server)], SEED, most=JOBS)
    jobs = plans(JOBS, hanging=1 + JOBS // 100)
    report = Battle(url, tmp_path, jobs, crew, chaos, LONGEST_S).fight()
    say(report)
    assert not report.complaints


@pytest.mark.long
def test_what_a_coordinator_found_after_it_was_given_up_is_refused(
    file: str, tmp_path: Path
) -> None:
    with open_store(file) as store:
        load(store, plans(4, hanging=0))
        with Coordinators(LABEL, tmp_path, count=1, lease_s=2.0) as stopped:
            (slow,) = stopped.alone()
            until(lambda: JobState.EVALUATING in _states(store))
            stop_between_transactions(slow, file)
            (tmp_path / "other").mkdir()
            other = {"SKIPJACK_MACHINE": "another"}
            with Coordinators(LABEL, tmp_path / "other", 1, lease_s=2.0, environment=other) as crew:
                until(lambda: _states(store) == {JobState.EVALUATED})
                assert not crew.wait(PATIENCE_S)
                assert crew.settled["finished"] >= 1
            slow.send(signal.SIGCONT)
            assert not stopped.wait(PATIENCE_S)
            assert stopped.endings == {"0: ": 1}
            assert stopped.settled["refused"] + stopped.settled["taken_away"] >= 1
            assert not stopped.tracebacks
    assert events(file)["lost"] >= 1
    assert not complaints(file)


def stop_between_transactions(process: Process, file: str) -> None:
    """A process that is stopped while it writes to a file blocks all others."""
    while True:
        process.send(signal.SIGSTOP)
        with closing(sqlite3.connect(file.removeprefix("sqlite:///"), timeout=1.0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                process.send(signal.SIGCONT)
                time.sleep(0.05)


def _states(store: Store) -> set[JobState]:
    return {state for state, count in store.queue.live(LABEL).items() if count}


def until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
