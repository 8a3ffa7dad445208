"""The verdict on a search: confirmed on fresh samples, written to the ledger, kept in the bank."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace

from skipjack.bank import (
    BASELINE,
    REPLACED,
    BankEntry,
    EntryOrigin,
    Evidence,
    Met,
    replacing,
    stronger,
)
from skipjack.bank.evidence import device_evidence
from skipjack.core.config import Config
from skipjack.core.device import Peaks
from skipjack.execute.confirm import ALPHA, MIN_EFFECT, Confirmation, confirm
from skipjack.execute.session import Loadable
from skipjack.execute.statistics import Ratio
from skipjack.gpu.opening import driver_release
from skipjack.ledger import OUTCOME, VerdictRecord
from skipjack.operations import bytes_moved, get, outputs
from skipjack.runtime import KernelCode
from skipjack.solvers import find_solver, names, vendors_for
from skipjack.solvers.solver import NativeVendorSolver, VendorSolver
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.decision import Decision, rivals_of
from skipjack.tuning.evaluator import LoadedCandidate
from skipjack.tuning.final import tune_final
from skipjack.tuning.result import Outcome, SolverScore, Speedup, TuneResult
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.study_run import SearchSummary, StudyRun

log = logging.getLogger(__name__)


def finish_tuning(run: StudyRun) -> SearchSummary:
    """Hold the final, and take the libraries in that the winner has to beat."""
    final = tune_final(run.evaluator, run.outsider)
    run.add_vendors(vendors_for(run.problem, run.context.device))
    return run.summary(final.winner, final.ties)


def conclude(run: StudyRun, summary: SearchSummary) -> TuneResult:
    """Confirm the winner against the incumbent and the vendors, and write the outcome down."""
    return judge(run, summary, confirm_winner(run, summary))


def verify_only(run: StudyRun) -> TuneResult:
    """Times one given config beside the libraries; stores no verdict."""
    summary = finish_tuning(run)
    return judge(run, summary, confirm_winner(run, summary), keep=False)


def confirm_winner(run: StudyRun, summary: SearchSummary) -> Confirmation:
    """Time the winner beside what it has to beat; nothing where there is none, or it fails now."""
    winner = summary.winner
    if winner is None:
        return Confirmation({}, {})
    return summary.evaluator.confirm(winner, rivals_of(winner, summary), run.limit.over)


def judge(
    run: StudyRun, summary: SearchSummary, confirmation: Confirmation, *, keep: bool = True
) -> TuneResult:
    """The outcome, written to the ledger and the bank if it is to be kept."""
    winner = summary.winner
    if winner is None or winner.kernel not in confirmation.blocks:
        return _failed(run, summary)
    met = run.met(summary, confirmation)
    decision = Decision(run, summary, winner, summary.default, confirmation, met)
    result = _result(decision, decision.outcome(), run.context.peaks())
    if _is_outdone(decision, result):
        result = _result(decision, Outcome.KEPT, run.context.peaks())
    best = decision.chosen(result.status)
    if best.artifact_digest:
        run.context.remember(best)
    if keep:
        _write(run, result, decision)
    return result


def _is_outdone(decision: Decision, result: TuneResult) -> bool:
    """Whether the bank's entry, which did not run here, has stronger evidence.

    One of a solver that is not loaded here stays in any case: nobody has met it.
    """
    held = decision.run.entry
    if held is None or decision.met is not None or not decision.enters(result.status):
        return False
    if held.solver not in names():
        return True
    return stronger(held, _entry(decision.run, result, decision, "")) is held


def _result(decision: Decision, outcome: Outcome, peaks: Peaks) -> TuneResult:
    run, problem = decision.run, decision.run.problem
    operation = get(problem.operation)
    best = decision.chosen(outcome)
    default = decision.default_or(best)
    timing = decision.timing(best)
    times = {name: decision.rival_ns(best, r) for name, r in decision.vendors.items()}
    beside = Beside(run, best)
    untuned = beside.untuned(decision.summary.untuned)
    speedup = Speedup(
        decision.gain(best, default),
        {name: decision.gain(best, r) for name, r in decision.vendors.items()},
        untuned,
        beside.as_called(decision.vendors),
    )
    now = run.context.clock()
    return TuneResult(
        problem=problem,
        device=run.context.device.name,
        solver=best.candidate.solver,
        status=outcome,
        best=best.candidate.config,
        trials=decision.summary.trials,
        speedup=speedup,
        time_ns=timing.time_ns,
        spread=timing.spread,
        default_ns=decision.rival_ns(best, default),
        vendor_ns=times.get(speedup.vendor_name),
        vendor_times_ns=times,
        builds=decision.summary.evaluator.builds,
        runs=decision.summary.evaluator.runs,
        seconds=now - run.limit.started,
        overhead=run.context.tracer.overhead(run.limit.started, now),
        flops=operation.flops(problem),
        bytes_moved=bytes_moved(problem),
        peak_share=_share(run, timing.time_ns, peaks),
        operation_class=operation.operation_class,
        ties=tuple(tie.candidate.config for tie in decision.ties(best)),
        reason=decision.reason(outcome),
        interrupted=decision.summary.interrupted,
        code=_code(best),
        solvers=tuple(_score(search) for search in run.searches),
        untuned_ns=timing.time_ns * untuned.ratio if untuned else None,
    )


def _score(search: SolverSearch) -> SolverScore:
    return SolverScore(
        search.name, len(search.trials), search.best if search.best < float("inf") else None
    )


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


def _code(loaded: LoadedCandidate) -> KernelCode:
    return KernelCode(loaded.code, loaded.artifact_digest, loaded.symbol, loaded.abi, loaded.slots)


def _failed(run: StudyRun, summary: SearchSummary) -> TuneResult:
    problem = run.problem
    operation = get(problem.operation)
    reasons = [trial.reason for trial in summary.trials if trial.reason]
    why = f"no config ran; the last one said: {reasons[-1]}" if reasons else "no config ran in time"
    now = run.context.clock()
    nan = float("nan")
    return TuneResult(
        problem=problem,
        device=run.context.device.name,
        solver=run.searches[0].name,
        status=Outcome.FAILED,
        best=Config(),
        trials=summary.trials,
        speedup=Speedup(Ratio(nan, nan, nan)),
        time_ns=nan,
        spread=nan,
        default_ns=nan,
        vendor_ns=None,
        vendor_times_ns={},
        builds=summary.evaluator.builds,
        runs=summary.evaluator.runs,
        seconds=now - run.limit.started,
        overhead=run.context.tracer.overhead(run.limit.started, now),
        flops=operation.flops(problem),
        bytes_moved=bytes_moved(problem),
        peak_share=None,
        operation_class=operation.operation_class,
        reason=why,
        interrupted=summary.interrupted,
    )


def _write(run: StudyRun, result: TuneResult, decision: Decision) -> None:
    context = run.context
    now = timestamp(utc_now())
    enters = decision.enters(result.status)
    output = context.session.output_digest(_banked(result, decision).kernel)
    entry = replace(_entry(run, result, decision, now), output=output)
    with context.tracer.span("write the verdict", "ledger"):
        context.ledger.add_verdict(
            VerdictRecord(
                run.study_of(entry.solver).id,
                run.problem.key,
                context.device.class_key,
                entry.solver,
                Config(dict(entry.config)),
                "banked" if enters else str(result.status),
                entry.record(),
                now,
            )
        )
        if enters and context.bank.put(entry).kept:
            log.warning(
                "meanwhile the bank was given an entry of %s with stronger evidence, which stays",
                run.problem.key,
            )


def _banked(result: TuneResult, decision: Decision) -> LoadedCandidate:
    """What the bank may hold, a library perhaps."""
    if result.status is Outcome.VENDOR:
        return decision.summary.vendors[decision.faster_vendor()]
    return decision.kept(result.status)


def _entry(run: StudyRun, result: TuneResult, decision: Decision, now: str) -> BankEntry:
    """Of what the bank may hold; a library's has no config."""
    context = run.context
    vendor = decision.faster_vendor() if result.status is Outcome.VENDOR else ""
    best = decision.kept(result.status)
    loaded = _banked(result, decision)
    own = best is decision.chosen(result.status)
    timing = decision.timing(best)
    replaced = {}
    if run.entry and decision.met and decision.enters(result.status):
        met = Met.STALE if decision.renews(result.status) else decision.met
        replaced = {REPLACED: replacing(run.entry, met)}
    default = decision.default_or(best)
    gains = Speedup(
        decision.gain(best, default),
        {name: decision.gain(best, r) for name, r in decision.vendors.items()},
        as_called=result.speedup.as_called if own and not vendor else None,
    )
    times = {name: decision.rival_ns(best, r) for name, r in decision.vendors.items()}
    speedup = {"default": gains.default.to_json()}
    if gains.vendor:
        speedup["vendor"] = gains.vendor.to_json()
    return BankEntry(
        problem=run.problem.key,
        device=context.device.class_key,
        device_name=context.device.name,
        solver=loaded.solver,
        solver_version=loaded.version,
        config={} if vendor else dict(best.candidate.config),
        time_ns=times[vendor] if vendor else timing.time_ns,
        default_ns=decision.rival_ns(best, default),
        vendor_ns=times.get(gains.vendor_name),
        vendor=gains.vendor_name,
        speedup=speedup,
        evidence=Evidence(
            {
                "alpha": ALPHA,
                "min_effect": MIN_EFFECT,
                "samples": timing.samples,
                "set_aside": timing.set_aside,
                "spread": round(timing.spread, 6),
                OUTCOME: str(result.status),
                **device_evidence(context.device, driver_release(context.device.kind)),
                "study": run.study_of(result.solver).id,
                "ties": [dict(config) for config in result.ties] if own else [],
                BASELINE: {"name": gains.baseline_name, **gains.baseline.to_json()},
                "as_called": gains.as_called.to_json() if gains.as_called else None,
                **replaced,
            }
        ),
        created=now,
        protocol=context.protocol.key,
        toolchain=loaded.compiler,
        origin=EntryOrigin.of("tune", context.device),
        launch=loaded.launch(context.target.compat_key),
    )


