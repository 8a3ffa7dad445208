"""Ledgers of earlier formats are updated in place, without loss."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import earlier_ledgers
from earlier_ledgers import FORMATS, PROBLEM
from skipjack.core import Config
from skipjack.errors import CorruptFileError, NewerFormatError
from skipjack.ledger import CandidateKey, Ledger, MarkKind
from skipjack.ledger.schema import MIGRATIONS

ANSWERS = earlier_ledgers.answers()
COMMANDS = 13
"""Runs of commands, those of other workloads and devices included."""


def query(path: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(text).fetchall()


@pytest.fixture(params=FORMATS)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, version: int) -> Path:
    """A ledger that was written in an earlier format, and opened since."""
    made = earlier_ledgers.make(tmp_path, version)
    assert earlier_ledgers.version(made) == version
    Ledger.open(tmp_path).close()
    assert earlier_ledgers.version(made) == len(MIGRATIONS)
    return made


def test_a_tuning_is_read_as_before(path: Path, version: int) -> None:
    with Ledger.open(path.parent) as ledger:
        measured = [
            [
                *(one.candidate.config, list(one.times_ns), one.sentinel_ns, one.disturbed),
                *(one.metrics["calls"].values[0], one.session, one.block, one.protocol),
                *(one.source_digest, one.created),
            ]
            for one in ledger.measurements(PROBLEM)
        ]
        (study,) = ledger.studies(PROBLEM)
        told = [
            [dict(one.config), one.status, one.value, one.reason] for one in ledger.trials(study.id)
        ]
        verdicts = [[v.status, dict(v.config), dict(v.record)] for v in ledger.decisions()]
        banked = [[one.problem, one.solver, dict(one.config)] for one in ledger.banked("matmul")]
        builds = [ledger.find_source(source, "c") for source, _ in ANSWERS["builds"]]
        keys = [CandidateKey(PROBLEM, "loops", 1, Config(tile=tile).key) for tile in (4, 8)]
        found = [ledger.find_build(key, "text", "c") for key in keys]
    was = [[row[0], [float(ns) for ns in row[1]], *row[2:]] for row in ANSWERS["measurements"]]
    assert measured == was
    assert told == ANSWERS["trials"]
    assert verdicts == ANSWERS["verdicts"]
    assert banked[-1:] == ANSWERS["winners"], "the last one in order"
    assert [build.artifact_digest for build in builds if build] == [
        digest for _, digest in ANSWERS["builds"]
    ]
    # Before format 3 the map to builds said nothing of what was built, so that none is found.
    sources = [build.source_digest for build in found if build]
    assert sources == (ANSWERS["found"] if version >= 3 else [])


def test_no_row_is_lost(tmp_path: Path, version: int) -> None:
    path = earlier_ledgers.make(tmp_path, version)
    before = earlier_ledgers.rows(path)
    Ledger.open(tmp_path).close()
    after = earlier_ledgers.rows(path)
    ids = {table: {row[0] for row in rows} for table, rows in after.items()}
    assert ids["measurements"] | ids["marks"] == {row[0] for row in before["measurements"]}
    assert not ids["measurements"] & ids["marks"]
    for table in ("devices", "studies", "epochs", "study_log"):
        assert after[table] == before[table]
    for table in ("builds", "verdicts", "candidate_builds"):
        assert len(after[table]) == len(before[table])
    gone = {row[4] for row in before["candidates"]} - {row[4] for row in after["candidates"]}
    assert all("searched" in json.loads(config) for config in gone), "marks are no candidates"


def test_what_is_no_measurement_is_a_mark(path: Path) -> None:
    marks = query(path, "SELECT kind, scope, problem, protocol IS NULL FROM marks ORDER BY seq")
    assert [mark[:2] for mark in marks[:2]] == [("forget", "failures"), ("forget", "everything")]
    assert [mark[2:] for mark in marks[:2]] == [
        ("sweep:rnnt@1111111111111111", 1),
        ("sweep:bert@2222222222222222", 1),
    ]
    assert [(kind, json.loads(scope)["by"], of_all) for kind, scope, _, of_all in marks[2:]] == [
        ("search_ended", "genetic", 0),
        ("search_ended", "random", 0),
    ]
    assert len(marks) == 4
    assert query(path, "SELECT 1 FROM protocols WHERE text = 'command:forget'") == []


def test_one_query_gives_all_that_was_timed(path: Path) -> None:
    found = query(
        path,
        "SELECT problem, solver, config, device_class, protocol, metric, unit, samples, status "
        "FROM trials_view ORDER BY seq, session, block, metric",
    )
    kernels = [row for row in found if row[0] == PROBLEM]
    assert {row[5:7] for row in kernels} == {("time_ns", "ns"), ("calls", "1")}
    assert [json.loads(row[7]) for row in kernels if row[5] == "time_ns"] == [
        samples for _, samples, *_ in ANSWERS["measurements"]
    ]
    runs = [row for row in found if row[1] == "command"]
    assert {row[5:7] for row in runs} == {
        ("qps", "1/s"),
        ("speed", ""),
        ("result_validity", ""),
        ("p99_latency_ns", "ns"),
        ("samples_per_second", "1/s"),
        ("skipjack.run_seconds", "s"),
        ("skipjack.build_seconds", "s"),
    }
    seconds = [json.loads(row[7]) for row in runs if row[5] == "skipjack.run_seconds"]
    assert len(seconds) == COMMANDS + 3
    assert seconds.count([1 / 3]) == 7 and [10.0] in seconds
    crashed = [row for row in runs if row[8] == "crash" and row[5] == "skipjack.run_seconds"]
    assert len(crashed) == 3
    autotuned = [row for row in found if row[1] == "triton_autotune"]
    assert {row[5:7] for row in autotuned} == {("time_ns", "ns")}
    assert {row[8] for row in autotuned} == {"ok", "build_error", "build_crash", "out_of_memory"}
    assert all((json.loads(row[7]) == []) == (row[8] != "ok") for row in autotuned)


def test_reasons_are_in_a_column_of_their_own(path: Path) -> None:
    reasons = query(path, "SELECT DISTINCT status, reason FROM trials_view WHERE status <> 'ok'")
    assert ("crash", "signal 11 — ä") in reasons
    assert ("build_error", "no power of 2") in reasons
    assert all(reason for _, reason in reasons)


@pytest.mark.parametrize("first", FORMATS)
def test_merging_and_migrating_may_be_done_in_any_order(
    tmp_path: Path, version: int, first: int
) -> None:
    one = earlier_ledgers.make(tmp_path / "one", version)
    other = earlier_ledgers.make(tmp_path / "other", first)
    with Ledger.open(tmp_path / "union") as ledger:
        assert ledger.merge(one).left_out == ()
        ledger.merge(other)
        merged = earlier_ledgers.rows(ledger.path)
    with Ledger.open(other.parent) as ledger:
        ledger.merge(one)
        assert ledger.merge(tmp_path / "union" / "ledger.sqlite").rows == 0
        assert earlier_ledgers.rows(ledger.path) == merged
    assert earlier_ledgers.version(one) == version, "it is only read"


KILLED = """
import os, signal, sys
from pathlib import Path
from skipjack.ledger import Ledger, migrations as format_4

