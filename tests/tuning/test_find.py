"""A find through the public API: every solver is ranked, and the ranking is kept."""

from pathlib import Path

import numpy as np
import pytest

import skipjack
from skipjack.bank import FIND, Bank, BankEntry
from skipjack.core import Budget
from skipjack.errors import UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers import find_solver, names, supports_device
from skipjack.tuning import FindResult, FindStatus, Tuner
from skipjack.tuning.study import Limits, TuneOptions, applicable_solvers

MATMUL = "matmul:24x40x16:f32"
BUILT = {"nest", "packed", "microkernel", "thin"}
RNG = np.random.default_rng(0)


def options(trials: int, **more: object) -> TuneOptions:
    """With a searcher that is named: which one ``auto`` means depends on this CPU's spaces."""
    budget = Budget(trials=trials)
    return TuneOptions(budget=budget, searcher="genetic", **more)  # type: ignore[arg-type]


def entry_of(tuner: Tuner, problem: str) -> BankEntry | None:
    return tuner.context.bank.lookup(problem, tuner.context.device.class_key, FIND)


@pytest.fixture(scope="module")
def first(tuner: Tuner) -> FindResult:
    return tuner.find(MATMUL, options(12))


def test_every_known_solver_is_listed(first: FindResult) -> None:
    assert first.status is FindStatus.OK
    known = [name for name in names() if supports_device(find_solver(name), cpu.detect())]
    assert sorted(solver.solver for solver in first.solvers) == known
    assert {*BUILT, "numpy"} <= {solver.solver for solver in first.ranked}


def test_those_that_ran_come_first_and_fastest_first(first: FindResult) -> None:
    times = [solver.time_ns for solver in first.ranked]
    assert times == sorted(times)  # type: ignore[type-var]
    assert first.solvers[: len(times)] == first.ranked
    assert first.ranked[0].behind is not None
    assert first.ranked[0].behind.ratio == 1.0
    assert all(solver.behind is not None for solver in first.ranked)


def test_each_has_its_best_config_and_its_workspace(first: FindResult) -> None:
    problem, device = first.problem, cpu.detect()
    for name in BUILT:
        solver = find_solver(name)
        config = first[name].config
        assert solver.space(problem, device).contains(config)
        assert first[name].trials >= 1
    assert first["packed"].workspace_bytes is not None
    assert first["packed"].workspace_bytes > 0
    assert (dict(first["numpy"].config), first["numpy"].workspace_bytes) == ({}, 0)


def test_who_cannot_do_it_says_why(first: FindResult) -> None:
    refused = first["rows"]
    assert (refused.status, refused.time_ns) == ("not_applicable", None)
    assert refused.reason
    assert first.solvers[-1].status == "not_applicable"


