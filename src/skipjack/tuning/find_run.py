"""One find: every solver of a problem is tried, the best of each is ranked, the ranking is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate, Status
from skipjack.interrupt import Interrupt
from skipjack.solvers import for_gpus_alone
from skipjack.tuning.arm import Arm
from skipjack.tuning.context import TuningContext
from skipjack.tuning.find_final import Final, hold_find_final, spare
from skipjack.tuning.find_record import keep_ranking
from skipjack.tuning.find_result import (
    NOT_APPLICABLE,
    NOT_TRIED,
    OK,
    FindResult,
    FindStatus,
    RankedSolver,
)
from skipjack.tuning.find_rules import FindRules
from skipjack.tuning.lineup import Lineup, line_up
from skipjack.tuning.options import TuneOptions
from skipjack.tuning.ranking import Place, joined, rank, unclear
from skipjack.tuning.result import TuneResult
from skipjack.tuning.runner import Runner
from skipjack.tuning.study_run import Standing, StudyRun
from skipjack.tuning.verdict import confirm_winner, judge


def run_find(
    shop: TuningContext,
    problem: Problem,
    options: TuneOptions,
    only: Sequence[str] = (),
    interrupt: Interrupt | None = None,
) -> FindResult:
    """Rank all solvers, or `only` some; then judge the fastest config as a tuning does.

    A ranking of all of them, unless it was interrupted, goes to the ledger and the bank.
    """
    lineup = line_up(problem, shop.device, only)
    if not lineup.building and not lineup.vendors:
        reason = f"no solver can do {problem.key} on {shop.device.name}"
        reason += ": it is for GPUs" if for_gpus_alone(problem, shop.device) else ""
        refused = tuple(_refused(lineup))
        return FindResult(
            problem, shop.device.name, FindStatus.NOT_APPLICABLE, refused, reason=reason
        )
    run = StudyRun(shop, problem, options, interrupt or Interrupt(), FindRules(lineup.building))
    try:
        run.prepare()
        run.import_libraries(lineup.vendors)
        run.add_vendors(lineup.vendors)
        run.search()
        return rank_all(run, lineup, keep=not only)
    finally:
        run.close()


def rank_all(run: StudyRun, lineup: Lineup, *, keep: bool = True) -> FindResult:
    """Hold the final of a search whose libraries are in, and judge its winner.

    The ranking is kept unless the search was interrupted, noise hides who is first, or `keep` says
    that it is of some only.
    """
    solvers = [arm.name for arm in run.arms]
    vendors, seconds = list(run.vendors.values()), run.options.budget.seconds
    final = hold_find_final(run.contest, solvers, vendors, seconds)
    standing = run.standing(final.winner, final.ties)
    if final.winner:
        spare(final.winner, [standing.default, standing.incumbent, *standing.vendors.values()])
    confirmation = confirm_winner(run, standing)
    perf = judge(run, standing, confirmation) if run.arms else None
    timed = joined(final.blocks, confirmation.blocks)
    runners = _asked_for(final, run)
    places = rank(runners, timed)
    if places and (chosen := _preferred(places[0].runner, perf, standing, timed)):
        places = rank([chosen, *(r for r in runners if r.solver != chosen.solver)], timed)
    result = _result(run, lineup, places, perf)
    if places and keep and not result.interrupted and not unclear(places):
        keep_ranking(run, places, result)
    return result


def _preferred(
    first: Runner, perf: TuneResult | None, standing: Standing, timed: Mapping[int, object]
) -> Runner | None:
    """What the verdict chose of the first one's solver, if that is another config that was timed.

    It is not confirmed to be slower, and it is what programs get: its solver is ranked by it.
    """
    if perf is None or (perf.solver, perf.best) == (first.solver, first.candidate.config):
        return None
    if perf.solver != first.solver:
        return None
    wanted = Candidate(perf.problem, perf.solver, perf.best)
    known = (standing.winner, standing.default, standing.incumbent)
    there = (one for one in known if one is not None and one.kernel in timed)
    return next((one for one in there if one.candidate == wanted), None)


def _asked_for(final: Final, run: StudyRun) -> list[Runner]:
    """What the bank held may be of a solver that is not to be ranked."""
    names = {*run.vendors, *(arm.name for arm in run.arms)}
    return [runner for runner in final.runners if runner.solver in names]


def _result(
    run: StudyRun, lineup: Lineup, places: Sequence[Place], perf: TuneResult | None
) -> FindResult:
    ranked = [_ranked(place, run) for place in places]
    there = {solver.solver for solver in ranked}
    failed = [_failed(arm, run) for arm in run.arms if arm.name not in there]
    failed += [
        RankedSolver(name, str(Status.ERROR), reason=reason)
        for name, reason in run.unusable.items()
    ]
    failed += [_failed_library(v.name, run) for v in lineup.vendors if v.name not in there]
    return FindResult(
        run.problem,
        run.shop.device.name,
        FindStatus.OK if ranked else FindStatus.FAILED,
        (*ranked, *failed, *_refused(lineup)),
        perf,
        run.shop.clock() - run.limit.started,
        _reason(places),
        run.limit.interrupted,
    )


def _reason(places: Sequence[Place]) -> str:
    if not places:
        return "no solver ran"
    rivals = [place.runner.solver for place in unclear(places)]
    if not rivals:
        return ""
    return (
        f"noisy: other programs disturbed the rounds of {', '.join(rivals)}, so the ranking was "
        "not kept; close them, or give more --seconds"
    )


def _ranked(place: Place, run: StudyRun) -> RankedSolver:
    runner, timing = place.runner, place.timing
    trials = {arm.name: len(arm.trials) for arm in run.arms}
    once = "one call, far behind, and not repeated" if place.alone else ""
    once = once or ("noisy" if place.behind.noisy else "")
    return RankedSolver(
        runner.solver,
        OK,
        timing.time_ns,
        runner.workspace_bytes,
        runner.candidate.config,
        timing.spread,
        timing.samples,
        place.behind,
        place.tie,
        trials.get(runner.solver, 0),
        once,
    )


def _failed(arm: Arm, run: StudyRun) -> RankedSolver:
    """One of which nothing ran; the reason is its last."""
    failures: list[tuple[str, str]] = [(NOT_TRIED, "the find ended before its turn")]
    failures += [(trial.status, trial.reason) for trial in arm.known if trial.status.failed]
    if arm.name in run.contest.failures:
        failures.append(run.contest.failures[arm.name])
    if arm.broken:
        failures.append((Status.ERROR, arm.broken))
    status, reason = failures[-1]
    return RankedSolver(arm.name, str(status), trials=len(arm.trials), reason=reason)


def _failed_library(name: str, run: StudyRun) -> RankedSolver:
    status, reason = run.contest.failures.get(name, (Status.ERROR, "it was not timed"))
    return RankedSolver(name, str(status), reason=reason)


def _refused(lineup: Lineup) -> list[RankedSolver]:
    return [
        RankedSolver(name, NOT_APPLICABLE, reason=reason) for name, reason in lineup.refused.items()
    ]
