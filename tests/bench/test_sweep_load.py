"""The service whose limit is known, and the methods that look for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sweep_load
from sweep_methods import by_bisect, by_boundary, by_doubling
from sweep_service import Draw, Service


def calm(times_ms: list[float]) -> Draw:
    """One test without stalls."""
    return Draw(np.array([times_ms]), np.array([np.inf]))


def test_the_schedule_is_that_of_loadgen() -> None:
    seen = [0.0, 0.699, 1.703, 0.946, 1.477, 1.970, 0.161, 0.221, 1.692]  # as LoadGen issued them
    arrivals = Service(queries=9, schedule_seed=1234).arrivals
    assert arrivals == pytest.approx(np.cumsum(seen), abs=0.05)


def test_queries_wait_for_the_first_free_worker() -> None:
    service = Service(workers=1, queries=9, bound_ms=30.0)
    times = calm([10.0] * 9)
    assert service.late(1e9, times) == [6], "all come at once; three are done within 30 ms"
    assert replace(service, workers=3).late(1e9, times) == [0]
    assert service.late(0.1, times) == [0], "nobody waits"


def test_a_stall_makes_queries_late() -> None:
    service = Service(workers=2, queries=100, service_ms=1.0, stall_ms=100.0, bound_ms=20.0)
    times = np.full((1, 100), 1.0)
    assert service.late(500.0, Draw(times, np.array([np.inf]))) == [0]
    assert service.late(500.0, Draw(times, np.array([0.5])))[0] > 20


@pytest.mark.parametrize(
    ("percentile", "queries", "late"),
    [(0.99, 459, 0), (0.99, 458, -1), (0.9, 44, 0), (0.9, 43, -1), (0.9, 300, 18)],
)
def test_early_stopping_wants_enough_queries(percentile: float, queries: int, late: int) -> None:
    assert Service(percentile=percentile, queries=queries).most_late_valid == late


def test_half_of_the_tests_hold_at_the_limit() -> None:
    service = Service(queries=100)
    limit = service.limit(np.random.default_rng(0), tests=400)
    draw = service.draw(np.random.default_rng(1), 400)
    assert service.chance(limit, draw) == pytest.approx(0.5, abs=0.08)
    assert service.chance(limit * 0.7, draw) > 0.8
    assert service.chance(limit * 1.3, draw) < 0.05


def test_methods_find_a_sharp_limit() -> None:
    def holds(load: float) -> bool:
        return load <= 731

    assert by_bisect(holds, 300, 1200).load == 731
    assert by_doubling(holds, 300).load == pytest.approx(731, abs=0.1)
    found = by_boundary(holds, 300, 1200, 16)
    assert found.load == pytest.approx(731, rel=0.02)
    assert found.tests <= 16


def test_loadgens_way_refuses_a_start_that_fails() -> None:
    assert by_doubling(lambda load: False, 300).load is None


@pytest.mark.long
def test_boundary_is_closer_than_the_others_among_stalls() -> None:
    service = Service(queries=100, stall_share=0.1, percentile=0.9)
    said = sweep_load.summary(sweep_load.virtual(service, repeats=40, tests=300))
    close = {name: one["within_5_percent"] for name, one in said.items()}
    assert close["boundary"] > close["bisect"] and close["boundary"] > close["find_peak"]
    assert said["boundary"]["spread"] < min(said["bisect"]["spread"], said["find_peak"]["spread"])
    assert said["boundary"]["refusals"] == 0
    assert said["boundary"]["mean_tests"] <= sweep_load.BUDGET


def test_a_summary_counts_refusals_as_misses() -> None:
    found = {"load": None, "tests": 1, "low": None, "high": None}
    good = {"load": 102.0, "tests": 3, "low": None, "high": None}
    limits = dict.fromkeys(("boundary", "bisect", "find_peak"), 100.0)
    records = [
        {"limits": limits, "found": dict.fromkeys(limits, found)},
        {"limits": limits, "found": dict.fromkeys(limits, good)},
    ]
    one = sweep_load.summary(records)["find_peak"]
    assert one["within_5_percent"] == 0.5
    assert one["refusals"] == 1
    assert one["geomean_ratio"] == 1.02
    assert any("50%" in line for line in sweep_load.lines({"find_peak": one}))


def test_loadgen_itself_agrees_where_there_is_no_doubt() -> None:
    pytest.importorskip("mlperf_loadgen")
    import sweep_loadgen

    service = Service(queries=60, service_ms=1.0, workers=4, bound_ms=2000.0, stall_share=0.0)
    rng = np.random.default_rng(0)
    easy = sweep_loadgen.run_test(service, 300.0, service.draw(rng, 1))
    assert easy.valid and easy.late == 0
    hopeless = replace(service, bound_ms=0.01)
    assert not sweep_loadgen.run_test(hopeless, 300.0, service.draw(rng, 1)).valid
    refused = sweep_loadgen.find_peak(hopeless, 300.0, rng)
    assert refused.load is None and refused.tests == 1