class Beside:
    """Times one kernel beside others, for a person to read."""

    def __init__(self, run: StudyRun, best: LoadedCandidate) -> None:
        self._run, self._best = run, best

    def untuned(self, plain: LoadedCandidate | None) -> Ratio | None:
        """The gain over plain loops; None where they are not asked for."""
        if plain is None or plain.cut_short:
            return None
        if plain.kernel == self._best.kernel:
            return Ratio(1.0, 1.0, 1.0)
        return self._gain(self._best.kernel, plain.kernel)

    def as_called(self, vendors: Mapping[str, LoadedCandidate]) -> Ratio | None:
        """The gain over a library that is called from Python, for who calls both from Python.

        The library writes into an array that is there (``out=``), and the kernel was bound to its
        arrays. None where calls are long, on GPUs, and where no library is called from Python.
        """
        context, best = self._run.context, self._best
        library = next((loaded for name, loaded in vendors.items() if _from_python(name)), None)
        if context.device.kind != "cpu" or library is None or library.cut_short:
            return None
        if not best.artifact_digest or best.time_ns > self._run.limits.long_call_ns:
            return None
        code = Loadable(
            best.code, best.artifact_digest, best.symbol, best.abi, best.slots, called=True
        )
        return self._gain(context.session.add(code), library.kernel)

    def _gain(self, kernel: int, rival: int) -> Ratio | None:
        confirmed = confirm(
            self._run.context.session,
            kernel,
            [rival],
            self._run.limits.beside_pairs,
            self._run.limit.over,
            self._run.context.clock,
        )
        return confirmed.gains.get(rival)


def _from_python(name: str) -> bool:
    solver = find_solver(name)
    return isinstance(solver, VendorSolver) and not isinstance(solver, NativeVendorSolver)
