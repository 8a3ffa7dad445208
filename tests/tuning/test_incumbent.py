"""Every tuning times the bank's entry, and replaces it by a faster one whatever clocks say."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from skipjack.bank import BASELINE, FIND, REPLACED, BankEntry, EntryOrigin, ReplacementReason
from skipjack.bank.strength import digest
from skipjack.core import Budget, Config, Problem
from skipjack.execute import Block, Failure, Loadable
from skipjack.execute.pool import Build
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.tuning import Tuner
from skipjack.tuning.study import (
    CandidateEvaluator,
    LoadedCandidate,
    TuneOptions,
    TuneOutcome,
    TuneResult,
    conclusion,
)
from skipjack.tuning.study.strategy import default_proposal

LATE = "2090-01-01T00:00:00.000000Z"
OURS_NS = 100.0


@contextmanager
def made_up_times(
    tuner: Tuner, library_ns: float, others: Mapping[Config, float] = {}
) -> Iterator[None]:
    """Defaults take twice as long as other kernels that are built, libraries what is said."""
    context, session = tuner.context, tuner.context.session
    load, add, time = CandidateEvaluator._load, session.add, session.time
    costs: dict[int, float] = {}

    def loaded(evaluator: CandidateEvaluator, build: Build, digest: str) -> LoadedCandidate:
        made, candidate = load(evaluator, build, digest), build.candidate
        default = default_proposal(candidate.problem, context.target)
        if candidate.config in others:
            costs[made.kernel] = others[candidate.config]
        elif default is not None and candidate == default.candidate:
            costs[made.kernel] = 2 * OURS_NS
        return made

    def noted(one: Loadable) -> int:
        kernel = add(one)
        costs[kernel] = library_ns if one.vendor else OURS_NS
        return kernel

    def exact(kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        timed, failures = time(kernels, blocks)
        return [_block(one, costs[one.kernel]) for one in timed], failures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CandidateEvaluator, "_load", loaded)
        patch.setattr(session, "add", noted)
        patch.setattr(session, "time", exact)
        yield


def _block(block: Block, time_ns: float) -> Block:
    samples = tuple(time_ns for _ in block.samples_ns) or (time_ns,)
    return replace(block, samples_ns=samples, sentinel_ns=(1.0, 1.0), disturbed=False)


def held(
    tuner: Tuner, problem: str, solver: str, low: float, config: Mapping[str, Any] = {}, **more: Any
) -> BankEntry:
    """An entry that the bank holds, from a machine whose clock is far ahead."""
    device = tuner.context.device
    gain = {"ratio": low, "low": low, "high": low}
    version = find_solver(solver).version if solver in ("numpy", "nest") else 1
    artifact = "" if solver == "numpy" else "a" * 64
    evidence = {"artifact": artifact, "samples": 10**6, BASELINE: {"name": "numpy", **gain}}
    fields: dict[str, Any] = {
        "problem": parse(problem).key,
        "device": device.class_key,
        "device_name": device.name,
        "solver": solver,
        "solver_version": version,
        "config": config,
        "time_ns": 1.0,
        "default_ns": 9.0,
        "vendor_ns": 9.0,
        "vendor": "numpy",
        "speedup": {"default": gain, "vendor": gain},
        "evidence": evidence,
        "created": LATE,
    }
    entry = BankEntry(**{**fields, **more})
    tuner.context.bank.put(entry)
    return entry


def tune(tuner: Tuner, problem: str) -> tuple[TuneResult, BankEntry]:
    result = tuner.tune(problem, TuneOptions(budget=Budget(trials=3)))
    entry = tuner.context.bank.lookup(result.problem.key, tuner.context.device.class_key)
    assert entry is not None
    return result, entry


def test_a_library_that_the_bank_holds_gives_way_to_what_beats_it(tuner: Tuner) -> None:
    before = held(tuner, "add:40", "numpy", 1.0)
    with made_up_times(tuner, library_ns=5 * OURS_NS):
        result, now = tune(tuner, "add:40")
    assert result.status is TuneOutcome.BANKED
    assert (now.solver, now.config) == (result.solver, dict(result.best))
    assert now.created < before.created, "a clock was set back"
    assert now.evidence[REPLACED]["entry"] == digest(before)
    assert now.evidence[REPLACED]["met"] == ReplacementReason.SLOWER
    tuner.context.bank.rebuild(tuner.context.ledger)
    assert tuner.context.bank.lookup(now.problem, now.device) == now


def test_an_entry_says_how_its_kernel_is_called_and_where_it_was_made(tuner: Tuner) -> None:
    with made_up_times(tuner, library_ns=5 * OURS_NS):
        result, now = tune(tuner, "add:40")
    device, code = tuner.context.device, result.code
    assert now.launch is not None and code is not None
    launch = now.launch
    assert (launch.artifact, launch.symbol, launch.abi) == (code.digest, code.symbol, code.abi)
    assert launch.slots == code.slots
    assert launch.compat == device.compat_key
    assert now.protocol == tuner.context.protocol.key
    assert now.origin == EntryOrigin.of("tune", device)
    assert now.toolchain.startswith("llvm-")
    assert len(now.output) == 64


@pytest.mark.parametrize(
    ("library_ns", "status"), [(OURS_NS, TuneOutcome.KEPT), (OURS_NS / 5, TuneOutcome.VENDOR)]
)
def test_a_library_that_nothing_beats_stays(
    tuner: Tuner, library_ns: float, status: TuneOutcome
) -> None:
    problem = f"add:4{library_ns:.0f}"
    before = held(tuner, problem, "numpy", 1.0)
    with made_up_times(tuner, library_ns):
        result, now = tune(tuner, problem)
    assert result.status is status
    assert "numpy" in result.reason
    assert now == before
    assert result.kernel() is not None


def test_a_config_that_its_solver_does_not_know_any_more_gives_way(tuner: Tuner) -> None:
    before = held(tuner, "add:42", "nest", 900.0, {"no such": "setting"})
    with made_up_times(tuner, library_ns=OURS_NS):
        result, now = tune(tuner, "add:42")
    assert result.status is TuneOutcome.BANKED
    assert now.evidence[REPLACED]["met"] == ReplacementReason.OUTDATED
    assert now.evidence[REPLACED]["entry"] == digest(before)


def test_an_entry_that_cannot_be_timed_gives_way_to_stronger_evidence_alone(tuner: Tuner) -> None:
    """It is of a newer version of its solver than the one here."""
    newer = find_solver("nest").version + 1
    strong = held(tuner, "add:43", "nest", 7.0, {"x": 1}, solver_version=newer)
    weak = held(tuner, "add:44", "nest", 1.5, {"x": 1}, solver_version=newer)
    with made_up_times(tuner, library_ns=5 * OURS_NS):
        result, now = tune(tuner, strong.problem)
        assert result.status is TuneOutcome.KEPT
        assert "entry of nest has stronger evidence" in result.reason
        assert now == strong
        result, now = tune(tuner, weak.problem)
    assert result.status is TuneOutcome.BANKED
    assert now.solver_version < newer


def test_an_entry_of_a_solver_that_is_not_loaded_stays(tuner: Tuner) -> None:
    weak = held(tuner, "add:45", "streaming", 2.0, {"x": 1})
    with made_up_times(tuner, library_ns=5 * OURS_NS):
        result, now = tune(tuner, weak.problem)
    assert result.status is TuneOutcome.KEPT
    assert "solver streaming, which is not loaded" in result.reason
    assert now == weak


def test_an_entry_that_came_meanwhile_is_not_lost(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strong = held(tuner, "add:47", "streaming", 7.0, {"x": 1})
    monkeypatch.setattr(tuner.context.bank, "lookup", lambda *_: None)
    with made_up_times(tuner, library_ns=5 * OURS_NS):
        tuner.tune("add:47", TuneOptions(budget=Budget(trials=3)))
    monkeypatch.undo()
    assert tuner.context.bank.lookup(strong.problem, strong.device) == strong
    assert "add:47:f32 with stronger evidence in the meantime, which stays" in caplog.text


def test_the_last_find_counts_whatever_the_clock_says(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, device = "add:46:f32", tuner.context.device.class_key
    rankings = []
    for year in (2090, 2026):
        monkeypatch.setattr(
            conclusion,
            "utc_now",
            lambda year=year: datetime(year, 1, 1, tzinfo=UTC),
        )
        with made_up_times(tuner, library_ns=5 * OURS_NS):
            tuner.find(problem, TuneOptions(budget=Budget(trials=4)))
        rankings.append(tuner.context.bank.lookup(problem, device, FIND))
    first, second = rankings
    assert first is not None and second is not None
    assert (first.created[:4], second.created[:4]) == ("2090", "2026")
    assert second.evidence[REPLACED]["entry"] == digest(first)
    tuner.context.bank.rebuild(tuner.context.ledger)
    assert tuner.context.bank.lookup(problem, device, FIND) == second


def test_a_find_ranks_the_config_that_it_keeps(tuner: Tuner) -> None:
    """Another one is faster, but by less than is confirmed."""
    problem, nest = parse("add:57"), find_solver("nest")
    config = kept_config(tuner, problem)
    before = held(tuner, "add:57", "nest", 900.0, config, solver_version=nest.version)
    with made_up_times(tuner, 5 * OURS_NS, {config: 1.004 * OURS_NS}):
        result = tuner.find("add:57", TuneOptions(budget=Budget(trials=5)), only=["nest"])
    assert result.perf is not None
    assert result.perf.status is TuneOutcome.KEPT
    (row,) = result.ranked
    assert row.config == result.perf.best == Config(dict(before.config))
    assert row.time_ns == pytest.approx(1.004 * OURS_NS, rel=1e-3)
    assert result.remark == "" == result.to_json()["remark"]


def test_a_find_says_why_the_first_is_not_what_is_kept(tuner: Tuner) -> None:
    problem, nest = parse("matmul:10x9x8"), find_solver("nest")
    config = kept_config(tuner, problem)
    held(tuner, "matmul:10x9x8", "nest", 900.0, config, solver_version=nest.version)
    with made_up_times(tuner, 5 * OURS_NS, {config: 1.004 * OURS_NS}):
        result = tuner.find(
            "matmul:10x9x8", TuneOptions(budget=Budget(trials=8)), only=["nest", "packed"]
        )
    assert result.perf is not None
    assert result.perf.status is TuneOutcome.KEPT
    first = result.ranked[0]
    assert first.solver == "packed"
    assert result.remark == "packed and nest are tied; their order is not significant"


def kept_config(tuner: Tuner, problem: Problem) -> Config:
    """One that is neither the default nor the first proposal."""
    device, nest = tuner.context.device, find_solver("nest")
    space, rng = nest.space(problem, device), np.random.default_rng(0)
    proposed = default_proposal(problem, tuner.context.target)
    known = {space.default(), *([proposed.candidate.config] if proposed else [])}
    return next(one for one in (space.sample(rng) for _ in range(99)) if one not in known)
