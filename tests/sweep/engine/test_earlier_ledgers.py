"""Sweeps go on from ledgers that earlier code wrote, and whatever clocks say."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from simulated_sweeps import Machine, sweep

import earlier_ledgers
from skipjack.core import Config, Status
from skipjack.ledger import Ledger
from skipjack.sweep.bench import RunOutcome, Workload
from skipjack.sweep.engine import RunHistory, SweepContext

WORKLOADS = (Workload("rnnt", "1" * 16), Workload("bert", "2" * 16))
POINTS = [Config(), *(Config(a=number) for number in range(1, 7))]


def place(workload: Workload = WORKLOADS[0], device: str = "cpu") -> SweepContext:
    return SweepContext(workload, device, f"{device}:1")


def plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def all_answers(ledger: Ledger) -> list[list[Any]]:
    """What a sweep would be told of each point, under several deadlines, until it has to run."""
    taken = []
    for workload, timeout_s in itertools.product(WORKLOADS, (5.0, 10.0, 20.0, math.inf)):
        for device in ("cpu", "elsewhere"):
            history = RunHistory(ledger, place(workload, device), timeout_s)
            asked = [workload.key, device, plain(timeout_s)]
            for point, settings in itertools.product(POINTS, ({}, {"seconds": 5})):
                while (outcome := history.take(point, settings)) is not None:
                    taken.append([*asked, dict(point), settings, plain(asdict(outcome))])
            taken.append([*asked, "seconds", None, plain(sorted(history.seconds()))])
    return taken


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_each_run_answers_as_it_did_before(tmp_path: Path, version: int) -> None:
    earlier_ledgers.make(tmp_path, version)
    with Ledger.open(tmp_path) as ledger:
        assert all_answers(ledger) == earlier_ledgers.answers()["taken"]


@pytest.mark.parametrize("version", earlier_ledgers.FORMATS)
def test_a_sweep_of_an_earlier_ledger_runs_nothing_again(tmp_path: Path, version: int) -> None:
    earlier_ledgers.make(tmp_path, version)
    machine = Machine(lambda point: 99.0)
    with Ledger.open(tmp_path) as ledger:
        result = sweep(ledger, machine, {"a": (1, 2, 3)})
        assert machine.runs == []
        *trials, best = earlier_ledgers.answers()["sweep"]
        assert [
            [dict(one.point), one.status, one.value, one.reason, one.seconds]
            for one in result.trials
        ] == trials
        assert dict(result.best or {}) == best
        sweep(ledger, machine, {"a": (1, 2, 3)}, retry_failed=True)
        assert machine.points == [{"a": 2}]


def test_what_is_forgotten_does_not_depend_on_clocks(tmp_path: Path) -> None:
    moments = (datetime(2025, 1, 1, tzinfo=UTC) - timedelta(days=n) for n in itertools.count())

    def run(number: float) -> RunOutcome:
        return RunOutcome(Status.OK, {"qps": number})

    with Ledger.open(tmp_path, clock=lambda: next(moments)) as ledger:
        history = RunHistory(ledger, place())
        history.add(POINTS[1], {}, run(1.0))
        history.forget_all()
        history.add(POINTS[1], {}, run(2.0))
        history.add(POINTS[1], {}, run(3.0))
        again = RunHistory(ledger, place())
        assert [again.take(POINTS[1], {}) for _ in range(3)] == [run(2.0), run(3.0), None]


def test_all_that_is_known_of_a_run_comes_back(tmp_path: Path) -> None:
    made = RunOutcome(
        Status.CRASH,
        {"qps": 1.5, "latency": math.inf, "validity": "VALID"},
        "it printed \udcff",
        0.1,
        2.5,
        "logs/\udcfe.txt",
        ("throttled", "\udcfd"),
    )
    with Ledger.open(tmp_path) as ledger:
        RunHistory(ledger, place()).add(POINTS[1], {}, made)
        found = RunHistory(ledger, place()).take(POINTS[1], {})
    assert found is not None
    assert asdict(found) == {**asdict(made), "reason": "it printed \\udcff"}
