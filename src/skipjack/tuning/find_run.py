"""A find: every solver of a problem is tried, the best config of each is ranked, and banked."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from skipjack.bank import FIND, REPLACED, BankEntry, Evidence, ReplacementReason, replacing
from skipjack.core import Candidate, Config, Problem, Status, Study
from skipjack.interrupt import Interrupt
from skipjack.solvers import needs_gpu
from skipjack.tuning.find_result import (
    NOT_APPLICABLE,
    NOT_TRIED,
    OK,
    FindResult,
    FindStatus,
    RankedSolver,
)
from skipjack.tuning.study import (
    LIMITS,
    ApplicableSolvers,
    Final,
    FindStrategy,
    Limits,
    LoadedCandidate,
    RankedCandidate,
    SolverSearch,
    StudyRun,
    TuneOptions,
    TuneResult,
    TuningContext,
    applicable_solvers,
    bank_entry,
    find_final,
    joined_blocks,
    keep_entry,
    mark_slow_competitors,
    noisy_competitors,
    outdated,
    rank,
    record_outcome,
    timing_evidence,
)


def keep_ranking(run: StudyRun, ranking: Sequence[RankedCandidate], result: FindResult) -> None:
    """Record a ranking, which must not be empty, in the ledger and the bank."""
    entry = _ranking_entry(run, ranking, result)
    keep_entry(run, entry, _study(run, ranking[0].loaded), "found", enters=True)


def _ranking_entry(
    run: StudyRun, ranking: Sequence[RankedCandidate], result: FindResult
) -> BankEntry:
    first, perf = ranking[0], result.perf
    time_ns = first.timing.time_ns
    # The decision is about the fastest built config; the first of the ranking may be a library.
    judged = perf if perf and _is_of(perf, first.loaded) and isfinite(perf.default_ns) else None
    return bank_entry(
        run,
        first.loaded,
        "find",
        kind=FIND,
        time_ns=time_ns,
        default_ns=judged.default_ns if judged else time_ns,
        vendor_ns=perf.vendor_ns if perf else None,
        vendor=perf.vendor if perf else "",
        speedup=judged.speedup.banked() if judged else {},
        evidence=Evidence(
            {
                "ranking": [
                    *(_row(run, place, result) for place in ranking),
                    *(_failure(solver) for solver in result.solvers if _has_failed(solver)),
                ],
                "ties": [place.loaded.solver for place in ranking if place.tie],
                **timing_evidence(run.context.device, first.timing),
                **_replaced(run),
            }
        ),
    )


def _is_of(perf: TuneResult, loaded: LoadedCandidate) -> bool:
    return (perf.solver, perf.best) == (loaded.solver, loaded.candidate.config)


def _replaced(run: StudyRun) -> dict[str, Any]:
    """The evidence about the bank's ranking that this replaces, if its first place took part."""
    held = run.ranking
    if held is None:
        return {}
    key = Candidate(run.problem, held.solver, Config(dict(held.config))).key
    if key in run.evaluator.failed:
        return {REPLACED: replacing(held, ReplacementReason.FAILED)}
    if key in run.evaluator.loaded or held.solver in run.vendors:
        return {REPLACED: replacing(held, ReplacementReason.AGAIN)}
    if run.ranked_first is None and outdated(held):
        return {REPLACED: replacing(held, ReplacementReason.OUTDATED)}
    return {}


def _row(run: StudyRun, place: RankedCandidate, result: FindResult) -> dict[str, Any]:
    """A solver's row of the ranking, with the study that has its trials."""
    loaded = place.loaded
    own = next((search.study.id for search in run.searches if search.name == loaded.solver), "")
    return {
        **result[loaded.solver].to_json(),
        "version": loaded.version,
        "set_aside": place.timing.set_aside,
        "study": own,
        "artifact": loaded.artifact_digest,
    }


def _has_failed(solver: RankedSolver) -> bool:
    return not solver.ok and solver.status not in (NOT_APPLICABLE, NOT_TRIED)


def _failure(solver: RankedSolver) -> dict[str, Any]:
    return {"solver": solver.solver, "status": solver.status, "reason": solver.reason}


def _study(run: StudyRun, first: LoadedCandidate) -> Study:
    """The study of the fastest solver; a library gets one only if nothing else took part."""
    if run.searches:
        return run.study_of(first.solver)
    context, options = run.context, run.options
    study = Study(
        run.problem,
        first.solver,
        context.device.class_key,
        "exhaustive",
        options.seed,
        f"{first.version}:",
        options.objective,
        context.protocol,
    )
    context.ledger.start_study(study, first.version)
    return study


def run_find(
    context: TuningContext,
    problem: Problem,
    options: TuneOptions,
    only: Sequence[str] = (),
    interrupt: Interrupt | None = None,
) -> FindResult:
    """Rank all solvers, or `only` some; then decide on the fastest config as a tuning does.

    A ranking of all solvers goes to the ledger and the bank unless it was interrupted.
    """
    applicable = applicable_solvers(problem, context.device, only)
    if not applicable.building and not applicable.vendors:
        reason = f"no solver can do {problem.key} on {context.device.name}"
        reason += ": only GPUs have solvers for it" if needs_gpu(problem, context.device) else ""
        refused = tuple(_refused(applicable))
        return FindResult(
            problem,
            context.device.name,
            FindStatus.NOT_APPLICABLE,
            refused,
            reason=reason,
            device_class=context.device.class_key,
        )
    chosen = options.completed(LIMITS, finding=True)
    strategy = FindStrategy(applicable.building, chosen.chosen_limits)
    run = StudyRun(context, problem, chosen, interrupt or Interrupt(), strategy)
    try:
        run.prepare()
        run.import_libraries(applicable.vendors)
        run.add_vendors(applicable.vendors)
        run.search()
        return rank_all(run, applicable, keep=not only)
    finally:
        run.close()