def test_its_kernel_computes(first: FindResult) -> None:
    a, b = RNG.normal(size=(24, 16)).astype("f4"), RNG.normal(size=(16, 40)).astype("f4")
    np.testing.assert_allclose(first.kernel()(a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_the_ranking_and_the_verdict_are_banked(first: FindResult, tuner: Tuner) -> None:
    entry = entry_of(tuner, MATMUL)
    assert entry is not None
    fastest = first.ranked[0]
    assert (entry.solver, entry.config) == (fastest.solver, dict(fastest.config))
    assert entry.time_ns == pytest.approx(fastest.time_ns)
    rows = entry.evidence["ranking"]
    assert [row["solver"] for row in rows] == [solver.solver for solver in first.ranked]
    studies = {study.id: study.solver for study in tuner.context.ledger.studies(MATMUL)}
    for row in rows:
        assert studies.get(row["study"], "") == (row["solver"] if row["solver"] in BUILT else "")
        assert row["workspace_bytes"] == first[row["solver"]].workspace_bytes
    perf = tuner.context.bank.lookup(MATMUL, tuner.context.device.class_key)
    assert perf is not None
    assert first.perf is not None
    assert perf.solver in (first.perf.solver, "numpy", "mkl")
    gain = first.perf.speedup.as_called
    assert first.to_json()["verdict"]["as_called"] == (gain.to_json() if gain else None)


def test_the_bank_made_anew_has_the_same_bytes(first: FindResult, tuner: Tuner) -> None:
    bank = tuner.context.bank
    bank.join({})
    before = bank.path.read_bytes()
    bank.rebuild(tuner.context.ledger)
    assert bank.path.read_bytes() == before


def test_running_again_continues_the_studies(first: FindResult, tuner: Tuner) -> None:
    ledger = tuner.context.ledger

    def known() -> dict[str, set[str]]:
        return {s.id: {t.config.key for t in ledger.trials(s.id)} for s in ledger.studies(MATMUL)}

    before = known()
    again = tuner.find(MATMUL, options(6))
    after = known()
    assert after.keys() == before.keys()
    assert again.perf is not None
    assert len(again.perf.trials) == 6
    assert sum(map(len, after.values())) == sum(map(len, before.values())) + 6
    assert {solver.solver for solver in again.ranked} == {s.solver for s in first.ranked}


def test_starting_over_forgets_the_studies(first: FindResult, tuner: Tuner) -> None:
    tuner.find(MATMUL, options(4, retune=True))
    assert {study.epoch for study in tuner.context.ledger.studies(MATMUL)} == {1}


def test_a_budget_below_the_number_of_solvers_still_tries_everybody(tuner: Tuner) -> None:
    result = tuner.find("matmul:17x19x23", options(1))
    assert {solver.solver for solver in result.ranked} >= BUILT
    assert all(result[name].trials == 1 for name in BUILT)


def test_some_solvers_alone_are_ranked_but_not_banked_as_all(tuner: Tuner) -> None:
    result = tuner.find("add:40", options(3), only=["nest"])
    assert [solver.solver for solver in result.solvers] == ["nest"]
    assert entry_of(tuner, "add:40:f32") is None


def test_libraries_alone_can_be_ranked(tuner: Tuner) -> None:
    result = tuner.find("matmul:9x9x9", options(3), only=["numpy", "rows"])
    assert [(s.solver, s.status) for s in result.solvers] == [
        ("numpy", "ok"),
        ("rows", "not_applicable"),
    ]
    assert result.perf is None
    with pytest.raises(UsageError, match="nothing was built"):
        result.kernel()


def test_a_problem_that_nobody_can_do_is_not_applicable(tuner: Tuner) -> None:
    result = tuner.find("add:40", options(3), only=["rows"])
    assert result.status is FindStatus.NOT_APPLICABLE
    assert [solver.status for solver in result.solvers] == ["not_applicable"]
    assert "no solver" in result.reason


def test_where_calls_are_long_each_solver_is_tried_once_and_ranked(
    tuner: Tuner,
) -> None:
    """Every call counts as long here; the slowest solvers need not have been in the final."""
    asked = TuneOptions(budget=Budget(seconds=0.01), limits=Limits(slow_ns=1.0, long_ns=1.0))
    result = tuner.find("matmul:32x33x34", asked)
    assert {solver.solver for solver in result.ranked} >= {*BUILT, "numpy"}
    assert all(result[name].trials >= 1 for name in BUILT)
    assert result.perf is not None
    assert result.perf.time_ns > 0


def test_the_most_promising_solver_leads_and_libraries_take_part() -> None:
    applicable = applicable_solvers(parse("matmul:96x96x96/tb=1"), cpu.detect())
    assert applicable.building[0].name == "packed"
    assert [vendor.name for vendor in applicable.vendors][:1] == ["numpy"]
    assert all(applicable.refused.values())


def test_the_function_finds_here_and_now(user_dir: Path) -> None:
    result = skipjack.find("add:32", seconds=0.3, solvers="nest")
    assert [solver.solver for solver in result.ranked] == ["nest"]
    assert Bank.open(user_dir).entries()
    for wrong in ({"solvers": ["wizard"]}, {"seconds": -1.0}, {"budget": 0}, {"dtype": "f99"}):
        with pytest.raises(UsageError):
            skipjack.find("add:32", **wrong)  # type: ignore[arg-type]
