"""The final: the leaders of a search once more, side by side."""

from __future__ import annotations

from skipjack.execute.statistics import summarize
from skipjack.tuning.contest import SLOW_NS, Contest, Runner

_FINALISTS, _SLOW_FINALISTS = 6, 2
_BLOCKS, _SLOW_BLOCKS = 4, 2
_LEAST_TIE, _WIDEST_TIE = 0.005, 0.02
"""Times that differ by less are ties; by more they are none, however noisy they are."""


def hold_final(contest: Contest) -> tuple[Runner | None, tuple[Runner, ...]]:
    """The winner, and those that are within the noise of it."""
    slow = contest.best is not None and contest.best.time_ns > SLOW_NS
    finalists = contest.finalists(_SLOW_FINALISTS if slow else _FINALISTS)
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
    near = (other for other in others if other.time_ns < first.time_ns * (1 + _tie(first, other)))
    return first, tuple(near)


def _tie(one: Runner, other: Runner) -> float:
    return max(_LEAST_TIE, min(one.spread, other.spread, _WIDEST_TIE))
