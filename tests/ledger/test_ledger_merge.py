"""A bundle is a ledger file; importing is merging: a union, in any order, any number of times."""

import itertools
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.study import Study
from skipjack.core.trial import Status, Trial
from skipjack.errors import CorruptFileError, NewerFormatError, StorageError
from skipjack.ledger import BuildRecord, CandidateKey, Ledger, MeasurementRecord, VerdictRecord
from skipjack.ledger.migrations import migrate

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
                MeasurementRecord(shared, None, "i", "c", "{}", f"s{number}", block, (1.0,))
                for block in range(2)
            ]
        )
        ledger.add_verdict(
            VerdictRecord(study.id, "matmul:8x8x8:f32", "c", "loops", Config(), "banked")
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
    for table in ("study_log", "builds", "measurements", "verdicts"):
        assert unions[0][table] == set().union(*(facts(path)[table] for path in paths))


def test_a_merge_is_associative(tmp_path: Path, study: Study) -> None:
    a, b, c = (work(tmp_path, study, number) for number in range(3))
    flat = union(tmp_path / "flat", (a, b, c))
    union(tmp_path / "bc", (b, c))
    assert union(tmp_path / "nested", (tmp_path / "bc" / "ledger.sqlite", a)) == flat


def test_a_merge_is_idempotent(tmp_path: Path, study: Study, ledger: Ledger) -> None:
    path = work(tmp_path, study, 0)
    assert ledger.merge(path) > 0
    once = facts(ledger.path)
    assert ledger.merge(path) == 0
    assert ledger.merge(ledger.path) == 0
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
    assert ledger.merge(tmp_path / "old.sqlite") == 1
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
        (rewrite("PRAGMA foreign_keys = OFF; DELETE FROM candidates"), CorruptFileError),
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
