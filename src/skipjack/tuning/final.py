"""The final of a search: its leaders once more, side by side; of a find, ranked with libraries.

Whoever ran in the same rounds is compared there, by pairs, whatever the clock did. Where calls are
long, rounds after the first are for those that may still win, and those that are far behind keep
the time of the one call that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipjack.core.trial import Candidate
from skipjack.execute.statistics import Block, Ratio, Timing, by_kernel, paired_ratio, summarize
from skipjack.tuning.decision import Contenders
from skipjack.tuning.limits import LIMITS, Limits
from skipjack.tuning.loaded_candidate import LoadedCandidate

if TYPE_CHECKING:
    from skipjack.tuning.engine import Evaluator
    from skipjack.tuning.evaluators import CandidateEvaluator

_UNKNOWN = float("nan")

Blocks = Mapping[int, list[Block]]
"""By kernel."""
_Stage = Callable[[Mapping[int, float], Blocks, Mapping[int, float]], tuple[set[int], int]]
"""Which kernels are timed further, and for how many rounds: from the times and blocks so far, and
from what calls of those that were built took when they were checked."""


@dataclass(frozen=True, slots=True)
class Final:
    """What was timed, and what came of it."""

    everyone: tuple[LoadedCandidate, ...]
    """All that took part or were left out as too far behind; several of a solver perhaps."""
    blocks: Blocks
    winner: LoadedCandidate | None
    """The fastest that was built."""
    ties: tuple[LoadedCandidate, ...]
    """Others that were built and could not be told from it."""


def tune_final(evaluator: Evaluator, limits: Limits, outsider: Candidate | None = None) -> Final:
    """The fastest few side by side; an outsider does not take part."""
    slow = limits.slow_ns < evaluator.pace_ns < float("inf")
    count = limits.slow_finalists if slow else limits.finalists
    finalists = evaluator.finalists(count, but=outsider)
    if len(finalists) < 2:
        return Final(tuple(finalists), {}, finalists[0] if finalists else None, ())
    rounds = limits.slow_final_blocks if slow else limits.final_blocks
    blocks = _rounds(evaluator, finalists, {}, rounds)
    return _result(evaluator, finalists, (), blocks, limits)


def find_final(
    evaluator: CandidateEvaluator,
    solvers: Sequence[str],
    vendors: Sequence[LoadedCandidate],
    seconds: float | None,
) -> Final:
    """The best of these solvers, and the libraries; `seconds` are those of the whole find."""
    limits, built = evaluator.limits, _best_of_each(evaluator, solvers)
    _leave_out(evaluator, [*built, *vendors], vendors)
    share_s = float("inf") if seconds is None else limits.find_stage_share * seconds
    stages = _Stages(limits, min(limits.find_stage_s, share_s))
    everyone = [one for one in [*built, *vendors] if not one.cut_short]
    hopes = {one.kernel: one.checked_ns for one in built if not one.cut_short}
    blocks = _rounds(evaluator, everyone, hopes, 1, stages.contenders, stages.undecided)
    return _result(evaluator, built, vendors, blocks, limits)


def _result(
    evaluator: Evaluator,
    built: Sequence[LoadedCandidate],
    vendors: Sequence[LoadedCandidate],
    blocks: Blocks,
    limits: Limits,
) -> Final:
    """The fastest that was built and may win; whoever fails in the rounds is gone."""
    there = [one for one in [*built, *vendors] if one.cut_short or one.kernel in blocks]
    for one in there:
        if one.kernel in blocks:
            timing = summarize(blocks[one.kernel])
            one.time_ns, one.spread = timing.time_ns, timing.spread
    ranked = sorted((one for one in built if one in there), key=lambda one: one.time_ns)
    while ranked and not evaluator.runs_anywhere(ranked[0]):
        there.remove(ranked.pop(0))
    winner = ranked[0] if ranked else None
    ties = [one for one in ranked[1:] if one.anywhere and tied(ranked[0], one, limits)]
    return Final(tuple(there), blocks, winner, tuple(ties))


def tied(first: LoadedCandidate, other: LoadedCandidate, limits: Limits) -> bool:
    """Whether the times of two differ by no more than their noise."""
    noise = max(limits.least_tie, min(first.spread, other.spread, limits.widest_tie))
    return other.time_ns < first.time_ns * (1 + noise)


def spare(contenders: Contenders, limits: Limits) -> None:
    """Mark rivals that one long call shows to be slower; the confirmation leaves them out."""
    winner_ns = contenders.winner.time_ns
    sure = winner_ns > limits.very_long_ns
    factor = limits.near_ratio if sure else limits.far_ratio
    for rival in contenders.rivals:
        rival.cut_short = rival.time_ns > max(limits.long_ns, factor * winner_ns)


def _best_of_each(evaluator: CandidateEvaluator, solvers: Sequence[str]) -> list[LoadedCandidate]:
    """The best of each solver and the fastest of all, checked on unaligned arrays.

    Of those that are long, only who may win is checked again.
    """
    found: dict[int, LoadedCandidate] = {}
    limits = evaluator.limits
    long = max(limits.long_ns, limits.near_ratio * evaluator.pace_ns)
    for solver in solvers:
        leader = evaluator.leaders().get(solver)
        far = leader is not None and leader.time_ns > long
        chosen = [leader] if leader and far else evaluator.finalists(1, solver)
        found |= {one.kernel: one for one in chosen}
    if evaluator.pace_ns < limits.slow_ns:
        found |= {one.kernel: one for one in evaluator.finalists(limits.finalists)}
    return list(found.values())


def _leave_out(
    evaluator: CandidateEvaluator,
    everyone: Sequence[LoadedCandidate],
    vendors: Sequence[LoadedCandidate],
) -> None:
    """Mark those that would take long and win nothing."""
    pace = min((one.time_ns for one in everyone), default=float("inf"))
    too_far = max(evaluator.limits.long_ns, evaluator.limits.too_far_ratio * pace)
    for library in vendors:
        if library.time_ns > too_far:  # its first call may have set things up
            evaluator.call_again(library)
    for one in everyone:
        one.cut_short = one.time_ns > too_far


def _rounds(
    evaluator: Evaluator,
    everyone: Sequence[LoadedCandidate],
    hopes: Mapping[int, float],
    rounds: int,
    *stages: _Stage,
) -> Blocks:
    """Interleaved blocks of all, then more of those that each stage names."""
    blocks: dict[int, list[Block]] = {}
    chosen = [one.kernel for one in everyone]
    for stage in (*stages, None):
        if not chosen or (blocks and len(chosen) < 2):
            break
        timed, failures = evaluator.time(chosen, rounds)
        blocks = joined(blocks, by_kernel(timed))
        for failure in failures:
            blocks.pop(failure.kernel, None)
        times = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        if stage is None or not times:
            break
        kept, rounds = stage(times, blocks, hopes)
        chosen = [kernel for kernel in chosen if kernel in kept]
    return blocks


@dataclass(frozen=True, slots=True)
class _Stages:
    """The rounds of a find's final after the first."""

    limits: Limits
    allowance_s: float
    """About how long each stage may take."""

    def contenders(
        self, times: Mapping[int, float], blocks: Blocks, hopes: Mapping[int, float]
    ) -> tuple[set[int], int]:
        """All that run; where that takes too long the first, and those built that may beat it.

        One that was near when it was checked may have had a bad first round. Libraries meet the
        winner in its confirmation anyway.
        """
        rounds = self.limits.find_rounds
        if self._cost_s(times.values()) * rounds < self.allowance_s:
            return set(times), rounds
        fastest = min((times[kernel] for kernel in hopes if kernel in times), default=0.0)
        near_ns = self.limits.near_ratio * fastest
        near = {k for k, hope in hopes.items() if k in times and min(times[k], hope) < near_ns}
        chosen = near | {_fastest_kernel(times)} if len(near) > 1 else set[int]()
        return chosen, self._affordable((times[kernel] for kernel in chosen), rounds)

    def undecided(
        self, times: Mapping[int, float], blocks: Blocks, hopes: Mapping[int, float]
    ) -> tuple[set[int], int]:
        """Those that could be ties but are not known to be, with the first."""
        first = _fastest_kernel(times)
        ratios = {kernel: paired_ratio(blocks[kernel], blocks[first]) for kernel in times}
        tie = {k for k, r in ratios.items() if r.supported and could_tie(r, self.limits)} | {first}
        return tie, self._affordable((times[k] for k in tie), self.limits.deciding_rounds)

    def _affordable(self, times_ns: Iterable[float], rounds: int) -> int:
        cost = self._cost_s(times_ns)
        return min(rounds, max(1, int(self.allowance_s / cost))) if cost else 1

    def _cost_s(self, times_ns: Iterable[float]) -> float:
        """An estimate of what a round of blocks takes."""
        limits = self.limits
        calls = (ns * (limits.block_calls if ns < limits.single_call_ns else 1) for ns in times_ns)
        return sum(max(limits.block_ns, ns) for ns in calls) * 1e-9


