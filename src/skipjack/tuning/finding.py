"""A find: every solver of a problem is tried, the best of each is ranked, the ranking is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Any

from skipjack.bank import FIND, REPLACED, BankEntry, Evidence, Met, replacing
from skipjack.core.config import Config, settings_text
from skipjack.core.problem import Problem
from skipjack.core.study import Study
from skipjack.core.trial import Candidate, Status
from skipjack.errors import UsageError
from skipjack.execute.confirm import MIN_EFFECT
from skipjack.execute.statistics import Ratio
from skipjack.interrupt import Interrupt
from skipjack.json_formats import FORMATS
from skipjack.solvers import for_gpus_alone
from skipjack.tuning.applicable_solvers import ApplicableSolvers, applicable_solvers, compared
from skipjack.tuning.context import TuningContext
from skipjack.tuning.final import (
    Final,
    RankedCandidate,
    find_final,
    joined,
    rank,
    spare,
    unclear,
)
from skipjack.tuning.limits import LIMITS, Limits
from skipjack.tuning.loaded_candidate import LoadedCandidate
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.result import Outcome, TuneResult, nanoseconds, rounded
from skipjack.tuning.solver_search import SolverSearch
from skipjack.tuning.starting_points import outdated
from skipjack.tuning.strategy import FindStrategy
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.verdict import entry_of, judge, keep_entry, timing_evidence

if TYPE_CHECKING:
    from skipjack.runtime import GpuKernel, TunedKernel

NOT_APPLICABLE = "not_applicable"
"""The status of a solver that cannot do the problem."""
NOT_TRIED = "not_tried"
"""The status of one whose turn did not come before Ctrl-C."""
OK = "ok"


class FindStatus(StrEnum):
    """How a find ended."""

    OK = "ok"  # something ran and is ranked
    FAILED = "failed"  # nothing ran
    NOT_APPLICABLE = "not_applicable"  # no solver can do the problem here


@dataclass(frozen=True, slots=True)
class RankedSolver:
    """How one solver did with the best config that is known of it."""

    solver: str
    status: str
    """``ok``, a failed trial's status, ``not_applicable`` or ``not_tried``."""
    time_ns: float | None = None
    workspace_bytes: int | None = None
    config: Config = field(default_factory=Config)
    spread: float | None = None
    samples: int = 0
    behind: Ratio | None = None
    """How many times slower than the first it is."""
    tie: bool = False
    """It cannot be told from the first."""
    trials: int = 0
    """In this run."""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it has a time."""
        return self.status == OK

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
        return {
            "solver": self.solver,
            "time_ns": rounded(self.time_ns),
            "workspace_bytes": self.workspace_bytes,
            "config": dict(self.config),
            "status": self.status,
            "spread": rounded(self.spread, 5),
            "samples": self.samples,
            "behind": self.behind.to_json() if self.behind else None,
            "tie": self.tie,
            "trials": self.trials,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class FindResult:
    """The solvers of a problem: those that ran, fastest first, those that failed, the others."""

    problem: Problem
    device: str
    status: FindStatus
    solvers: tuple[RankedSolver, ...]
    perf: TuneResult | None = None
    """The verdict on the fastest config that was built, as a tuning gives it."""
    seconds: float = 0.0
    reason: str = ""
    interrupted: bool = False
    device_class: str = ""
    """The class key of the device."""

    def __repr__(self) -> str:
        where, ranked = f"{self.problem.key} on {self.device}: {self.status}", self.ranked
        if not ranked:
            return f"<FindResult {where}, {self.reason}>"
        first = f"{ranked[0].solver} first with {nanoseconds(ranked[0].time_ns)}"
        return f"<FindResult {where}, {len(ranked)} ranked, {first}>"

    @property
    def ranked(self) -> tuple[RankedSolver, ...]:
        """Those that have a time, fastest first."""
        return tuple(solver for solver in self.solvers if solver.ok)

    def __getitem__(self, solver: str) -> RankedSolver:
        """How this solver did."""
        for one in self.solvers:
            if one.solver == solver:
                return one
        raise KeyError(solver)

    @property
    def remark(self) -> str:
        """Why the first of the ranking is not what the verdict is about; empty if it is."""
        perf, ranked = self.perf, self.ranked
        if perf is None or perf.status is Outcome.FAILED or not ranked:
            return ""
        first = ranked[0]
        if first.solver == perf.solver and first.config == perf.best:
            return ""
        if not first.config and not compared(first.solver):
            return f"{first.solver} is ranked for reference only"
        if perf.status is Outcome.VENDOR:
            return ""
        if any(one.tie and one.solver == perf.solver for one in ranked):
            return f"{first.solver} and {perf.solver} are tied; their order is not significant"
        return (
            f"{first.solver} is first, but it is not confirmed to be more than {MIN_EFFECT:.0%} "
            f"faster than {perf.solver} with {settings_text(perf.best)}"
        )

    def kernel(self) -> TunedKernel | GpuKernel:
        """The fastest config that was built, as a function of arrays where it runs."""
        if self.perf is None:
            raise UsageError(f"there is no kernel of {self.problem.key}: nothing was built")
        return self.perf.kernel()

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
        perf = self.perf
        return {
            "format": FORMATS["find"],
            "problem": self.problem.key,
            "device": self.device,
            "device_class": self.device_class,
            "status": str(self.status),
            "solvers": [solver.to_json() for solver in self.solvers],
            "verdict": _verdict_json(perf) if perf else None,
            "remark": self.remark,
            "trials": len(perf.trials) if perf else 0,
            "failed": sum(trial.status.failed for trial in perf.trials) if perf else 0,
            "failed_by_status": perf.failed_by_status if perf else {},
            "builds": perf.builds if perf else 0,
            "runs": perf.runs if perf else 0,
            "seconds": rounded(self.seconds),
            "interrupted": self.interrupted,
            "reason": self.reason,
        }


def _verdict_json(perf: TuneResult) -> Mapping[str, Any]:
    """What the bank says of the fastest config that was built."""
    return {
        "status": str(perf.status),
        "solver": perf.solver,
        "config": dict(perf.best),
        "time_ns": rounded(perf.time_ns),
        "default_ns": rounded(perf.default_ns),
        "baseline": perf.baseline,
        "baseline_ns": rounded(perf.baseline_ns),
        "speedup": rounded(perf.speedup.baseline.ratio, 4),
        "speedups": perf.speedup.to_json(),
        "vendor": perf.vendor,
        "vendor_ns": rounded(perf.vendor_ns),
        "as_called": perf.speedup.as_called.to_json() if perf.speedup.as_called else None,
        "reason": perf.reason,
    }


def keep_ranking(run: StudyRun, ranking: Sequence[RankedCandidate], result: FindResult) -> None:
    """Write a ranking down; it must have a first place."""
    entry = _ranking_entry(run, ranking, result)
    keep_entry(run, entry, _study(run, ranking[0].loaded), "found", enters=True)


def _ranking_entry(
    run: StudyRun, ranking: Sequence[RankedCandidate], result: FindResult
) -> BankEntry:
    first, perf = ranking[0], result.perf
    time_ns = first.timing.time_ns
    # The verdict is of the fastest that was built and confirmed; the first may be a library.
    judged = perf if perf and _is_of(perf, first.loaded) and isfinite(perf.default_ns) else None
    return entry_of(
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
    """What is said of the ranking that the bank holds, if its first place took part again."""
    held = run.ranking
    if held is None:
        return {}
    key = Candidate(run.problem, held.solver, Config(dict(held.config))).key
    if key in run.evaluator.failed:
        return {REPLACED: replacing(held, Met.FAILED)}
    if key in run.evaluator.loaded or held.solver in run.vendors:
        return {REPLACED: replacing(held, Met.AGAIN)}
    if run.ranked_first is None and outdated(held):
        return {REPLACED: replacing(held, Met.OUTDATED)}
    return {}


def _row(run: StudyRun, place: RankedCandidate, result: FindResult) -> dict[str, Any]:
    """How a solver did, and where the trials are that led to it."""
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
    """The study of the fastest; a library has none of its own unless nothing else took part."""
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
    """Rank all solvers, or `only` some; then judge the fastest config as a tuning does.

    A ranking of all of them, unless it was interrupted, goes to the ledger and the bank.
    """
    applicable = applicable_solvers(problem, context.device, only)
    if not applicable.building and not applicable.vendors:
        reason = f"no solver can do {problem.key} on {context.device.name}"
        reason += ": it is for GPUs" if for_gpus_alone(problem, context.device) else ""
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
    """Hold the final of a search whose libraries are in, and judge its winner.

    The ranking is kept unless the search was interrupted, noise hides who is first, or `keep` says
    that it is of some only.
    """
    solvers = [search.name for search in run.searches]
    final = find_final(run.evaluator, solvers, list(run.vendors.values()), run.budget.seconds)
    contenders = run.contenders(final)
    decision = None
    if contenders:
        spare(contenders, run.limits)
        decision = run.decide(contenders)
    perf = judge(run, decision) if run.searches else None
    timed = joined(final.blocks, decision.confirmation.blocks if decision else {})
    everyone = _asked_for(final, run)
    ranking = rank(everyone, timed, run.limits)
    if ranking and decision and perf:
        # It is not confirmed to be slower, and programs get it: its solver is ranked by it.
        first, chosen = ranking[0].loaded, decision.chosen(perf.status)
        if chosen is not first and chosen.solver == first.solver and chosen.kernel in timed:
            others = [one for one in everyone if one.solver != chosen.solver]
            ranking = rank([chosen, *others], timed, run.limits)
    result = _result(run, applicable, ranking, perf)
    if ranking and keep and not result.interrupted and not unclear(ranking, run.limits):
        keep_ranking(run, ranking, result)
    return result


def _asked_for(final: Final, run: StudyRun) -> list[LoadedCandidate]:
    """What the bank held may be of a solver that is not to be ranked."""
    names = {*run.vendors, *(search.name for search in run.searches)}
    return [loaded for loaded in final.everyone if loaded.solver in names]


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
    rivals = [place.loaded.solver for place in unclear(ranking, limits)]
    if not rivals:
        return ""
    return (
        f"noisy: other programs disturbed the rounds of {', '.join(rivals)}, so the ranking was "
        "not kept; close them, or give more --seconds"
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
    """One of which nothing ran; the reason is its last."""
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
