"""Rows that are written to a ledger can be read from it, in order."""

import math
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from skipjack.core import Candidate, Config, Device, Problem, Status, Study, Trial
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
    Summary,
    unit_of,
)

TRIALS = [
    Trial(Config(tile=4), value=2.5, spread=0.1, metrics={"time_ns": 2.5, "flops": 512}),
    Trial(Config(tile=8), Status.CRASH, reason="signal 11"),
    Trial(Config(tile=16), Status.OK, value=None, metrics={"workspace_bytes": math.inf}),
]


def key(config: Config, problem: str = "matmul:8x8x8:f32") -> CandidateKey:
    return CandidateKey(problem, "loops", 1, config.key)


def measurement(config: Config, block: int = 0, **changes: object) -> MeasurementRecord:
    record = MeasurementRecord(
        candidate=key(config),
        source_digest="source",
        device_instance="cpu:znver4/1:abc:serial",
        device_class="cpu:znver4/1:abc",
        protocol='{"caches":"hot"}',
        session="session-1",
        block=block,
        metrics={
            "time_ns": MetricSamples("ns", (10.25, 11.5, math.inf)),
            "calls": MetricSamples("1", (3.0,)),
            "validity": MetricSamples("", ("VALID",)),
        },
        sentinel_ns=5.0,
        disturbed=1,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


# Studies


def test_trials_come_back_in_the_order_told(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, TRIALS[:1])
    ledger.log_tells(study.id, TRIALS[1:])
    assert ledger.trials(study.id) == TRIALS


def test_the_log_has_asks_between_tells(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.log_ask(study.id, Config(tile=4))
    ledger.log_ask(study.id, Config(tile=8))
    ledger.log_tells(study.id, TRIALS[:1])
    ledger.log_ask(study.id, Config(tile=16))
    log = ledger.log(study.id)
    assert [entry.kind for entry in log] == ["ask", "ask", "tell", "ask"]
    assert [entry.seq for entry in log] == [1, 2, 3, 4]
    assert [entry.config["tile"] for entry in log] == [4, 8, 4, 16]


def test_a_value_that_is_no_number_is_none(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, [Trial(Config(), value=math.nan)])
    assert ledger.trials(study.id) == [Trial(Config(), value=None)]


def test_starting_again_continues(ledger: Ledger, study: Study) -> None:
    first = ledger.start_study(study, 1)
    ledger.log_tells(study.id, TRIALS)
    again = ledger.start_study(study, 1)
    assert (first.tells, again.tells) == (0, 3)
    assert again == replace(first, tells=3)
    assert ledger.trials(study.id) == TRIALS


@pytest.mark.parametrize("spoilt", ["''", "'312022e6'", "CAST(x'ff' AS TEXT)"])
def test_a_study_whose_protocol_was_spoilt_continues(
    ledger: Ledger, study: Study, spoilt: str
) -> None:
    first = ledger.start_study(study, 1)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(f"UPDATE studies SET protocol = {spoilt}")
    connection.close()
    assert ledger.start_study(study, 1) == first
    assert ledger.studies() == [first]


def test_a_study_that_is_not_found_after_it_was_written_is_damage(
    ledger: Ledger, study: Study
) -> None:
    ledger.start_study(study, 1)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute(
            "CREATE TRIGGER lost AFTER INSERT ON epochs BEGIN DELETE FROM epochs; END"
        )
        connection.execute("DELETE FROM epochs")
    connection.close()
    with pytest.raises(
        CorruptFileError, match=r"damaged \(study .* but is not found\); move the file"
    ):
        ledger.start_study(study, 1)


def test_a_study_says_all_about_itself(ledger: Ledger, study: Study) -> None:
    record = ledger.start_study(study, 7)
    assert record.id == study.id
    assert (record.problem, record.solver, record.solver_version) == (
        "matmul:8x8x8:f32",
        "loops",
        7,
    )
    assert record.seed == 2**70
    assert record.objective == study.objective.text
    assert record.protocol == study.protocol.key
    assert record.created == "2025-01-01T00:00:00.000000Z"


def test_a_forgotten_study_starts_over_and_keeps_its_rows(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, TRIALS)
    ledger.forget_study(study.id)
    assert ledger.trials(study.id) == []
    ledger.log_tells(study.id, TRIALS[:1])
    assert ledger.trials(study.id) == TRIALS[:1]
    assert ledger.studies()[0].epoch == 1
    assert ledger.summary().tells == 4


def test_a_newer_solver_starts_a_study_over(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.forget_study(study.id)
    ledger.log_tells(study.id, TRIALS)
    assert ledger.start_study(study, 2).tells == 0
    assert ledger.trials(study.id) == []


def test_an_older_solver_is_refused_a_newer_ones_study(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 2)
    with pytest.raises(NewerFormatError, match="version 2 of solver loops, but this is version 1"):
        ledger.start_study(study, 1)


def test_studies_are_listed_by_problem(ledger: Ledger, study: Study) -> None:
    other = replace(study, problem=Problem("add", (4, 4)))
    for one in (study, other):
        ledger.start_study(one, 1)
    assert [record.id for record in ledger.studies()] == [study.id, other.id]
    assert [record.id for record in ledger.studies("add:4x4:f32")] == [other.id]
    assert ledger.studies("add:1x1:f32") == []


def test_logging_to_an_unknown_study_is_refused(ledger: Ledger) -> None:
    with pytest.raises(StorageError, match="no study nothing"):
        ledger.log_ask("nothing", Config())


# Builds


def test_a_build_is_found_by_candidate_and_by_source(ledger: Ledger) -> None:
    build = BuildRecord(
        source_digest="source",
        compat="cpu:znver4:f",
        status=Status.OK,
        artifact_digest="artifact",
        symbol="kernel",
        abi="slots-1",
        seconds=0.25,
        resources={"code_bytes": 400},
        compiler="llvm 20",
        target="x86_64",
        created="2025-02-02T00:00:00.000000Z",
    )
    ledger.add_build(build, key(Config(tile=4)), key(Config(tile=8)), identity="first text")
    for tile in (4, 8):
        assert ledger.find_build(key(Config(tile=tile)), "first text", "cpu:znver4:f") == build
    assert ledger.find_source("source", "cpu:znver4:f") == build
    assert ledger.find_source("source", "cpu:other:f") is None
    assert ledger.find_build(key(Config(tile=4)), "first text", "c") is None


def test_a_candidate_of_another_content_has_no_build(ledger: Ledger) -> None:
    build = BuildRecord("source", "c", Status.OK, "artifact")
    ledger.add_build(build, key(Config(tile=4)), identity="first text")
    assert ledger.find_build(key(Config(tile=4)), "edited text", "c") is None
    ledger.add_build(replace(build, source_digest="new"), key(Config(tile=4)), identity="edited")
    first = ledger.find_build(key(Config(tile=4)), "first text", "c")
    assert first is not None
    assert first.source_digest == "source"


def test_a_clock_that_is_set_back_does_not_bring_back_an_earlier_build(tmp_path: Path) -> None:
    clock = iter(datetime(year, 1, 1, tzinfo=UTC) for year in range(2090, 1990, -1))
    with Ledger.open(tmp_path, clock=lambda: next(clock)) as ledger:
        for source in ("first", "second", "first", "third"):
            ledger.add_build(BuildRecord(source, "c", Status.OK, "artifact"), key(Config(tile=4)))
            found = ledger.find_build(key(Config(tile=4)), "", "c")
            assert found is not None and found.source_digest == source
        for reason in ("too large", "too slow"):
            failed = BuildRecord("fourth", "c", Status.BUILD_ERROR, reason=reason)
            ledger.add_build(failed, key(Config(tile=4)))
            latest = ledger.find_source("fourth", "c")
            assert latest is not None and latest.reason == reason


def test_a_found_build_is_mapped_without_a_second_row(ledger: Ledger) -> None:
    ledger.add_build(BuildRecord("source", "c", Status.OK, "artifact"), key(Config(tile=4)))
    found = ledger.find_source("source", "c")
    assert found is not None
    ledger.add_build(found, key(Config(tile=8)))
    assert ledger.find_build(key(Config(tile=8)), "", "c") == found
    assert ledger.summary().builds == 1


def test_a_build_that_worked_beats_a_later_failure(ledger: Ledger) -> None:
    ledger.add_build(BuildRecord("source", "c", Status.OK, "artifact"))
    ledger.add_build(BuildRecord("source", "c", Status.BUILD_TIMEOUT, reason="60 s"))
    found = ledger.find_source("source", "c")
    assert found is not None
    assert found.status is Status.OK


def test_the_latest_source_of_a_candidate_counts(ledger: Ledger) -> None:
    for source in ("one", "two", "one"):
        ledger.add_build(BuildRecord(source, "c", Status.BUILD_ERROR), key(Config()))
    found = ledger.find_build(key(Config()), "", "c")
    assert found is not None
    assert found.source_digest == "one"


@pytest.mark.parametrize(
    "build",
    [
        BuildRecord("source", "c", Status.OK, None),
        BuildRecord("source", "c", Status.BUILD_ERROR, "artifact"),
    ],
)
def test_only_a_build_that_worked_has_an_artifact(ledger: Ledger, build: BuildRecord) -> None:
    with pytest.raises(StorageError, match="refused a record, nothing was written"):
        ledger.add_build(build, key(Config()))
    assert ledger.summary().candidates == 0


# Measurements


def test_measurements_come_back_whole(ledger: Ledger) -> None:
    written = [measurement(Config(tile=4), block) for block in range(3)]
    failed = {"status": Status.CRASH, "reason": "signal 11", "details": {"log": "1.txt"}}
    written.append(measurement(Config(), source_digest=None, sentinel_ns=None, **failed))
    ledger.add_measurements(written)
    found = ledger.measurements("matmul:8x8x8:f32")
    assert {one.created for one in found} == {"2025-01-01T00:00:00.000000Z"}
    assert [replace(one, created="", seq=0) for one in found] == written
    assert ledger.measurements("matmul:9x9x9:f32") == []


def test_a_batch_is_written_whole_or_not_at_all(ledger: Ledger) -> None:
    batch = [measurement(Config(), 0), measurement(Config(), 1, disturbed=-1)]
    with pytest.raises(StorageError, match="refused a record"):
        ledger.add_measurements(batch)
    assert ledger.summary() == Summary(0, 0, 0, 0, 0, 0, 0, 0)


def test_after_a_refused_batch_its_candidates_are_written_with_the_next(ledger: Ledger) -> None:
    with pytest.raises(StorageError, match="refused a record"), ledger.writing():
        ledger.add_measurements([measurement(Config())])
        ledger.add_measurements([measurement(Config(), 1, disturbed=-1)])
    ledger.add_measurements([measurement(Config())])
    assert len(ledger.measurements("matmul:8x8x8:f32")) == 1


def test_one_query_gives_each_metric_with_its_unit(ledger: Ledger) -> None:
    ledger.add_measurements([measurement(Config(tile=4), status=Status.CRASH, reason="signal 11")])
    connection = sqlite3.connect(ledger.path)
    found = connection.execute(
        "SELECT problem, solver, config, device_class, protocol, metric, unit, samples, status, "
        "reason FROM trials_view ORDER BY metric"
    ).fetchall()
    connection.close()
    of = ("matmul:8x8x8:f32", "loops", '{"tile":4}', "cpu:znver4/1:abc", '{"caches":"hot"}')
    assert found == [
        (*of, "calls", "1", "[3.0]", "crash", "signal 11"),
        (*of, "time_ns", "ns", '[10.25,11.5,"inf"]', "crash", "signal 11"),
        (*of, "validity", "", '["VALID"]', "crash", "signal 11"),
    ]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("time_ns", "ns"),
        ("result_99.00_percentile_latency_ns", "ns"),
        ("result_samples_per_second", "1/s"),
        ("result_scheduled_samples_per_sec", "1/s"),
        ("build_seconds", "s"),
        ("workspace_bytes", "B"),
        ("result_query_count", "1"),
        ("qps", "1/s"),
        ("accuracy", ""),
    ],
)
def test_a_metrics_name_may_say_its_unit(name: str, unit: str) -> None:
    assert unit_of(name) == unit


# Marks


def test_marks_and_measurements_have_one_order_whatever_the_clock_says(tmp_path: Path) -> None:
    moments = iter(datetime(2025, 1, 30 - day, tzinfo=UTC) for day in range(20))
    mark = MarkRecord(MarkKind.FORGET, "failures", "matmul:8x8x8:f32", "loops", 1, None, *"ics")
    with Ledger.open(tmp_path, clock=lambda: next(moments)) as ledger:
        for _ in range(2):
            ledger.add_measurements([measurement(Config(), block) for block in range(2)])
            ledger.add_mark(mark)
        measured, marks = ledger.measurements(mark.problem), ledger.marks(mark.problem)
    assert [one.block for one in measured] == [0, 1, 0, 1]
    assert [replace(one, created="", seq=0) for one in marks] == [mark, mark]
    order = sorted([*measured, *marks], key=lambda one: one.seq)
    assert [isinstance(one, MarkRecord) for one in order] == [False, False, True] * 2
    assert len({one.seq for one in order}) == 6


def test_a_candidate_has_a_key_with_its_solvers_version() -> None:
    candidate = Candidate(Problem("matmul", (8, 8, 8)), "loops", Config(tile=4))
    assert CandidateKey.of(candidate, 1) == key(Config(tile=4))


# Verdicts


def verdict(study: Study, problem: str, tile: int, status: str = "banked") -> DecisionRecord:
    return DecisionRecord(
        study.id, problem, study.device, study.solver, Config(tile=tile), status, {"tile": tile}
    )


def test_verdicts_come_back_oldest_first(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    for number, problem in enumerate(["add:4:f32", "matmul:8x8x8:f32", "add:4:f32"]):
        ledger.add_decision(verdict(study, problem, number))
    assert [one.record["tile"] for one in ledger.decisions()] == [0, 1, 2]
    assert [one.config for one in ledger.decisions("add:4:f32")] == [Config(tile=0), Config(tile=2)]


def test_a_verdict_belongs_to_a_study(ledger: Ledger, study: Study) -> None:
    with pytest.raises(StorageError, match="FOREIGN KEY"):
        ledger.add_decision(verdict(study, "add:4:f32", 1))


def test_a_verdict_has_the_outcome_of_its_run_or_in_earlier_ledgers_its_status(
    study: Study,
) -> None:
    old = verdict(study, "add:4:f32", 1, "banked")
    assert old.outcome == "banked"
    assert replace(old, record={"evidence": {"outcome": "vendor"}}).outcome == "vendor"
    assert replace(old, record={"evidence": []}).outcome == "banked"


def test_what_was_banked_of_an_operation_is_in_the_order_of_writing(
    tmp_path: Path, study: Study
) -> None:
    clock = iter(datetime(year, 1, 1, tzinfo=UTC) for year in range(2090, 1990, -1))
    ledger = Ledger.open(tmp_path, clock=lambda: next(clock))
    ledger.start_study(study, 1)
    for problem, tile, status in [
        ("matmul:8x8x8:f32", 1, "banked"),
        ("matmul:8x8x8:f32", 2, "banked"),
        ("matmul:8x8x8:f32", 3, "reserved"),
        ("matmul:4x4x4:f32", 4, "banked"),
        ("matmul2:4x4x4:f32", 5, "banked"),
    ]:
        ledger.add_decision(verdict(study, problem, tile, status))
    assert ledger.banked("matmul") == [
        ("matmul:4x4x4:f32", "loops", Config(tile=4), ""),
        ("matmul:8x8x8:f32", "loops", Config(tile=1), '{"tile":1}'),
        ("matmul:8x8x8:f32", "loops", Config(tile=2), '{"tile":2}'),
    ]
    assert ledger.banked("matmul", device="elsewhere") == []
    ledger.close()


def test_winners_of_another_model_of_the_name_are_told_apart(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    for device, tile in (("here", 1), ("there", 2)):
        banked = verdict(study, "matmul:8x8x8:f32", tile)
        ledger.add_decision(replace(banked, device=f"cpu:haswell/1:{device}"))
    ledger.add_decision(replace(banked, device="cpu:haswell/12:there"))
    ledger.add_decision(replace(banked, device="cpu:haswell"))
    found = ledger.banked_on_namesakes("matmul", "cpu:haswell/1:here")
    assert found == [("matmul:8x8x8:f32", "loops", Config(tile=2), "")]
    assert ledger.banked_on_namesakes("matmul", "cpu:znver4/1:here") == []


# The whole


def test_devices_are_remembered_once(ledger: Ledger) -> None:
    device = Device("cpu", "znver4", 1, features=("avx2",), caches=(("L1", 32768),), serial="a")
    for one in (device, device, replace(device, serial="b")):
        ledger.add_device(one)
    assert ledger.devices() == [device, replace(device, serial="b")]


def test_the_summary_counts(ledger: Ledger, study: Study) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, TRIALS)
    ledger.add_measurements([measurement(Config(), block) for block in range(4)])
    ledger.add_mark(MarkRecord(MarkKind.FORGET, "everything", "p", "loops", 1, None, *"ics"))
    ledger.add_decision(verdict(study, "add:4:f32", 1))
    assert ledger.summary() == Summary(
        devices=0, studies=1, tells=3, candidates=1, builds=0, measurements=4, marks=1, verdicts=1
    )


def test_what_was_written_is_there_after_reopening(tmp_path: Path, study: Study) -> None:
    with Ledger.open(tmp_path) as ledger:
        ledger.start_study(study, 1)
        ledger.log_tells(study.id, TRIALS)
    with Ledger.open(tmp_path) as ledger:
        assert ledger.trials(study.id) == TRIALS


@pytest.mark.parametrize("table", ["study_log", "builds", "measurements", "marks", "verdicts"])
def test_facts_cannot_be_changed_or_deleted(ledger: Ledger, study: Study, table: str) -> None:
    ledger.start_study(study, 1)
    ledger.log_tells(study.id, TRIALS)
    ledger.add_build(BuildRecord("source", "c", Status.BUILD_ERROR))
    ledger.add_measurements([measurement(Config())])
    ledger.add_mark(MarkRecord(MarkKind.FORGET, "everything", "p", "loops", 1, None, *"ics"))
    ledger.add_decision(verdict(study, "add:4:f32", 1))
    connection = sqlite3.connect(ledger.path)
    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET created = created"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
