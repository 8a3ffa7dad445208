"""Results that grid.py left: found by the hash of their point, checked against it, read."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from skipjack.core import Config
from skipjack.errors import StorageError
from skipjack.interop.loadgen import read_result, result_directory, write_meta
from skipjack.interop.loadgen.grid_results import META_FILE, point_hash, read_results


def leave(directory: Path, point: dict[str, Any], **values: Any) -> Path:
    """A finished run; the log lies somewhere below."""
    log = directory / "harness" / "mlperf_log_detail.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    entries = {"result_validity": "VALID", **values}
    log.write_text(
        "not a log line\n"
        + "".join(f":::MLLOG {json.dumps({'key': k, 'value': v})}\n" for k, v in entries.items())
    )
    write_meta(directory, point, 44.5)
    return directory


def test_the_meta_file_is_that_of_grid_py(tmp_path: Path) -> None:
    write_meta(tmp_path, Config({"a": 1}), 44.5)
    meta = json.loads((tmp_path / "autotuneMETAFILE.json").read_text())
    assert meta == {"config": {"a": 1}, "run_info": {"start_temp": 44.5}}
    write_meta(tmp_path, {"a": 2})
    assert json.loads((tmp_path / META_FILE).read_text()) == {"config": {"a": 2}, "run_info": {}}


@pytest.mark.parametrize(
    ("value", "expected"), [(1, "42b7b4f292"), (1.0, "4b8937963a"), (True, "ffe0ee7a06")]
)
def test_the_hash_is_that_of_grid_py(value: object, expected: str) -> None:
    assert point_hash({"a": value}) == expected


def test_the_hash_does_not_depend_on_the_order_of_names() -> None:
    assert point_hash({"a": 1, "b": 2}) == point_hash(Config({"b": 2, "a": 1}))


def test_a_result_has_the_point_the_numbers_and_the_temperature(tmp_path: Path) -> None:
    point = {"qps": 100, "batch": 2}
    directory = result_directory(tmp_path, "A10x1", "rnnt", "Server", point)
    assert directory.name == f"grid_A10x1_rnnt_Server_{point_hash(point)}"
    leave(directory, point, **{"result_99.00_percentile_latency_ns": 7})
    result = read_result(directory, point)
    assert result is not None
    assert result.point == Config(point)
    assert result.stats == {
        "result_validity": "VALID",
        "result_99.00_percentile_latency_ns": 7,
        "start_temp": 44.5,
    }


def test_invalid_runs_are_results_and_unfinished_ones_are_none(tmp_path: Path) -> None:
    assert read_result(tmp_path / "nothing") is None
    invalid = leave(tmp_path / "invalid", {"a": 1}, result_validity="INVALID")
    assert read_result(invalid) is not None
    unfinished = leave(tmp_path / "unfinished", {"a": 1})
    (unfinished / META_FILE).unlink()
    assert read_result(unfinished) is None
    silent = leave(tmp_path / "silent", {"a": 1})
    (silent / "harness" / "mlperf_log_detail.txt").write_text("")
    assert read_result(silent) is None
    (silent / "harness" / "mlperf_log_detail.txt").unlink()
    assert read_result(silent) is None


@pytest.mark.parametrize("meta", ["", "{", "[]", '{"config": 3}', "{}"])
def test_a_damaged_meta_file_is_passed_over_with_a_warning(
    tmp_path: Path, meta: str, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path / "x", {"a": 1})
    (tmp_path / "x" / META_FILE).write_text(meta)
    assert read_result(tmp_path / "x") is None
    assert META_FILE in caplog.text


def test_another_point_in_the_directory_is_a_collision(tmp_path: Path) -> None:
    leave(tmp_path / "x", {"a": 1})
    for other in ({"a": 2}, {"a": 1.0}, {"a": True}):
        with pytest.raises(StorageError, match="which has the same hash"):
            read_result(tmp_path / "x", other)


def test_the_newest_of_several_logs_counts(tmp_path: Path) -> None:
    directory = leave(tmp_path / "x", {"a": 1}, run=2)
    old = directory / "again" / "mlperf_log_detail.txt"
    old.parent.mkdir()
    old.write_text(':::MLLOG {"key": "result_validity", "value": "INVALID"}\n')
    os.utime(old, ns=(0, 0))
    result = read_result(directory)
    assert result is not None
    assert result.stats["result_validity"] == "VALID"


def test_all_results_of_a_kind_are_read_in_the_order_of_their_runs(tmp_path: Path) -> None:
    for at, (system, qps) in enumerate([("A10x1", 3), ("A10x1", 1), ("T4x1", 2)]):
        point = {"qps": qps}
        directory = result_directory(tmp_path, system, "rnnt", "Server", point)
        leave(directory, point)
        os.utime(directory / META_FILE, ns=(0, at * 10**9))
    (tmp_path / "grid_of_something_else").mkdir()
    assert [dict(result.point) for result in read_results(tmp_path)] == [
        {"qps": 3},
        {"qps": 1},
        {"qps": 2},
    ]
    assert len(read_results(tmp_path, system_id="A10x1")) == 2
    assert read_results(tmp_path / "nowhere") == []
