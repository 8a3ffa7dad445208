"""A bundle is a ledger file; importing is merging: a union, in any order, any number of times."""

import itertools
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skipjack.core import Config, Device, Status, Study, Trial
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError
from skipjack.ledger import (
    BuildRecord,
    CandidateKey,
    DecisionRecord,
    Ledger,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    MetricSamples,
)
from skipjack.ledger.migrations import migrate

TIMED = {"time_ns": MetricSamples("ns", (1.0,))}

Facts = dict[str, set[tuple[object, ...]]]


def facts(path: Path) -> Facts:
    """Every table as a set."""
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    try:
        return {name: set(connection.execute(f"SELECT * FROM {name}")) for (name,) in tables}
    finally:
        connection.close()


def work(directory: Path, study: Study, number: int) -> Path:
    """A ledger of one machine; machines share the study, a build and a candidate."""
    start = datetime(2025, 1, 1, number, tzinfo=UTC)
    moments = (start + timedelta(seconds=n) for n in itertools.count())
    shared = CandidateKey("matmul:8x8x8:f32", "loops", 1, Config(tile=8).key)
    with Ledger.open(directory / str(number), clock=lambda: next(moments)) as ledger:
        ledger.add_device(Device("cpu", "znver4", 1, serial=str(number % 2)))
        ledger.start_study(study, 1 + number // 2)
        ledger.log_tells(study.id, [Trial(Config(tile=number), value=1.0)])
        if number == 1:
            ledger.forget_study(study.id)
        ledger.log_tells(study.id, [Trial(Config(tile=10 + number), Status.CRASH)])
        ledger.add_build(BuildRecord(f"source{number % 2}", "c", Status.OK, "artifact"), shared)
        ledger.add_measurements(
            [
                MeasurementRecord(shared, None, "i", "c", "{}", f"s{number}", block, TIMED)
                for block in range(2)
            ]
        )
        ledger.add_mark(
            MarkRecord(
                MarkKind.FORGET, "everything", shared.problem, "loops", 1, "{}", "i", "c", "s"
            )
        )
        ledger.add_decision(
            DecisionRecord(study.id, "matmul:8x8x8:f32", "c", "loops", Config(), "banked")
        )
        return ledger.path


def union(directory: Path, paths: tuple[Path, ...]) -> Facts:
    with Ledger.open(directory) as ledger:
        for path in paths:
            ledger.merge(path)
        return facts(ledger.path)


def test_a_merge_is_order_free_and_loses_nothing(tmp_path: Path, study: Study) -> None:
    paths = tuple(work(tmp_path, study, number) for number in range(3))
    unions = [
        union(tmp_path / f"union{n}", order)
        for n, order in enumerate(itertools.permutations(paths))
    ]
    assert all(one == unions[0] for one in unions)
    for table in ("study_log", "builds", "measurements", "marks", "verdicts"):
        assert unions[0][table] == set().union(*(facts(path)[table] for path in paths))


def test_a_merge_is_associative(tmp_path: Path, study: Study) -> None:
    a, b, c = (work(tmp_path, study, number) for number in range(3))
    flat = union(tmp_path / "flat", (a, b, c))
    union(tmp_path / "bc", (b, c))
    assert union(tmp_path / "nested", (tmp_path / "bc" / "ledger.sqlite", a)) == flat


def test_a_merge_is_idempotent(tmp_path: Path, study: Study, ledger: Ledger) -> None:
    path = work(tmp_path, study, 0)
    assert ledger.merge(path).rows > 0
    once = facts(ledger.path)
    assert ledger.merge(path).rows == 0
    assert ledger.merge(ledger.path).rows == 0
    assert facts(ledger.path) == once


def test_an_imported_study_goes_on_here(tmp_path: Path, study: Study, ledger: Ledger) -> None:
    ledger.merge(work(tmp_path, study, 0))
    assert ledger.start_study(study, 1).tells == 2
    ledger.log_tells(study.id, [Trial(Config(tile=99))])
    assert [trial.config["tile"] for trial in ledger.trials(study.id)] == [0, 10, 99]


def test_logs_of_one_study_interleave_in_their_own_order(
    tmp_path: Path, study: Study, ledger: Ledger
) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, [Trial(Config(tile=n)) for n in (50, 51, 52)])
    ledger.merge(work(tmp_path, study, 0))
    tiles = [trial.config["tile"] for trial in ledger.trials(study.id)]
    assert sorted(map(int, tiles)) == [0, 10, 50, 51, 52]
    assert tiles.index(0) < tiles.index(10)
    assert tiles.index(50) < tiles.index(51) < tiles.index(52)


