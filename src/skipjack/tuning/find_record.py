"""A ranking as it is kept: a verdict in the ledger, an entry of kind ``find`` in the bank."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from skipjack.bank import FIND, REPLACED, BankEntry, Evidence, Met, Origin, replacing
from skipjack.bank.evidence import device_evidence
from skipjack.core.config import Config
from skipjack.core.study import Study
from skipjack.core.trial import Candidate
from skipjack.ledger import VerdictRecord
from skipjack.storage import timestamp, utc_now
from skipjack.tuning.find_result import FindResult, RankedSolver
from skipjack.tuning.incumbent import outdated
from skipjack.tuning.ranking import Place
from skipjack.tuning.result import TuneResult
from skipjack.tuning.study_run import StudyRun


def keep_ranking(run: StudyRun, places: Sequence[Place], result: FindResult) -> None:
    """Write a ranking down; it must have a first place."""
    shop, first = run.shop, places[0].runner
    entry = _entry(run, places, result)
    verdict = VerdictRecord(
        _study(run, places[0]).id,
        run.problem.key,
        shop.device.class_key,
        first.solver,
        first.candidate.config,
        "found",
        entry.record(),
        entry.created,
    )
    with shop.tracer.span("write the ranking", "ledger"):
        shop.ledger.add_verdict(verdict)
        shop.bank.put(entry)


def _entry(run: StudyRun, places: Sequence[Place], result: FindResult) -> BankEntry:
    shop, first, perf = run.shop, places[0], result.perf
    time_ns = first.timing.time_ns
    # The verdict is of the fastest that was built and confirmed; the first may be a library.
    same = perf is not None and (perf.solver, perf.best) == (
        first.runner.solver,
        first.runner.candidate.config,
    )
    judged = perf is not None and same and isfinite(perf.default_ns)
    return BankEntry(
        problem=run.problem.key,
        device=shop.device.class_key,
        device_name=shop.device.name,
        solver=first.runner.solver,
        solver_version=first.runner.version,
        config=first.runner.candidate.config,
        time_ns=time_ns,
        default_ns=perf.default_ns if perf and judged else time_ns,
        vendor_ns=perf.vendor_ns if perf else None,
        vendor=perf.vendor if perf else "",
        speedup=_speedup(perf) if perf and judged else {},
        evidence=Evidence(
            {
                "ranking": [
                    *(_row(run, place, result) for place in places),
                    *(_failure(solver) for solver in result.solvers if _has_failed(solver)),
                ],
                "ties": [place.runner.solver for place in places if place.tie],
                "samples": first.timing.samples,
                "set_aside": first.timing.set_aside,
                "spread": round(first.timing.spread, 6),
                **device_evidence(shop.device),
                **_replaced(run),
            }
        ),
        created=timestamp(utc_now()),
        kind=FIND,
        protocol=shop.protocol.key,
        toolchain=first.runner.compiler,
        origin=Origin.of("find", shop.device),
        launch=first.runner.launch(shop.target.compat_key),
    )


def _replaced(run: StudyRun) -> dict[str, Any]:
    """What is said of the ranking that the bank holds, if its first place took part again."""
    held = run.ranking
    if held is None:
        return {}
    key = Candidate(run.problem, held.solver, Config(dict(held.config))).key
    if key in run.contest.failed:
        return {REPLACED: replacing(held, Met.FAILED)}
    if key in run.contest.runners or held.solver in run.vendors:
        return {REPLACED: replacing(held, Met.AGAIN)}
    if run.ranked_first is None and outdated(held):
        return {REPLACED: replacing(held, Met.OUTDATED)}
    return {}


def _row(run: StudyRun, place: Place, result: FindResult) -> dict[str, Any]:
    """How a solver did, and where the trials are that led to it."""
    runner = place.runner
    own = next((arm.study.id for arm in run.arms if arm.name == runner.solver), "")
    return {
        **result[runner.solver].to_json(),
        "version": runner.version,
        "set_aside": place.timing.set_aside,
        "study": own,
        "artifact": runner.artifact_digest,
    }


def _has_failed(solver: RankedSolver) -> bool:
    return not solver.ok and solver.status not in ("not_applicable", "not_tried")


def _failure(solver: RankedSolver) -> dict[str, Any]:
    return {"solver": solver.solver, "status": solver.status, "reason": solver.reason}


def _speedup(perf: TuneResult) -> dict[str, Any]:
    gains = {"default": perf.speedup.default, "vendor": perf.speedup.vendor}
    return {name: gain.to_json() for name, gain in gains.items() if gain}


def _study(run: StudyRun, first: Place) -> Study:
    """The study of the fastest; a library has none of its own unless nothing else took part."""
    if run.arms:
        return run.study_of(first.runner.solver)
    shop, options = run.shop, run.options
    study = Study(
        run.problem,
        first.runner.solver,
        shop.device.class_key,
        "exhaustive",
        options.seed,
        f"{first.runner.version}:",
        options.objective,
        shop.protocol,
    )
    shop.ledger.start_study(study, first.runner.version)
    return study
