"""The conclusion of a study: confirmed on new samples, written to the ledger, kept in the bank."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skipjack.bank import (
    BASELINE,
    PINNED,
    REPLACED,
    BankEntry,
    Changes,
    EntryOrigin,
    Evidence,
    ReplacementReason,
    device_evidence,
    replacing,
    stronger,
)
from skipjack.core import Config, Device, Peaks, Study
from skipjack.execute import ALPHA, MIN_EFFECT, Ratio, Timing, confirm
from skipjack.gpu import driver_release
from skipjack.ledger import OUTCOME, DecisionRecord
from skipjack.operations import bytes_moved, get, outputs
from skipjack.runtime.local_kernels import KernelCode
from skipjack.solvers import NativeVendorSolver, VendorSolver, find_solver, is_known, vendors_for
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.study.decision import UNITY, Contenders, Decision
from skipjack.tuning.study.final import tune_final
from skipjack.tuning.study.loaded_candidate import LoadedCandidate
from skipjack.tuning.study.result import SolverScore, Speedup, TuneOutcome, TuneResult
from skipjack.tuning.study.run import StudyRun
from skipjack.tuning.study.solver_search import SolverSearch

log = logging.getLogger(__name__)


def hold_final(run: StudyRun) -> Contenders | None:
    """Hold the final, and add the libraries that the winner has to beat."""
    final = tune_final(run.evaluator, run.limits, run.compared_default)
    run.add_vendors(vendors_for(run.problem, run.context.device))
    return run.contenders(final)


def conclude(run: StudyRun, *, keep: bool = True) -> TuneResult:
    """Confirm the winner of a search, and record the outcome if `keep` is true."""
    contenders = hold_final(run)
    return record_outcome(run, run.decide(contenders) if contenders else None, keep=keep)


def record_outcome(run: StudyRun, decision: Decision | None, *, keep: bool = True) -> TuneResult:
    """The result of a decision, recorded in ledger and bank if `keep`; without one, a failure."""
    if decision is None:
        return _failed(run)
    result = _result(run, decision, decision.outcome())
    if _has_weaker_evidence(run, decision, result):
        result = _result(run, decision, TuneOutcome.KEPT)
    best = decision.chosen(result.status)
    if best.code:
        run.context.remember(best)
    if keep:
        _write(run, result, decision)
    return result


def _has_weaker_evidence(run: StudyRun, decision: Decision, result: TuneResult) -> bool:
    """Whether the bank's entry, which did not run here, has stronger evidence.

    An entry of a solver that is not loaded here always stays: nothing was compared with it.
    """
    held = run.entry
    if held is None or decision.met is not None or not decision.enters(result.status):
        return False
    if not is_known(held.solver):
        return True
    undated = replace(_entry(run, result, decision), created="")
    return stronger(held, undated) is held


def _result(run: StudyRun, decision: Decision, outcome: TuneOutcome) -> TuneResult:
    best = decision.chosen(outcome)
    timing = decision.timing(best)
    beside = ExtraTimings(run, best)
    untuned = beside.untuned(decision.contenders.untuned)
    speedup = replace(
        decision.speedup(best), untuned=untuned, as_called=beside.as_called(decision.vendors)
    )
    return TuneResult(
        solver=best.solver,
        status=outcome,
        best=best.candidate.config,
        speedup=speedup,
        time_ns=timing.time_ns,
        spread=timing.spread,
        default_ns=decision.default_ns(best),
        vendor_times_ns=decision.vendor_times_ns(best),
        peak_share=_share(run, timing.time_ns, run.context.peaks()),
        ties=tuple(tie.candidate.config for tie in decision.ties(best)),
        reason=decision.reason(outcome),
        code=_code(best),
        solvers=tuple(_score(search) for search in run.searches),
        untuned_ns=timing.time_ns * untuned.ratio if untuned else None,
        **_spent(run),
    )


def _failed(run: StudyRun) -> TuneResult:
    reasons = [trial.reason for trial in run.trials if trial.reason]
    why = f"no config ran; the last failed: {reasons[-1]}" if reasons else "no config ran in time"
    nan = float("nan")
    return TuneResult(
        solver=run.searches[0].name,
        status=TuneOutcome.FAILED,
        best=Config(),
        speedup=Speedup(Ratio(nan, nan, nan)),
        time_ns=nan,
        spread=nan,
        default_ns=nan,
        reason=why,
        **_spent(run),
    )


def _spent(run: StudyRun) -> dict[str, Any]:
    """The fields of a result about what was tuned and what it took."""
    now = run.context.clock()
    return {
        "problem": run.problem,
        "device": run.context.device.name,
        "device_class": run.context.device.class_key,
        "deployed": run.context.protocol.deployed,
        "pinned": run.options.pins,
        "trials": run.trials,
        "builds": run.evaluator.builds,
        "runs": run.evaluator.runs,
        "seconds": now - run.limit.started,
        "overhead": run.context.tracer.overhead(run.limit.started, now),
        "interrupted": run.limit.interrupted,
    }


def _score(search: SolverSearch) -> SolverScore:
    best = search.best if search.best < float("inf") else None
    return SolverScore(search.name, len(search.trials), best, search.study.searcher)


def _share(run: StudyRun, time_ns: float, peaks: Peaks) -> float | None:
    problem = run.problem
    operation = get(problem.operation)
    if operation.operation_class == "cube":
        peak = peaks.flops(problem.dtype) * run.context.device.units
        return operation.flops(problem) / time_ns * 1e9 / peak if peak else None
    moved = bytes_moved(problem)
    if run.context.device.kind != "cpu":
        peak = peaks.bandwidth(sys.maxsize)  # arrays come from memory, however small they are
        return moved / time_ns * 1e9 / peak if peak else None
    if run.context.device.units > 1:
        return None  # bandwidth was measured with one thread; cores share some of it
    read = sum(tensor.size for tensor in operation.inputs(problem))
    written = sum(tensor.size for tensor in outputs(problem))
    peak = peaks.bandwidth(moved, read / (read + written))
    return moved / time_ns * 1e9 / peak if peak else None


def _code(loaded: LoadedCandidate) -> KernelCode | None:
    if loaded.code is None:
        return None
    code = loaded.code
    return KernelCode(code.data, code.digest, code.symbol, code.abi, code.slots)


def _write(run: StudyRun, result: TuneResult, decision: Decision) -> None:
    enters = decision.enters(result.status)
    entry = _entry(run, result, decision)
    study = run.study_of(entry.solver)
    changes = keep_entry(run, entry, study, "banked" if enters else str(result.status), enters)
    if changes and changes.kept:
        log.warning(
            "the bank got an entry of %s with stronger evidence in the meantime, which stays",
            run.problem.key,
        )


def keep_entry(
    run: StudyRun, entry: BankEntry, study: Study, outcome: str, enters: bool
) -> Changes | None:
    """Record a decision with its entry in the ledger, and in the bank if it `enters`."""
    context = run.context
    with context.tracer.span("write the decision", "ledger"):
        context.ledger.add_decision(
            DecisionRecord(
                study.id,
                entry.problem,
                entry.device,
                entry.solver,
                Config(dict(entry.config)),
                outcome,
                entry.record(),
                entry.created,
            )
        )
        return context.bank.put(entry) if enters else None


def bank_entry(run: StudyRun, loaded: LoadedCandidate, origin: str, **measured: Any) -> BankEntry:
    """An entry of a candidate that runs here: its origin, toolchain and device, and `measured`."""
    context = run.context
    return BankEntry(
        problem=run.problem.key,
        device=context.device.class_key,
        device_name=context.device.name,
        solver=loaded.solver,
        solver_version=loaded.version,
        config=loaded.candidate.config,
        created=timestamp(utc_now()),
        protocol=context.protocol.key,
        toolchain=loaded.compiler,
        output=context.session.output_digest(loaded.kernel),
        origin=EntryOrigin.of(origin, context.device),
        launch=loaded.launch(context.target.compat_key),
        **measured,
    )


def _entry(run: StudyRun, result: TuneResult, decision: Decision) -> BankEntry:
    """The entry that the bank may hold: of the library that is faster, or of a built config."""
    vendor = decision.faster_vendor() if result.status is TuneOutcome.VENDOR else ""
    best = decision.kept(result.status)
    own = best is decision.chosen(result.status)
    timing, gains = decision.timing(best), decision.speedup(best)
    times = decision.vendor_times_ns(best)
    called = result.speedup.as_called if own and not vendor else None
    return bank_entry(
        run,
        decision.vendors[vendor] if vendor else best,
        "tune",
        kind=run.kind,
        time_ns=times[vendor] if vendor else timing.time_ns,
        default_ns=decision.default_ns(best),
        vendor_ns=times.get(gains.vendor_name),
        vendor=gains.vendor_name,
        speedup=gains.banked(),
        evidence=Evidence(
            {
                **decision_evidence(decision, result.status, run.context.device),
                "study": run.study_of(result.solver).id,
                "ties": [dict(config) for config in result.ties] if own else [],
                "as_called": called.to_json() if called else None,
                **({PINNED: run.options.pins} if run.options.pins else {}),
            }
        ),
    )


def decision_evidence(decision: Decision, outcome: TuneOutcome, device: Device) -> dict[str, Any]:
    """The evidence of an entry: the test, its samples, and what it replaced."""
    best, held = decision.kept(outcome), decision.contenders.held
    gains = decision.speedup(best)
    evidence = {
        "alpha": ALPHA,
        "min_effect": MIN_EFFECT,
        **timing_evidence(device, decision.timing(best)),
        OUTCOME: str(outcome),
        BASELINE: {"name": gains.baseline_name, **gains.baseline.to_json()},
    }
    if held and decision.met and decision.enters(outcome):
        renewed = ReplacementReason.STALE if decision.contenders.stale else ReplacementReason.AGAIN
        met = renewed if decision.renews(outcome) else decision.met
        evidence[REPLACED] = replacing(held, met)
    return evidence


def timing_evidence(device: Device, timing: Timing) -> dict[str, Any]:
    """The evidence of a time: its samples, and the device that they were taken on."""
    return {
        "samples": timing.samples,
        "set_aside": timing.set_aside,
        "spread": round(timing.spread, 6),
        **device_evidence(device, driver_release(device.kind)),
    }


class ExtraTimings:
    """Gains that are measured for reports and decide nothing."""

    def __init__(self, run: StudyRun, best: LoadedCandidate) -> None:
        self._run, self._best = run, best

    def untuned(self, plain: LoadedCandidate | None) -> Ratio | None:
        """The gain over plain loops; None if they were not asked for."""
        if plain is None or plain.cut_short:
            return None
        if plain.kernel == self._best.kernel:
            return UNITY
        return self._gain(self._best.kernel, plain.kernel)

    def as_called(self, vendors: Mapping[str, LoadedCandidate]) -> Ratio | None:
        """The gain over a library if both are called from Python.

        The library writes into an existing array (``out=``), and the kernel is bound to its
        arrays. None if calls are long, on GPUs, and without a library that is called from Python.
        """
        context, best = self._run.context, self._best
        library = next((loaded for name, loaded in vendors.items() if _from_python(name)), None)
        if context.device.kind != "cpu" or library is None or library.cut_short:
            return None
        if best.code is None or best.time_ns > self._run.limits.long_call_ns:
            return None
        return self._gain(context.session.add(replace(best.code, called=True)), library.kernel)

    def _gain(self, kernel: int, competitor: int) -> Ratio | None:
        confirmed = confirm(
            self._run.context.session,
            kernel,
            [competitor],
            self._run.limits.beside_pairs,
            self._run.limit.over,
            self._run.context.clock,
        )
        return confirmed.gains.get(competitor)


def _from_python(name: str) -> bool:
    solver = find_solver(name)
    return isinstance(solver, VendorSolver) and not isinstance(solver, NativeVendorSolver)