def test_the_other_file_is_only_read(tmp_path: Path, study: Study, ledger: Ledger) -> None:
    path = work(tmp_path, study, 0)
    before = path.read_bytes()
    ledger.merge(path)
    assert path.read_bytes() == before
    assert not list(ledger.path.parent.glob(".merge-*"))


def test_an_open_ledger_can_be_merged(tmp_path: Path, study: Study, ledger: Ledger) -> None:
    with Ledger.open(tmp_path / "open") as other:
        other.start_study(study, 1)
        ledger.merge(other.path)
    assert [record.id for record in ledger.studies()] == [study.id]


def test_an_older_format_is_read(tmp_path: Path, ledger: Ledger) -> None:
    old = sqlite3.connect(tmp_path / "old.sqlite", isolation_level=None)
    migrate(old, target=1)
    old.execute(
        "INSERT INTO candidates (id, problem, solver, solver_version, config, created) "
        "VALUES ('1', 'p', 's', 1, '{}', '2024-01-01T00:00:00.000000Z')"
    )
    old.close()
    assert ledger.merge(tmp_path / "old.sqlite").rows == 1
    assert ledger.summary().candidates == 1


def rewrite(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.executescript(f"PRAGMA ignore_check_constraints = ON; {statement}")
        connection.commit()
        connection.close()

    return change


def garble(path: Path) -> None:
    path.write_bytes(b"garbage" * 2000)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (garble, CorruptFileError),
        (rewrite("UPDATE candidates SET config = 'no JSON'"), CorruptFileError),
        (rewrite("DROP TABLE verdicts"), CorruptFileError),
        (rewrite("PRAGMA user_version = 77"), NewerFormatError),
        (rewrite("PRAGMA application_id = 77"), StorageError),
        (Path.unlink, StorageError),
    ],
)
def test_a_bad_file_is_named_left_alone_and_nothing_is_merged(
    tmp_path: Path,
    study: Study,
    ledger: Ledger,
    change: Callable[[Path], None],
    error: type[StorageError],
) -> None:
    path = work(tmp_path, study, 0)
    change(path)
    before = path.read_bytes() if path.exists() else None
    mine = facts(ledger.path)
    with pytest.raises(error, match=str(path)):
        ledger.merge(path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert facts(ledger.path) == mine


def test_studies_of_different_problems_stay_apart(
    tmp_path: Path, study: Study, ledger: Ledger
) -> None:
    ledger.start_study(replace(study, seed=5), 1)
    ledger.merge(work(tmp_path, study, 0))
    assert {record.tells for record in ledger.studies()} == {0, 2}


APPEND_ONLY = "".join(
    f"DROP TRIGGER {table}_no_update;"
    for table in ("study_log", "builds", "measurements", "marks", "verdicts")
)
POISON = {
    "a seed that is no number": ("studies", "UPDATE studies SET seed = ''"),
    "a seed of many digits": ("studies", f"UPDATE studies SET seed = '{'9' * 5000}'"),
    "a device that is none": ("devices", "UPDATE devices SET record = '{}'"),
    "a status that nobody knows": ("study_log", "UPDATE study_log SET status = 'x', value = NULL"),
    "a config that goes deep": (
        "study_log",
        f"""UPDATE study_log SET config = '{'{"a":' * 900}1{"}" * 900}'""",
    ),
    "an infinite value": ("study_log", "UPDATE study_log SET value = -9e999 WHERE status = 'ok'"),
    "metrics that are none": ("measurements", """UPDATE measurements SET metrics = '{"a":[]}'"""),
    "samples that are none": (
        "measurements",
        """UPDATE measurements SET metrics = '{"a":{"samples":[{}],"unit":""}}'""",
    ),
    "a measurement of no status": ("measurements", "UPDATE measurements SET status = 'x'"),
    "a mark of no kind": ("marks", "UPDATE marks SET kind = 'x'"),
    "a build of no kind": ("builds", "UPDATE builds SET status = 'x', artifact_digest = NULL"),
    "resources that are none": ("builds", """UPDATE builds SET resources = '{"a":"x"}'"""),
    "a place at the end of numbers": (
        "study_log",
        f"UPDATE study_log SET seq = {2**63 - 1}",
    ),
    "an epoch at the end of numbers": (
        "epochs",
        f"PRAGMA foreign_keys = OFF; UPDATE epochs SET number = {2**63 - 1}",
    ),
    "a time that is none": (
        "verdicts",
        "UPDATE verdicts SET created = 'abcd-01-01T00:00:00.000000Z'",
    ),
    "bytes that are no text": ("verdicts", "UPDATE verdicts SET device = CAST(x'ff' AS TEXT)"),
    "ids that are no text": (
        "candidate_builds",
        "UPDATE candidate_builds SET compat = CAST(x'ff' AS TEXT)",
    ),
    "a parent that is not there": (
        "candidate_builds",
        "PRAGMA foreign_keys = OFF; DELETE FROM candidates",
    ),
}


@pytest.mark.parametrize(("table", "statement"), POISON.values(), ids=POISON)
def test_rows_of_no_use_are_left_out_by_name(
    tmp_path: Path, study: Study, ledger: Ledger, table: str, statement: str
) -> None:
    path = work(tmp_path, study, 0)
    good = facts(path)
    rewrite(APPEND_ONLY + statement)(path)
    merged = ledger.merge(path)
    assert any(one.startswith(table) for one in merged.left_out)
    assert merged.rows > 0
    mine = facts(ledger.path)
    assert all(mine[name] <= good[name] for name in mine)  # nothing of what was changed
    read_all(ledger, study)


@pytest.mark.parametrize(("table", "statement"), POISON.values(), ids=POISON)
def test_rows_of_no_use_that_are_here_already_stop_nobody(
    tmp_path: Path, study: Study, table: str, statement: str
) -> None:
    path = work(tmp_path, study, 0)
    rewrite(APPEND_ONLY + statement)(path)
    with Ledger.open(path.parent) as ledger:
        read_all(ledger, study)


def read_all(ledger: Ledger, study: Study) -> None:
    """What a tuning reads and writes."""
    record = ledger.start_study(study, 5)
    assert (record.id, record.seed) == (study.id, study.seed)
    ledger.log_ask(study.id, Config(tile=3))
    ledger.log_tells(study.id, [Trial(Config(tile=3), value=1.0)])
    assert [trial.config for trial in ledger.trials(study.id)][-1] == Config(tile=3)
    ledger.studies()
    ledger.devices()
    ledger.decisions()
    ledger.banked("matmul")
    ledger.measurements("matmul:8x8x8:f32")
    ledger.marks("matmul:8x8x8:f32")
    for source in ("source0", "source1"):
        ledger.find_source(source, "c")
    candidate = CandidateKey("matmul:8x8x8:f32", "loops", 1, Config(tile=8).key)
    ledger.find_build(candidate, "", "c")


def test_what_is_passed_over_is_named_once(
    tmp_path: Path, study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    path = work(tmp_path, study, 0)
    rewrite("UPDATE studies SET seed = ''")(path)
    with Ledger.open(path.parent) as ledger:
        assert ledger.studies() == ledger.studies() == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert f"a row of studies that cannot be read and is skipped: {study.id}" in said[0]


def test_a_copy_without_its_write_ahead_log_is_refused(
    tmp_path: Path, study: Study, ledger: Ledger
) -> None:
    other = Ledger.open(tmp_path / "other")
    other.start_study(study, 1)
    lone = tmp_path / "lone.sqlite"
    lone.write_bytes(other.path.read_bytes())
    with pytest.raises(StorageError, match=r"holds no rows, and lone.sqlite-wal.* copy both files"):
        ledger.merge(lone)
    wal = other.path.with_name("ledger.sqlite-wal")
    lone.with_name("lone.sqlite-wal").write_bytes(wal.read_bytes())
    assert ledger.merge(lone).rows > 0
    other.close()


def test_a_ledger_that_was_let_go_is_whole_in_its_file(tmp_path: Path, study: Study) -> None:
    first, second = (Ledger.open(tmp_path / "other") for _ in range(2))
    first.start_study(study, 1)
    first.close()  # the second is open still
    lone = tmp_path / "lone.sqlite"
    lone.write_bytes(first.path.read_bytes())
    with Ledger.open(tmp_path / "mine") as ledger:
        assert ledger.merge(lone).rows > 0
    second.close()
