"""LoadGen's logs: what they say, and whether a run that does not count was slow or short."""

import math
from pathlib import Path

import pytest
from loadgen_runs import loadgen

from skipjack.interop.loadgen import (
    LoadgenLog,
    RunValidity,
    judge,
    read_detail_log,
    scenario_metrics,
)
from skipjack.interop.loadgen.detail_log import parse_detail_log, queries_needed

needs_loadgen = pytest.mark.usefixtures("real")


@pytest.fixture
def real() -> None:
    pytest.importorskip("mlperf_loadgen")


def line(key: str, value: str, error: str = "false") -> str:
    return f':::MLLOG {{"key": "{key}", "value": {value}, "metadata": {{"is_error": {error}}}}}'


def server(late: int, count: int, met: bool, stopped: bool = False) -> LoadgenLog:
    """The log of an invalid Server run at 99 %."""
    return LoadgenLog(
        {
            "effective_scenario": "Server",
            "effective_target_latency_percentile": 0.99,
            "effective_target_latency_ns": 15_000_000,
            "result_validity": "INVALID",
            "result_perf_constraints_met": met,
            "result_min_duration_met": True,
            "result_min_queries_met": True,
            "early_stopping_met": stopped,
            "result_query_count": count,
            "result_overlatency_query_count": late,
        }
    )


def test_the_last_value_of_a_key_counts_and_broken_lines_do_not() -> None:
    text = "\n".join(
        [
            "noise",
            line("result_validity", '"INVALID"'),
            ':::MLLOG {"key": "result_val',
            ":::MLLOG [1]",
            line("error_runtime", '"lost a response"', "true"),
            line("result_validity", '"VALID"'),
        ]
    )
    log = parse_detail_log(text)
    assert log.valid
    assert log.errors == ("lost a response",)


def test_queries_needed_are_those_that_loadgen_asks_for() -> None:
    assert queries_needed(0.99) == 459
    assert queries_needed(0.9) == 44
    assert queries_needed(0.9, late=1) == 64
    assert queries_needed(0.99, late=1) == 662
    assert queries_needed(0.99, late=592) == 600 + 64483  # as a log of its says
    assert abs(queries_needed(0.99, late=1001) / queries_needed(0.99, late=1000) - 1.001) < 0.01
    assert queries_needed(0.97) == math.ceil(math.log(0.01) / math.log(0.97))


@needs_loadgen
def test_an_offline_run_that_expected_too_little_asks_for_more(tmp_path: Path) -> None:
    settings = {"min_duration_ms": 200, "min_query_count": 1}
    short = loadgen(tmp_path / "a", "Offline", 0.05, offline_expected_qps=50, **settings)
    judgement = judge(read_detail_log(short))
    assert judgement.verdict is RunValidity.TOO_LITTLE
    assert judgement.repair["offline_expected_qps"] > 50


@needs_loadgen
def test_the_repair_of_a_stream_makes_it_valid(tmp_path: Path) -> None:
    settings = {"min_duration_ms": 100, "min_query_count": 1}
    latency = {"single_stream_expected_latency_ns": 5e7}
    short = read_detail_log(loadgen(tmp_path / "a", "SingleStream", 0.001, **settings, **latency))
    judgement = judge(short)
    assert judgement.verdict is RunValidity.TOO_LITTLE
    assert judgement.repair["min_query_count"] == 64
    repaired = {**settings, **latency, **judgement.repair}
    assert read_detail_log(loadgen(tmp_path / "b", "SingleStream", 0.001, **repaired)).valid


@needs_loadgen
def test_a_multi_stream_needs_662_queries(tmp_path: Path) -> None:
    settings = {"min_duration_ms": 50, "min_query_count": 1}
    log = read_detail_log(loadgen(tmp_path, "MultiStream", 0.0002, **settings))
    judgement = judge(log)
    assert judgement.verdict is RunValidity.TOO_LITTLE
    assert judgement.repair["min_query_count"] == 662
    assert judgement.repair["multi_stream_expected_latency_ns"] < 8e6
    assert scenario_metrics(log)["requested_multi_stream_samples_per_query"] == 8


@needs_loadgen
def test_an_overloaded_server_is_too_slow_whatever_load_it_was_offered(tmp_path: Path) -> None:
    log = read_detail_log(
        loadgen(
            *(tmp_path, "Server", 0.004),
            min_duration_ms=100,
            min_query_count=300,
            server_target_qps=2000,
            server_target_latency_ns=15e6,
        )
    )
    judgement = judge(log)
    metrics = scenario_metrics(log)
    assert log.scenario == "Server"
    assert judgement.verdict is RunValidity.TOO_SLOW
    assert "queries were late (bound 15 ms)" in judgement.reasons[0]
    assert not judgement.repair
    assert float(metrics["result_scheduled_samples_per_sec"]) > 1000
    assert 0 < float(metrics["result_completed_samples_per_sec"]) < 1000
    assert (metrics["scenario"], metrics["result_validity"]) == ("Server", "INVALID")


@needs_loadgen
def test_a_valid_run_has_its_metrics(tmp_path: Path) -> None:
    settings = {"min_duration_ms": 50, "min_query_count": 600, "server_target_qps": 1500}
    log = read_detail_log(
        loadgen(tmp_path, "Server", 0.0, server_target_latency_ns=1e10, **settings)
    )
    assert judge(log).verdict is RunValidity.VALID
    assert 1000 < float(scenario_metrics(log)["result_scheduled_samples_per_sec"]) < 2000


def test_too_few_queries_in_time_are_measured_too_little() -> None:
    judgement = judge(server(late=0, count=144, met=True))
    assert judgement.verdict is RunValidity.TOO_LITTLE
    assert judgement.repair == {"min_query_count": 459.0}


def test_one_late_query_of_few_says_nothing_yet() -> None:
    assert judge(server(late=1, count=58, met=False)).verdict is RunValidity.TOO_LITTLE
    assert judge(server(late=50, count=58, met=False)).verdict is RunValidity.TOO_SLOW
    assert judge(server(late=7, count=600, met=False)).verdict is RunValidity.TOO_SLOW


def test_what_is_too_close_to_the_bound_is_not_measured_for_ever() -> None:
    near = judge(server(late=2, count=600, met=True))
    assert near.verdict is RunValidity.TOO_LITTLE
    assert 600 < near.repair["min_query_count"] <= 20 * 600
    nearest = judge(server(late=59, count=6000, met=True))
    assert nearest.verdict is RunValidity.TOO_SLOW
    assert "too close to the bound" in nearest.reasons[0]


def test_an_invalid_run_without_known_reason_gives_what_loadgen_said() -> None:
    log = LoadgenLog({"result_validity": "INVALID", "result_invalid_reason": "Something new."})
    assert judge(log).reasons == ("Something new.",)