def rank_all(run: StudyRun, applicable: ApplicableSolvers, *, keep: bool = True) -> FindResult:
    """Hold the final of a search that has its libraries, and decide on its winner.

    The ranking is kept unless the search was interrupted, noise hides which solver is first, or
    `keep` is false because only some solvers are ranked.
    """
    solvers = [search.name for search in run.searches]
    final = find_final(run.evaluator, solvers, list(run.vendors.values()), run.budget.seconds)
    contenders = run.contenders(final)
    decision = None
    if contenders:
        mark_slow_competitors(contenders, run.limits)
        decision = run.decide(contenders)
    perf = record_outcome(run, decision) if run.searches else None
    timed = joined_blocks(final.blocks, decision.confirmation.blocks if decision else {})
    participants = _asked_for(final, run)
    ranking = rank(participants, timed, run.limits)
    if ranking and decision and perf:
        # Programs get the chosen config, which is not confirmed slower: rank its solver by it.
        first, chosen = ranking[0].loaded, decision.chosen(perf.status)
        if chosen is not first and chosen.solver == first.solver and chosen.kernel in timed:
            others = [one for one in participants if one.solver != chosen.solver]
            ranking = rank([chosen, *others], timed, run.limits)
    result = _result(run, applicable, ranking, perf)
    if ranking and keep and not result.interrupted and not noisy_competitors(ranking, run.limits):
        keep_ranking(run, ranking, result)
    return result


def _asked_for(final: Final, run: StudyRun) -> list[LoadedCandidate]:
    """The candidates of the solvers to rank; the bank's may be of another solver."""
    names = {*run.vendors, *(search.name for search in run.searches)}
    return [loaded for loaded in final.participants if loaded.solver in names]


def _result(
    run: StudyRun,
    applicable: ApplicableSolvers,
    ranking: Sequence[RankedCandidate],
    perf: TuneResult | None,
) -> FindResult:
    ranked = [_ranked(place, run) for place in ranking]
    there = {solver.solver for solver in ranked}
    failed = [_failed(search, run) for search in run.searches if search.name not in there]
    failed += [
        RankedSolver(name, str(Status.ERROR), reason=reason)
        for name, reason in run.unusable.items()
    ]
    failed += [_failed_library(v.name, run) for v in applicable.vendors if v.name not in there]
    return FindResult(
        run.problem,
        run.context.device.name,
        FindStatus.OK if ranked else FindStatus.FAILED,
        (*ranked, *failed, *_refused(applicable)),
        perf,
        run.context.clock() - run.limit.started,
        _reason(ranking, run.limits),
        run.limit.interrupted,
        run.context.device.class_key,
    )


def _reason(ranking: Sequence[RankedCandidate], limits: Limits) -> str:
    if not ranking:
        return "no solver ran"
    competitors = [place.loaded.solver for place in noisy_competitors(ranking, limits)]
    if not competitors:
        return ""
    return (
        f"noisy: other programs disturbed the rounds of {', '.join(competitors)}, so the ranking "
        "was not kept; close them, or give more --seconds"
    )


def _ranked(place: RankedCandidate, run: StudyRun) -> RankedSolver:
    loaded, timing = place.loaded, place.timing
    trials = {search.name: len(search.trials) for search in run.searches}
    once = "one call, far behind, and not repeated" if place.alone else ""
    once = once or ("noisy" if place.behind.noisy else "")
    return RankedSolver(
        loaded.solver,
        OK,
        timing.time_ns,
        loaded.workspace_bytes,
        loaded.candidate.config,
        timing.spread,
        timing.samples,
        place.behind,
        place.tie,
        trials.get(loaded.solver, 0),
        once,
    )


def _failed(search: SolverSearch, run: StudyRun) -> RankedSolver:
    """A solver of which nothing ran, with the reason of its last failure."""
    failures: list[tuple[str, str]] = [(NOT_TRIED, "the find ended before its turn")]
    failures += [(trial.status, trial.reason) for trial in search.known if trial.status.failed]
    if search.name in run.evaluator.failures:
        failures.append(run.evaluator.failures[search.name])
    if search.broken:
        failures.append((Status.ERROR, search.broken))
    status, reason = failures[-1]
    return RankedSolver(search.name, str(status), trials=len(search.trials), reason=reason)


def _failed_library(name: str, run: StudyRun) -> RankedSolver:
    status, reason = run.evaluator.failures.get(name, (Status.ERROR, "it was not timed"))
    return RankedSolver(name, str(status), reason=reason)


def _refused(applicable: ApplicableSolvers) -> list[RankedSolver]:
    return [
        RankedSolver(name, NOT_APPLICABLE, reason=reason)
        for name, reason in applicable.refused.items()
    ]
