"""A ledger deletes rows that nothing needs, and stays valid."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from skipjack.core import Budget, Config, Problem, Status, Study, Trial
from skipjack.ledger import (
    BuildRecord,
    CandidateKey,
    Collected,
    DecisionRecord,
    Ledger,
    MeasurementRecord,
    MetricSamples,
)
from skipjack.ledger.migrations import statements_of
from skipjack.operations import parse
from skipjack.solvers import only_solvers
from skipjack.testing.fake_tuning import FakeContext, FakeSolver
from skipjack.tuning.study import TuneOptions, TuneOutcome
from skipjack.tuning.tuner import run_tune

PROBLEM = "matmul:8x8x8:f32"
NOW = datetime(2025, 6, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=30)
STUDY = Study(Problem("matmul", (8, 8, 8)), "loops", "cpu:a/1:b", "genetic", 0, "1:space:code")


def key(tile: int, solver: str = "loops") -> CandidateKey:
    return CandidateKey(PROBLEM, solver, 1, Config(tile=tile).key)


def timed(tile: int, solver: str = "loops") -> MeasurementRecord:
    metrics = {"time_ns": MetricSamples("ns", (1.0,))}
    return MeasurementRecord(
        key(tile, solver), f"source {tile}", "i", "cpu:a/1:b", "{}", "s", tile, metrics
    )


def tried(ledger: Ledger, study: Study, *tiles: int) -> None:
    """A run of a study: asked, built, timed, told."""
    ledger.start_study(study, 1)
    for tile in tiles:
        build = BuildRecord(f"source {tile}", "cpu", Status.OK, f"{tile:064x}", "k", "abi")
        ledger.add_build(build, key(tile))
        ledger.add_measurements([timed(tile)])
        ledger.log_ask(study.id, Config(tile=tile))
        ledger.log_tells(study.id, [Trial(Config(tile=tile), value=float(tile))])


def banked(ledger: Ledger, study: Study, tile: int) -> None:
    verdict = DecisionRecord(study.id, PROBLEM, "cpu:a/1:b", "loops", Config(tile=tile), "banked")
    ledger.add_decision(verdict)


def collected(ledger: Ledger, *named: CandidateKey, dry_run: bool = False) -> Collected:
    return ledger.collect(named, before=LATER, dry_run=dry_run)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "user"


def opened(place: Path, at: datetime = NOW) -> Ledger:
    return Ledger.open(place, clock=lambda: at)


def check(place: Path) -> None:
    """The file is valid, rows have their parents, and rows cannot be deleted otherwise."""
    with closing(sqlite3.connect(place / "ledger.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not connection.execute("PRAGMA foreign_key_check").fetchall()
        made = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        assert dict(made) == statements_of("trigger")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM study_log")


def test_samples_of_those_that_did_not_win_go_and_the_study_goes_on(place: Path) -> None:
    with opened(place) as ledger:
        tried(ledger, STUDY, 1, 2, 3)
        banked(ledger, STUDY, 2)
        before = ledger.trials(STUDY.id)
    with opened(place, LATER) as ledger:
        found = collected(ledger, key(3))
        assert found.rows == {"measurements": 1} and not found.artifacts
        assert [m.candidate for m in ledger.measurements(PROBLEM)] == [key(2), key(3)]
        assert ledger.trials(STUDY.id) == before and len(ledger.decisions()) == 1
        build = ledger.find_build(key(1), "", "cpu")
        assert build is not None, "the study may ask for it again"
        assert not collected(ledger).rows.keys() - {"measurements"}
    check(place)


def test_what_is_young_stays_and_a_dry_run_changes_nothing(place: Path) -> None:
    with opened(place) as ledger:
        tried(ledger, STUDY, 1, 2)
        assert not ledger.collect(before=NOW - timedelta(days=1)).rows
        summary = ledger.summary()
        assert collected(ledger, dry_run=True).rows["measurements"] == 2
        assert ledger.summary() == summary
    check(place)


def test_earlier_runs_of_a_study_go(place: Path) -> None:
    with opened(place) as ledger:
        tried(ledger, STUDY, 1, 2)
        ledger.forget_study(STUDY.id)
        tried(ledger, STUDY, 3)
    with opened(place, LATER) as ledger:
        found = collected(ledger)
        assert found.rows["study_log"] == 4 and found.rows["epochs"] == 1
        assert found.artifacts == {f"{1:064x}", f"{2:064x}"}
        assert [trial.config["tile"] for trial in ledger.trials(STUDY.id)] == [3]
        assert ledger.studies()[0].epoch == 1, "it is counted on from where it was"
        assert ledger.find_build(key(1), "", "cpu") is None
    check(place)


def test_a_study_of_earlier_code_goes_and_one_with_pinned_settings_stays(place: Path) -> None:
    pinned = replace(STUDY, space="1:part:code")
    newer = replace(STUDY, space="1:space:newer code")
    with opened(place) as ledger:
        tried(ledger, STUDY, 1)
        tried(ledger, pinned, 2)
        assert not collected(ledger).rows.keys() & {"studies", "study_log"}, "nothing is newer"
        banked(ledger, pinned, 2)
    with opened(place, NOW + timedelta(hours=1)) as ledger:
        tried(ledger, newer, 3)
        assert "study_log" not in collected(ledger).rows, "it may still be running"
    with opened(place, LATER) as ledger:
        rows = collected(ledger).rows
        assert rows["studies"] == 1, "a verdict holds the other"
        assert {one.id for one in ledger.studies()} == {pinned.id, newer.id}
        assert not ledger.trials(pinned.id) and ledger.trials(newer.id)
    check(place)


def test_runs_that_are_read_again_stay(place: Path) -> None:
    with opened(place) as ledger:
        ledger.add_measurements([timed(1, "command"), timed(2, "triton_autotune")])
    with opened(place, LATER) as ledger:
        assert not collected(ledger).rows
        assert len(ledger.measurements(PROBLEM)) == 2


def test_who_writes_meanwhile_is_not_disturbed(place: Path) -> None:
    with opened(place) as running, opened(place, LATER) as other:
        tried(running, STUDY, 1)
        running.add_measurements([timed(9, "numpy")])
        assert collected(other).rows["candidates"] == 1
        running.add_measurements([timed(9, "numpy"), timed(1)])  # it knew them to be there
        tried(running, STUDY, 2)
        assert len(running.trials(STUDY.id)) == 2
    check(place)


def test_a_tuning_goes_on_after_all_was_collected(place: Path) -> None:
    with only_solvers(FakeSolver("ours")):
        context = FakeContext(lambda solver, config: 1000.0 / int(config["tile"]))
        context.ledger = Ledger.open(place)
        options = TuneOptions(budget=Budget(trials=4))
        first = run_tune(context, parse("add:64"), options)
        with Ledger.open(place) as other:
            far = datetime.now(UTC) + timedelta(days=9)
            assert other.collect(before=far).rows["measurements"]
        second = run_tune(context, parse("add:64"), options)
        context.ledger.close()
    assert first.status is TuneOutcome.BANKED and second.status in (
        TuneOutcome.BANKED,
        TuneOutcome.KEPT,
    )
    assert {t.config for t in first.trials}.isdisjoint(t.config for t in second.trials)
    check(place)
