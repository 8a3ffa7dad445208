"""What the benchmarks of lookups compute; their measurements are not repeated here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lookup_remembered
import lookup_stored
import lookup_tables
import regret
from lookup_program import known_entry
from skipjack.bank import Bank
from skipjack.core import Config
from skipjack.operations import parse
from skipjack.runtime.answers import LookupAnswer
from skipjack.tuning.study.result import SolverScore

KEY = "add:64"


def answer(solver: str, source: str = "user", **config: Any) -> LookupAnswer:
    kernel: Any = SimpleNamespace(solver=solver)
    return LookupAnswer(kernel, source, config)


def test_remembered_answers_make_no_system_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    Bank.open(tmp_path).put(known_entry(KEY))
    counted = lookup_remembered.system_calls(KEY, "add:65")  # the latter is in no bank
    if counted is None:
        pytest.skip("nobody can be traced here")
    assert counted == 0


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed")
def test_the_stand_in_for_a_kernel_is_called_with_the_config_that_triton_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched: list[object] = []
    call = lookup_remembered.autotuned()
    monkeypatch.setattr(
        lookup_remembered._StandIn, "run", lambda self, *told, **named: launched.append(named)
    )
    call()
    assert [(named["BLOCK"], named["grid"]) for named in launched] == [(16, (1,))]  # type: ignore[index]


def test_what_is_slow_is_timed_once_and_the_rest_in_turns() -> None:
    order: list[str] = []

    def act(way: str, seconds: float) -> lookup_stored.Act:
        return lambda number: order.append(f"{way}{number}") or seconds  # type: ignore[func-returns-value]

    found = lookup_stored.in_turns({"a": act("a", 0.001), "b": act("b", 9.0)}, 3)
    assert order == ["a0", "b0", "a1", "a2"]
    assert found["a"] == {"median": 0.001, "low": 0.001, "high": 0.001, "times": 3}
    assert found["b"]["times"] == 1


def test_flips_are_tunings_whose_winner_is_not_the_most_frequent() -> None:
    assert regret.flips(["a", "b", "a", "c", "a"]) == (2, 3)
    assert regret.flips(["a", "a"]) == (0, 1)


def test_regret_is_against_the_fastest_whoever_found_it() -> None:
    answers = {
        "0": answer("nest", tile=1),
        "1": answer("nest", tile=2),
        "2": answer("nest", tile=1),
        regret.MERGED: answer("nest", tile=2),
        regret.LONGER: answer("packed", tile=2),
        regret.UNKNOWN: answer("nest", "proposal", tile=3),
        "trial 0": answer("packed", tile=9),
    }
    regrets = {"0": 0.05, "1": 0.01, "2": 0.05, "merged": 0.01, "longer": 0.02}
    regrets |= {"unknown": 0.3, "trial 0": 0.0}
    record = regret.problem_record(KEY, answers, regrets, ["banked", "reserved", "banked"])
    assert (record["tunings"], record["winners"], record["flips"]) == (3, 2, 1)
    assert record["outcomes"] == {"banked": 2, "reserved": 1}
    assert record["noticed"] == 2
    assert record["regret"]["one_median"] == record["regret"]["one_worst"] == 0.05
    assert record["best"] == {"solver": "packed", "config": {"tile": 9}}


def test_the_fastest_trial_is_of_the_solver_with_the_best_score() -> None:
    trials = [
        SimpleNamespace(ok=True, value=3.0, config=Config(a=1)),
        SimpleNamespace(ok=True, value=2.0, config=Config(b=1)),
        SimpleNamespace(ok=False, value=None, config=Config(c=1)),
    ]
    scores = (SolverScore("one", 1, 3.0), SolverScore("two", 1, 2.0), SolverScore("no", 1, None))
    result: Any = SimpleNamespace(trials=trials, solvers=scores)
    assert regret.fastest_trial(result) == ("two", Config(b=1))


def test_a_program_that_runs_something_else_is_told() -> None:
    entry = known_entry(KEY)
    same = {"source": "user", "solver": entry.solver, "config": dict(entry.config), "code": None}
    other = {**same, "config": {}}
    found = regret.replay_record([(KEY, entry, same), (KEY, entry, other), (KEY, None, other)])
    assert (found["lookups"], found["same"], found["without_entry"]) == (2, 1, 1)
    assert found["differences"] == [{"problem": KEY, "banked": same, "run": other}]


@pytest.mark.parametrize("key", regret.NEAR_SHAPES)
def test_shapes_that_are_asked_for_are_near_one_that_is_tuned(key: str) -> None:
    from skipjack.bank.layers import doublings

    apart = [doublings(parse(key, "f32"), parse(tuned, "f32")) for tuned in regret.TUNED_SHAPES]
    assert any(found is not None and max(found) <= 1 for found in apart)


def with_head(**parts: Any) -> dict[str, Any]:
    device = {"name": "x/1", "model": "X", "cores": 2, "core_used": "1"}
    return {"device": device, "versions": {}, "date": "2026-01-01", **parts}


def test_tables_of_lookups() -> None:
    us = {"median": 0.5, "low": 0.4, "high": 0.6, "beyond_call": 0.3}
    remembered = {"us": {"lookup": us}, "system_calls": 0, "absent": {"Triton": "no"}}
    text = lookup_tables.remembered(with_head(remembered=remembered))
    assert "| lookup | 0.50 µs [0.40, 0.60] | 0.30 µs |" in text
    assert "System calls of 2,000 such lookups: 0." in text and "Not there: Triton (no)." in text
    times = {way: {"median": 0.002} for way in ("bank", "Kernel Tuner")}
    sizes = [{"entries": 1000, "seconds": {"add one": times}}]
    stored = {"sizes": sizes, "kernel_tuner": "1.5", "absent": {}}
    text = lookup_tables.stored(with_head(stored=stored))
    assert text.splitlines()[0] == "| entries | what | bank | Kernel Tuner 1.5 |"
    assert text.splitlines()[-1] == "| 1,000 | add one | 2.0 ms | 2.0 ms |"


def test_tables_of_regret() -> None:
    kinds = {"one_median": 0.01, "one_worst": 0.04, "merged": 0.0, "longer": 0.0, "unknown": 0.2}
    problem = {"problem": KEY, "tunings": 10, "flips": 3, "noticed": 1, "regret": kinds}
    problem["unknown_source"] = "proposal"
    moved = {"problem": KEY, "source": "nearest", "nearest": 0.05, "proposal": 0.21}
    transfer = [moved | {"proposal_source": "proposal"}]
    replay = {"lookups": 9, "same": 9, "without_entry": 1}
    result = with_head(
        settings={"longer_seconds": 5.0},
        summary=regret.summary([problem], replay, transfer),
        problems=[problem],
        replay=replay,
        transfer=transfer,
    )
    text = lookup_tables.regret(result)
    assert f"| `{KEY}` | 3 of 10 | 1.0% | 4.0% | 0.0% | 0.0% | 20.0% | proposal |" in text
    assert "10% of all tunings have a regret over 2%. Replay fidelity: 9 of 9" in text
    text = lookup_tables.transfer(result)
    assert f"| `{KEY}` | nearest | +5.0% | +21.0% (proposal) |" in text
    assert "| **mean of nearest answers** | 1 of 1 | +5.0% | +21.0% |" in text