def _fastest_kernel(times: Mapping[int, float]) -> int:
    return min(times, key=lambda kernel: times[kernel])


# Ranking


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """Where a solver came in."""

    loaded: LoadedCandidate
    timing: Timing
    behind: Ratio
    """How many times slower than the first it is."""
    tie: bool
    """It cannot be told from the first."""
    alone: bool = False
    """It did not run beside the others: its time is that of one call."""


def rank(
    everyone: Sequence[LoadedCandidate],
    blocks: Mapping[int, Sequence[Block]],
    limits: Limits = LIMITS,
) -> tuple[RankedCandidate, ...]:
    """The best of each solver, fastest first.

    Times are the first one's, times how much slower the others were beside it: so they compare
    although not all ran in all rounds. Who has no blocks keeps the time it has.
    """
    if not everyone:
        return ()
    first = _fastest(everyone, blocks)
    ranking = [_place(loaded, first, blocks, limits) for loaded in everyone]
    ranking.sort(key=lambda place: (place.timing.time_ns, place.loaded is not first))
    best = {place.loaded.solver: place for place in reversed(ranking)}
    return tuple(place for place in ranking if best[place.loaded.solver] is place)


def joined(
    first: Mapping[int, Sequence[Block]], then: Mapping[int, Sequence[Block]]
) -> dict[int, list[Block]]:
    """The blocks of two stages that were timed one after the other."""
    rounds = 1 + max((b.round for blocks in first.values() for b in blocks), default=-1)
    both = {kernel: list(blocks) for kernel, blocks in first.items()}
    for kernel, blocks in then.items():
        both.setdefault(kernel, []).extend(replace(b, round=b.round + rounds) for b in blocks)
    return both


