"""A result is unchanged when it is read back; CSV has the same columns in every row."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeps import LATENCY, RATE, grid, sweep, trial

from skipjack.core import Status
from skipjack.errors import NewerFormatError, StorageError
from skipjack.report.sweep import read_json, write_csv, write_json
from skipjack.report.sweep.files import csv_columns, csv_text
from skipjack.sweep.engine import SweepResult
from skipjack.sweep.results import from_json, to_json

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
POINTS = st.dictionaries(TEXT, SCALARS, max_size=4)
METRICS = st.dictionaries(TEXT, st.floats(allow_nan=False) | TEXT, max_size=4)


def rows(result: SweepResult) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(result), newline=""), strict=True))


def test_columns_are_in_a_stable_order() -> None:
    assert csv_columns(grid()) == [
        *("number", "purpose", "status", "cached", "built"),
        *("batch", "layout", "samples_per_second"),
        *("seconds", "build_seconds", "reason", "log"),
    ]


def test_runs_with_other_metrics_and_parameters_do_not_shift_columns() -> None:
    result = sweep([
        trial(1, {"a": 1}, 2.0, metrics={"z": 1.0, "b": "VALID"}),
        trial(2, {"a": None, "c": True}, 3.0, metrics={"b": "INVALID"}),
    ])  # fmt: skip
    header, *lines = rows(result)
    cells = [dict(zip(header, line, strict=True)) for line in lines]
    assert header[5:9] == ["a", "c", "b", "z"]
    assert (cells[0]["c"], cells[0]["z"], cells[1]["z"]) == ("", "1.0", "")
    assert (cells[1]["a"], cells[1]["c"], cells[1]["b"]) == ("null", "true", "INVALID")


def test_a_name_that_stands_for_two_things_is_told_apart() -> None:
    result = sweep([trial(1, {"status": 5, "x": 1}, 2.0, metrics={"x": 3.0, "seconds": 4.0})])
    header, line = rows(result)
    cells = dict(zip(header, line, strict=True))
    assert (cells["status"], cells["parameter.status"]) == ("ok", "5")
    assert (cells["x"], cells["metric.x"]) == ("1", "3.0")
    assert (cells["seconds"], cells["metric.seconds"]) == ("2.0", "4.0")


def test_even_the_names_that_tell_apart_are_told_apart() -> None:
    names = csv_columns(sweep([trial(1, {"status": 5, "parameter.status": 1}, 2.0)]))
    assert len(set(names)) == len(names)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(POINTS, METRICS, TEXT), max_size=4))
def test_every_row_has_every_column_whatever_is_in_it(runs: list[Any]) -> None:
    result = sweep([
        trial(number, point, 1.0, metrics=metrics, reason=reason)
        for number, (point, metrics, reason) in enumerate(runs)
    ])  # fmt: skip
    header, *lines = rows(result)
    assert len(set(header)) == len(header)
    assert [len(line) for line in lines] == [len(header)] * len(runs)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(POINTS, METRICS, TEXT), max_size=4), POINTS)
def test_a_result_is_the_same_when_it_is_read(runs: list[Any], config: dict[str, Any]) -> None:
    trials = [
        trial(number, point, 1.0, metrics=metrics, reason=reason)
        for number, (point, metrics, reason) in enumerate(runs)
    ]
    result = sweep(trials, full_config=config)
    text = json.dumps(to_json(result), allow_nan=False)
    assert from_json(json.loads(text), "here") == result


def test_files_are_written_and_read(tmp_path: Path) -> None:
    write_json(grid(), tmp_path / "result.json")
    write_csv(grid(), tmp_path / "result.csv")
    assert read_json(tmp_path / "result.json") == grid()
    assert (tmp_path / "result.csv").read_bytes().count(b"\r\n") == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.csv", "result.json"]


def test_numbers_that_are_none_survive() -> None:
    result = sweep([trial(1, {"a": math.inf}, 1.0, metrics={"x": math.nan})])
    back = from_json(json.loads(json.dumps(to_json(result), allow_nan=False)), "here")
    assert back.trials[0].point["a"] == math.inf
    assert math.isnan(float(back.trials[0].metrics["x"]))


def test_the_front_is_in_the_file_and_worked_out_again() -> None:
    metrics = {"samples_per_second": 5.0, "latency_ms": 2.0}
    result = sweep([trial(1, {"a": 1}, 5.0, metrics=metrics)], objectives=(RATE, LATENCY))
    record = to_json(result)
    assert record["front"] == [{"a": 1}]
    assert from_json({**record, "front": []}, "here") == result


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**to_json(grid()), "format": 2}))
    with pytest.raises(NewerFormatError, match=r"result\.json has format 2"):
        read_json(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a result of a sweep"),
        ('{"kind": "study", "format": 1}', "is not a result of a sweep"),
        ('{"kind": "sweep"}', "has no format number"),
        ('{"kind": "sweep", "format": 1}', "the field trials is missing"),
        (json.dumps({**to_json(grid()), "trials": 5}), "is damaged"),
        (json.dumps(to_json(grid())).replace("out_of_memory", "odd"), 'found "odd"'),
    ],
)
def test_what_is_no_result_is_said_in_a_sentence(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(StorageError, match=complaint):
        read_json(path)
    assert path.read_text() == content


def test_a_file_that_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        read_json(tmp_path / "none.json")


def test_statuses_are_plain_words() -> None:
    result = replace(grid(), trials=(trial(1, {}, None, status=Status.OUT_OF_MEMORY),))
    assert to_json(result)["trials"][0]["status"] == "out_of_memory"
    assert rows(result)[1][2] == "out_of_memory"
