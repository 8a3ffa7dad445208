"""The baseline of a gain: a library or the first proposal, whichever solver is named."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from skipjack.bank import Bank
from skipjack.core import Budget
from skipjack.execute import Confirmation, Ratio, confirm
from skipjack.interrupt import Interrupt
from skipjack.operations import parse
from skipjack.report import problem_records
from skipjack.testing.sessions import NullSession
from skipjack.tuning import Tuner
from skipjack.tuning.study import (
    Contenders,
    Decision,
    StudyRun,
    TuneOptions,
    TuneOutcome,
    TuneResult,
    TuneStrategy,
    record_outcome,
)
from skipjack.tuning.study.conclusion import hold_final


def study_run(tuner: Tuner, problem: str, solver: str | None = None) -> StudyRun:
    options = TuneOptions(budget=Budget(trials=2), solver=solver)
    return StudyRun(tuner.context, parse(problem), options, Interrupt(), TuneStrategy(solver))


def test_the_default_is_the_first_proposal_whichever_solver_is_asked_for(tuner: Tuner) -> None:
    runs = [study_run(tuner, "matmul:64x64x64", name) for name in (None, "nest", "microkernel")]
    (default,) = {run.default for run in runs}
    assert default is not None
    assert default.config != runs[1].searches[0].space.default(), (
        "plain loops are nobody's proposal"
    )
    assert [run.compared_default for run in runs] == [None, None, default]


def test_plain_loops_are_compared_where_loop_nests_are_asked_for(tuner: Tuner) -> None:
    assert study_run(tuner, "matmul:64x64x64").untuned is None
    assert study_run(tuner, "matmul:64x64x64", "microkernel").untuned is None
    nest = tuner.tune("matmul:12x16x20", TuneOptions(budget=Budget(trials=2), solver="nest"))
    assert nest.untuned_ns is not None
    assert nest.to_json()["speedups"]["untuned"]["pairs"] >= 0


def test_a_gain_as_called_from_python_comes_with_its_interval(tuner: Tuner) -> None:
    result = tuner.tune("matmul:16x16x48", TuneOptions(budget=Budget(trials=3)))
    called = result.speedup.as_called
    assert called is not None
    assert called.noisy or called.low <= called.ratio <= called.high
    assert result.to_json()["as_called"] == called.to_json()
    entry = tuner.context.bank.lookup(result.problem.key, tuner.context.device.class_key)
    if entry is not None and entry.config:
        assert entry.evidence["as_called"] == called.to_json()
        assert entry.evidence["baseline"]["name"] == result.baseline


Costs = Mapping[str, float]
"""Nanoseconds of the winner, the default and the libraries."""


def judged(tuner: Tuner, problem: str, solver: str | None, costs: Costs) -> TuneResult:
    """The result of a search whose kernels have these times."""
    run = study_run(tuner, problem, solver)
    try:
        run.prepare()
        run.search()
        contenders = hold_final(run)
        assert contenders is not None
        return record_outcome(run, Decision(contenders, _confirmed(contenders, costs)))
    finally:
        run.close()


def _confirmed(summary: Contenders, costs: Costs) -> Confirmation:
    times = {loaded.kernel: costs["library"] for loaded in summary.vendors.values()}
    if summary.default:
        times[summary.default.kernel] = costs["default"]
    times[summary.winner.kernel] = costs["winner"]
    competitors = [kernel for kernel in times if kernel != summary.winner.kernel]
    session = NullSession(times, np.random.default_rng(0))
    return confirm(session, summary.winner.kernel, competitors)


def test_nothing_slower_than_the_default_is_banked_where_another_solver_was_asked_for(
    tuner: Tuner, tmp_path: Path
) -> None:
    slow = {"winner": 2000.0, "default": 1000.0, "library": 4000.0}
    result = judged(tuner, "matmul:32x32x40", "microkernel", slow)
    assert result.status is TuneOutcome.RESERVED
    assert result.solver == "microkernel", "what was asked for is what is shown"
    assert result.speedup.default.high < 1.0
    entry = tuner.context.bank.lookup(result.problem.key, tuner.context.device.class_key)
    assert entry is not None
    assert entry.solver == "nest"
    assert entry.time_ns < result.time_ns
    said = problem_records(tuner.context.ledger, result.problem.key)[-1]
    assert (said["kind"], said["status"]) == ("verdict", "reserved"), "as JSON has it"
    bank = Bank.open(tmp_path)
    bank.rebuild(tuner.context.ledger)
    again = bank.lookup(result.problem.key, tuner.context.device.class_key)
    assert again == entry, "what entered the bank is found in the ledger"


def test_times_and_gains_of_a_result_agree(tuner: Tuner) -> None:
    costs = {"winner": 1000.0, "default": 3000.0, "library": 2000.0}
    result = judged(tuner, "matmul:32x32x48", "microkernel", costs)
    assert result.status is TuneOutcome.BANKED
    assert result.baseline_ns / result.time_ns == pytest.approx(result.speedup.baseline.ratio)
    assert result.default_ns / result.time_ns == pytest.approx(result.speedup.default.ratio)


@pytest.mark.parametrize(("library_ns", "status"), [(1500.0, "noisy"), (9000.0, "banked")])
def test_a_noisy_library_hinders_no_verdict_if_it_is_far_behind(
    tuner: Tuner, library_ns: float, status: str
) -> None:
    run = study_run(tuner, f"matmul:32x40x{library_ns:.0f}", "microkernel")
    try:
        run.prepare()
        run.search()
        summary = hold_final(run)
        assert summary is not None
        costs = {"winner": 1000.0, "default": 3000.0, "library": library_ns}
        clear = _confirmed(summary, costs)
        noise = Ratio(float("nan"), float("nan"), float("nan"), left_out=40)
        libraries = {loaded.kernel for loaded in summary.vendors.values()}
        gains = {k: noise if k in libraries else gain for k, gain in clear.gains.items()}
        noisy = Decision(summary, Confirmation(clear.blocks, gains))
        assert record_outcome(run, noisy).status == status
    finally:
        run.close()


def test_a_library_that_is_slower_than_the_default_is_not_banked(tuner: Tuner) -> None:
    costs = {"winner": 3000.0, "default": 1000.0, "library": 2000.0}
    result = judged(tuner, "matmul:32x32x64", "microkernel", costs)
    assert result.status is TuneOutcome.RESERVED
    entry = tuner.context.bank.lookup(result.problem.key, tuner.context.device.class_key)
    assert entry is not None
    assert entry.solver == "nest"


def test_a_faster_library_is_what_the_bank_says(tuner: Tuner) -> None:
    costs = {"winner": 2000.0, "default": 3000.0, "library": 1000.0}
    result = judged(tuner, "matmul:32x32x56", "microkernel", costs)
    assert result.status is TuneOutcome.VENDOR
    assert result.speedup.baseline.high < 1.0