def could_tie(behind: Ratio, limits: Limits = LIMITS) -> bool:
    """Whether what is known of two does not tell them apart."""
    if not behind.supported:
        return behind.ratio < 1.0 + limits.widest_tie
    return behind.low <= 1.0 + limits.least_tie and behind.ratio < 1.0 + limits.widest_paired_tie


def unclear(ranking: Sequence[RankedCandidate], limits: Limits = LIMITS) -> list[RankedCandidate]:
    """Those of whom too few undisturbed rounds say that they are behind the first."""
    return [
        place
        for place in ranking
        if place.behind.noisy
        and place.behind.ratio
        < (limits.near_ratio if place.behind.pairs else limits.far_behind_ratio)
    ]


def _fastest(
    everyone: Sequence[LoadedCandidate], blocks: Mapping[int, Sequence[Block]]
) -> LoadedCandidate:
    """One that nobody is faster than; noise can make that a circle, which ends somewhere."""
    timed = [loaded for loaded in everyone if blocks.get(loaded.kernel)]
    if not timed:
        return min(everyone, key=lambda loaded: loaded.time_ns)
    first = max(timed, key=lambda loaded: len(blocks[loaded.kernel]))
    for _ in timed:
        leading = blocks[first.kernel]
        slower = {r.kernel: _behind(blocks[r.kernel], leading).ratio for r in timed}
        fastest = min(timed, key=lambda loaded: slower[loaded.kernel])
        if slower[fastest.kernel] >= 1.0:
            break
        first = fastest
    return first


def _place(
    loaded: LoadedCandidate,
    first: LoadedCandidate,
    blocks: Mapping[int, Sequence[Block]],
    limits: Limits,
) -> RankedCandidate:
    mine, leading = blocks.get(loaded.kernel), blocks.get(first.kernel)
    least_ns = summarize(leading).time_ns if leading else first.time_ns
    if not mine or not leading:
        ratio = Ratio(loaded.time_ns / least_ns, _UNKNOWN, _UNKNOWN)
        timing = Timing(loaded.time_ns, loaded.spread, 1, 0)
        return RankedCandidate(loaded, timing, ratio, tie=False, alone=True)
    own = summarize(mine)
    if loaded is first:
        return RankedCandidate(loaded, own, Ratio(1.0, 1.0, 1.0), tie=False)
    ratio = _behind(mine, leading)
    timing = replace(own, time_ns=least_ns * max(1.0, ratio.ratio))
    return RankedCandidate(loaded, timing, ratio, could_tie(ratio, limits))


def _behind(mine: Sequence[Block], leading: Sequence[Block]) -> Ratio:
    """From the pairs; where all were disturbed from the times of each, without an interval."""
    ratio = paired_ratio(mine, leading)
    if ratio.pairs:
        return ratio
    apart = summarize(mine).time_ns / summarize(leading).time_ns
    return replace(ratio, ratio=apart)