seen, convert = [], format_4._convert
def convert_or_die(*row):
    seen.append(row)
    if len(seen) > 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return convert(*row)

format_4._convert = convert_or_die
Ledger.open(Path(sys.argv[1]))
"""


def test_a_migration_that_is_killed_loses_nothing(tmp_path: Path, version: int) -> None:
    path = earlier_ledgers.make(tmp_path / "here", version)
    before = earlier_ledgers.rows(path)
    died = subprocess.run([sys.executable, "-c", KILLED, str(path.parent)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert earlier_ledgers.version(path) == version
    assert earlier_ledgers.rows(path) == before
    whole = earlier_ledgers.make(tmp_path / "whole", version)
    for one in (path, whole):
        Ledger.open(one.parent).close()
    assert earlier_ledgers.rows(path) == earlier_ledgers.rows(whole)


def test_new_rows_come_after_migrated_ones_whatever_the_clock_says(path: Path) -> None:
    before = query(path, "SELECT max(seq) FROM measurements")
    with Ledger.open(path.parent) as ledger:
        (old, *_) = ledger.measurements(PROBLEM)
        ledger.add_measurements([old])
        ledger.add_mark(ledger.marks("sweep:bert@2222222222222222")[0])
    assert query(path, "SELECT max(seq) FROM measurements") > before
    with Ledger.open(path.parent) as ledger:
        first, last = ledger.marks("sweep:bert@2222222222222222")
        assert last.kind is MarkKind.FORGET and last.seq > first.seq
        assert last.seq > ledger.measurements(PROBLEM)[-1].seq > old.seq


UNREADABLE = {
    "metrics": "UPDATE measurements SET metrics = '{\"a\":[]}' WHERE session = 'tune'",
    "bytes": (
        "UPDATE measurements SET metrics = CAST(x'7b2261223a22ff227d' AS TEXT) "
        "WHERE session = 'tune'"
    ),
    "depth": (
        f"""UPDATE measurements SET metrics = '{'{"a":' * 900}1{"}" * 900}' """
        "WHERE session = 'tune'"
    ),
    "parents": "DELETE FROM candidates WHERE solver = 'loops'",
}


@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
def test_a_row_that_cannot_be_read_is_kept_and_stops_no_migration(
    tmp_path: Path, version: int, change: str
) -> None:
    path = earlier_ledgers.make(tmp_path, version)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"DROP TRIGGER measurements_no_update; {change};")
    with Ledger.open(tmp_path) as ledger:
        assert ledger.measurements(PROBLEM) == []
        assert len(ledger.measurements("sweep:rnnt@1111111111111111")) == 10
    assert query(path, "SELECT count(*) FROM measurements WHERE session = 'tune'") == [(3,)]
    query(path, "SELECT * FROM trials_view")


def test_a_damaged_schema_of_an_earlier_format_is_set_aside(tmp_path: Path, version: int) -> None:
    path = earlier_ledgers.make(tmp_path, version)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE verdicts")
    with pytest.raises(CorruptFileError, match="its table verdicts is missing or altered"):
        Ledger.open(tmp_path)


def test_a_newer_format_is_refused_by_name(tmp_path: Path, ledger: Ledger) -> None:
    path = earlier_ledgers.make(tmp_path, 4)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(NewerFormatError, match="has format 7, this Skipjack knows 6"):
        Ledger.open(tmp_path)
    with pytest.raises(NewerFormatError, match="has format 7, this Skipjack knows 6"):
        ledger.merge(path)


# Facts that travelled


def facts_of(path: Path, form: int) -> str:
    """The rows of a file as workers of its time sent them."""
    tables = {}
    with closing(sqlite3.connect(path)) as connection:
        for table in ("protocols", "candidates", "builds", "measurements", "studies", "verdicts"):
            cursor = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
            columns = [name for name, *_ in cursor.description]
            tables[table] = {"columns": columns, "rows": [list(row) for row in cursor]}
    of_kernels = [row for row in tables["measurements"]["rows"] if row[6] == "tune"]
    tables["measurements"]["rows"] = of_kernels
    return json.dumps({"format": form, "tables": tables})


def test_facts_of_an_earlier_format_are_what_the_migrated_file_has(
    tmp_path: Path, version: int
) -> None:
    path = earlier_ledgers.make(tmp_path, version)
    facts = facts_of(path, min(2, max(1, version - 1)))
    Ledger.open(tmp_path).close()
    migrated = earlier_ledgers.rows(path)
    with Ledger.open(tmp_path / "new") as ledger:
        assert ledger.add_facts(facts) > 0
        taken = earlier_ledgers.rows(ledger.path)
        assert [list(one.times_ns) for one in ledger.measurements(PROBLEM)] == [
            [float(ns) for ns in row[1]] for row in ANSWERS["measurements"]
        ]
    assert taken["verdicts"] == migrated["verdicts"]
    assert taken["builds"] == migrated["builds"]
    assert len(taken["measurements"]) == 3
    assert taken["measurements"] <= migrated["measurements"]


def test_facts_of_a_newer_format_are_refused_by_name(ledger: Ledger) -> None:
    with pytest.raises(NewerFormatError, match="results have format 5, this Skipjack knows 4"):
        ledger.add_facts('{"format": 5, "tables": {}}')
