"""The final: the leaders of a search once more, side by side."""

from __future__ import annotations

from skipjack.core.trial import Candidate
from skipjack.execute.statistics import summarize
from skipjack.solvers import vendors_for
from skipjack.tuning.contest import SLOW_NS, Contest
from skipjack.tuning.runner import Runner
from skipjack.tuning.study_run import Standing, StudyRun

_FINALISTS, _SLOW_FINALISTS = 6, 2
_BLOCKS, _SLOW_BLOCKS = 4, 2
LEAST_TIE, WIDEST_TIE = 0.005, 0.02
"""Times that differ by less are ties; by more they are none, however noisy they are."""


def finish_tuning(run: StudyRun) -> Standing:
    """Hold the final, and take the libraries in that the winner has to beat."""
    winner, ties = hold_final(run.contest, run.outsider)
    run.add_vendors(vendors_for(run.problem, run.shop.device))
    return run.standing(winner, ties)


def hold_final(
    contest: Contest, outsider: Candidate | None = None
) -> tuple[Runner | None, tuple[Runner, ...]]:
    """The winner, and those that are within the noise of it; an outsider does not take part."""
    slow = contest.best is not None and contest.best.time_ns > SLOW_NS
    finalists = contest.finalists(_SLOW_FINALISTS if slow else _FINALISTS, but=outsider)
    if len(finalists) < 2:
        return (finalists[0] if finalists else None), ()
    blocks, _ = contest.time(finalists, _SLOW_BLOCKS if slow else _BLOCKS)
    there = [runner for runner in finalists if runner.kernel in blocks]
    for runner in there:
        timing = summarize(blocks[runner.kernel])
        runner.time_ns, runner.spread = timing.time_ns, timing.spread
    if not there:
        return None, ()
    first, *others = sorted(there, key=lambda runner: runner.time_ns)
    contest.best = first
    return first, tuple(other for other in others if tied(first, other))


def tied(first: Runner, other: Runner) -> bool:
    """Whether the times of two differ by no more than their noise."""
    noise = max(LEAST_TIE, min(first.spread, other.spread, WIDEST_TIE))
    return other.time_ns < first.time_ns * (1 + noise)
