"""The final of a find: the best of every solver and the libraries, side by side.

All run in the first round. Where calls are long, the rounds after it are for those that may still
win, and those that are far behind keep the time of the one call that was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.execute.statistics import Block, paired_ratio, summarize
from skipjack.tuning.contest import LONG_NS, SLOW_NS, Contest
from skipjack.tuning.final import tied
from skipjack.tuning.ranking import could_tie
from skipjack.tuning.runner import Runner

_FINALISTS = 6
"""The fastest of all solvers take part as well: one of them may be better than it seemed."""
_ROUNDS, _DECIDING = 11, 24
"""After the first: for all that can be afforded, then for those that may be ties."""
_ALLOWANCE_S, _ALLOWANCE_SHARE = 2.0, 0.25
"""About how long each of them may take: so much at most, and so much of a budget in seconds."""
_BLOCK_NS, _BLOCK_CALLS, _SINGLE_NS = 4e5, 6, 2e6
"""What a block takes at least; the calls of one, up to the time from which it is a single call."""
_NEAR = 1.25
_LOST, _SURELY_LOST = 1.25, 2.0
"""One call says that a rival loses that is so much slower, of more and of less than a second."""
_TOO_FAR = 4.0
"""So many times slower than the fastest, long calls are not repeated."""

Blocks = Mapping[int, list[Block]]
"""By kernel."""


@dataclass(frozen=True, slots=True)
class Final:
    """What was timed, and what came of it."""

    runners: tuple[Runner, ...]
    """All that took part or were left out as too far behind; several of a solver perhaps."""
    blocks: Blocks
    winner: Runner | None
    """The fastest that was built."""
    ties: tuple[Runner, ...]
    """Others that were built and could not be told from it."""


def hold_find_final(
    contest: Contest, solvers: Sequence[str], vendors: Sequence[Runner], seconds: float | None
) -> Final:
    """Time the best of these solvers, and the libraries; `seconds` are those of the whole find."""
    built = _finalists(contest, solvers)
    everyone = [*built, *vendors]
    _leave_out(contest, everyone, vendors)
    allowance = _ALLOWANCE_S if seconds is None else min(_ALLOWANCE_S, _ALLOWANCE_SHARE * seconds)
    blocks = _rounds(contest, [r for r in everyone if not r.cut_short], vendors, allowance)
    for runner in everyone:
        if runner.kernel in blocks:
            timing = summarize(blocks[runner.kernel])
            runner.time_ns, runner.spread = timing.time_ns, timing.spread
    winner = contest.best = _checked(
        contest, [runner for runner in built if runner.cut_short or runner.kernel in blocks]
    )
    alive = [r for r in built if r.candidate.key in contest.runners]
    there = [r for r in [*alive, *vendors] if r.cut_short or r.kernel in blocks]
    ties = [r for r in alive if winner and r is not winner and r.anywhere and tied(winner, r)]
    return Final(tuple(there), blocks, winner, tuple(ties))


def spare(winner: Runner, rivals: Iterable[Runner | None]) -> None:
    """Mark rivals whose one long call says that they lose: they need not be confirmed to."""
    factor = _LOST if winner.time_ns > 1e9 else _SURELY_LOST
    for rival in rivals:
        if rival is not None and rival is not winner:
            rival.cut_short |= rival.time_ns > max(LONG_NS, factor * winner.time_ns)


def _finalists(contest: Contest, solvers: Sequence[str]) -> list[Runner]:
    """The best of each solver and the fastest of all, checked on unaligned arrays.

    Of those that are long, only who may win is checked again.
    """
    found: dict[int, Runner] = {}
    long = max(LONG_NS, _NEAR * contest.pace_ns)
    for solver in solvers:
        leader = contest.leaders().get(solver)
        far = leader is not None and leader.time_ns > long
        chosen = [leader] if leader and far else contest.finalists(1, solver)
        found |= {runner.kernel: runner for runner in chosen}
    if contest.pace_ns < SLOW_NS:
        found |= {runner.kernel: runner for runner in contest.finalists(_FINALISTS)}
    return list(found.values())


def _checked(contest: Contest, runners: Iterable[Runner]) -> Runner | None:
    """The fastest that is right on unaligned arrays."""
    ranked = sorted(runners, key=lambda runner: runner.time_ns)
    return next((runner for runner in ranked if contest.runs_anywhere(runner)), None)


def _leave_out(contest: Contest, everyone: Sequence[Runner], vendors: Sequence[Runner]) -> None:
    """Mark those that would take long and win nothing."""
    pace = min((runner.time_ns for runner in everyone), default=float("inf"))
    too_far = max(LONG_NS, _TOO_FAR * pace)
    for library in vendors:
        if library.time_ns > too_far:  # its first call may have set things up
            contest.call_again(library)
    for runner in everyone:
        runner.cut_short = runner.time_ns > too_far


def _rounds(
    contest: Contest, runners: Sequence[Runner], vendors: Sequence[Runner], allowance_s: float
) -> Blocks:
    """Interleaved blocks: one of each, more of those that it may matter for."""
    blocks: dict[int, list[Block]] = {}
    chosen, rounds, done = list(runners), 1, 0
    for stage in (_contenders, _undecided, None):
        if not chosen or (done and len(chosen) < 2):
            break
        timed, failures = contest.time(chosen, rounds)
        for runner in chosen:
            later = (replace(b, round=b.round + done) for b in timed.get(runner.kernel, []))
            blocks.setdefault(runner.kernel, []).extend(later)
        for failure in failures:
            blocks.pop(failure.kernel, None)
        done += rounds
        times = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        if stage is None or not times:
            break
        hopes = {r.kernel: r.checked_ns for r in runners if r not in vendors}
        kept, rounds = stage(times, blocks, hopes, allowance_s)
        chosen = [runner for runner in runners if runner.kernel in kept]
    contest.record_blocks(blocks, runners)
    return blocks


_Stage = tuple[set[int], int]
"""Which kernels are timed further, and for how many rounds."""


def _contenders(
    times: Mapping[int, float], blocks: Blocks, hopes: Mapping[int, float], allowance_s: float
) -> _Stage:
    """All that run; where that takes too long the first, and those built that may beat it.

    One that was near when it was checked may have had a bad first round. Libraries meet the winner
    in its confirmation anyway.
    """
    if _cost_s(times.values()) * _ROUNDS < allowance_s:
        return set(times), _ROUNDS
    near_ns = _NEAR * min((times[kernel] for kernel in hopes if kernel in times), default=0.0)
    near = {k for k, hope in hopes.items() if k in times and min(times[k], hope) < near_ns}
    chosen = near | {_first(times)} if len(near) > 1 else set[int]()
    return chosen, _affordable((times[kernel] for kernel in chosen), _ROUNDS, allowance_s)


def _undecided(
    times: Mapping[int, float], blocks: Blocks, hopes: Mapping[int, float], allowance_s: float
) -> _Stage:
    """Those that could be ties but are not known to be, with the first."""
    first = _first(times)
    ratios = {kernel: paired_ratio(blocks[kernel], blocks[first]) for kernel in times}
    open_ = {first} | {k for k, ratio in ratios.items() if ratio.supported and could_tie(ratio)}
    return open_, _affordable((times[kernel] for kernel in open_), _DECIDING, allowance_s)


def _first(times: Mapping[int, float]) -> int:
    return min(times, key=lambda kernel: times[kernel])


def _affordable(times_ns: Iterable[float], rounds: int, allowance_s: float) -> int:
    cost = _cost_s(times_ns)
    return min(rounds, max(1, int(allowance_s / cost))) if cost else 1


def _cost_s(times_ns: Iterable[float]) -> float:
    """What a round of blocks takes."""
    calls = (ns * (_BLOCK_CALLS if ns < _SINGLE_NS else 1) for ns in times_ns)
    return sum(max(_BLOCK_NS, ns) for ns in calls) * 1e-9
