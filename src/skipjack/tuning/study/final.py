"""The final of a search: its leaders timed again, side by side; of a find, ranked with libraries.

Candidates of the same rounds are compared by pairs, whatever the clock rate did. If calls are
long, rounds after the first are only for candidates that may still win; those that are far behind
keep the time of the one call that was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipjack.core import Candidate
from skipjack.execute import Block, Ratio, Timing, by_kernel, paired_ratio, summarize
from skipjack.tuning.study.decision import Contenders
from skipjack.tuning.study.limits import LIMITS, Limits
from skipjack.tuning.study.loaded_candidate import LoadedCandidate

if TYPE_CHECKING:
    from skipjack.tuning.study.engine import Evaluator
    from skipjack.tuning.study.kernel_evaluator import CandidateEvaluator


_UNKNOWN = float("nan")

Blocks = Mapping[int, list[Block]]
"""Blocks by kernel."""
_Stage = Callable[[Mapping[int, float], Blocks, Mapping[int, float]], tuple[set[int], int]]
"""Which kernels are timed further, and for how many rounds: from the times and blocks so far, and
from the times of the checked calls."""


@dataclass(frozen=True, slots=True)
class Final:
    """The candidates of a final, their blocks, and the winner."""

    participants: tuple[LoadedCandidate, ...]
    """All that took part or were left out as too far behind; perhaps several of one solver."""
    blocks: Blocks
    winner: LoadedCandidate | None
    """The fastest that was built."""
    ties: tuple[LoadedCandidate, ...]
    """Other built candidates whose times cannot be distinguished from the winner's."""


def tune_final(
    evaluator: Evaluator, limits: Limits, compared_default: Candidate | None = None
) -> Final:
    """Time the fastest few side by side, without `compared_default`, which does not compete."""
    slow = limits.slow_ns < evaluator.pace_ns < float("inf")
    count = limits.slow_finalists if slow else limits.finalists
    finalists = evaluator.finalists(count, but=compared_default)
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
    """Time the best of these solvers and the libraries; `seconds` is the time of the whole find."""
    limits, built = evaluator.limits, _best_of_each(evaluator, solvers)
    _mark_too_slow(evaluator, [*built, *vendors], vendors)
    share_s = float("inf") if seconds is None else limits.find_stage_share * seconds
    stages = _Stages(limits, min(limits.find_stage_s, share_s))
    participants = [one for one in [*built, *vendors] if not one.cut_short]
    checked_times_ns = {one.kernel: one.checked_ns for one in built if not one.cut_short}
    blocks = _rounds(
        evaluator, participants, checked_times_ns, 1, stages.contenders, stages.undecided
    )
    return _result(evaluator, built, vendors, blocks, limits)


def _result(
    evaluator: Evaluator,
    built: Sequence[LoadedCandidate],
    vendors: Sequence[LoadedCandidate],
    blocks: Blocks,
    limits: Limits,
) -> Final:
    """The final of these candidates without those that failed in the rounds."""
    there = [one for one in [*built, *vendors] if one.cut_short or one.kernel in blocks]
    for one in there:
        if one.kernel in blocks:
            timing = summarize(blocks[one.kernel])
            one.time_ns, one.spread = timing.time_ns, timing.spread
    ranked = sorted((one for one in built if one in there), key=lambda one: one.time_ns)
    while ranked and not evaluator.runs_unaligned(ranked[0]):
        there.remove(ranked.pop(0))
    winner = ranked[0] if ranked else None
    ties = [one for one in ranked[1:] if one.verified_unaligned and tied(ranked[0], one, limits)]
    return Final(tuple(there), blocks, winner, tuple(ties))


def tied(first: LoadedCandidate, other: LoadedCandidate, limits: Limits) -> bool:
    """Whether two times differ by no more than their noise."""
    noise = max(limits.least_tie, min(first.spread, other.spread, limits.widest_tie))
    return other.time_ns < first.time_ns * (1 + noise)


def mark_slow_competitors(contenders: Contenders, limits: Limits) -> None:
    """Mark competitors that one long call shows to be slower, to leave them out from now on."""
    winner_ns = contenders.winner.time_ns
    sure = winner_ns > limits.very_long_ns
    factor = limits.near_ratio if sure else limits.far_ratio
    for competitor in contenders.competitors:
        competitor.cut_short = competitor.time_ns > max(limits.long_ns, factor * winner_ns)


def _best_of_each(evaluator: CandidateEvaluator, solvers: Sequence[str]) -> list[LoadedCandidate]:
    """The best of each solver and the fastest of all, checked on unaligned arrays.

    Slow candidates are checked again only if they may win.
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


def _mark_too_slow(
    evaluator: CandidateEvaluator,
    participants: Sequence[LoadedCandidate],
    vendors: Sequence[LoadedCandidate],
) -> None:
    """Mark candidates that would take long and cannot win."""
    pace = min((one.time_ns for one in participants), default=float("inf"))
    too_far = max(evaluator.limits.long_ns, evaluator.limits.too_far_ratio * pace)
    for library in vendors:
        if library.time_ns > too_far:  # its first call may include its initialization
            evaluator.call_again(library)
    for one in participants:
        one.cut_short = one.time_ns > too_far


def _rounds(
    evaluator: Evaluator,
    participants: Sequence[LoadedCandidate],
    checked_times_ns: Mapping[int, float],
    rounds: int,
    *stages: _Stage,
) -> Blocks:
    """Interleaved blocks of all kernels, then further blocks of those that each stage chooses."""
    blocks: dict[int, list[Block]] = {}
    chosen = [one.kernel for one in participants]
    for stage in (*stages, None):
        if not chosen or (blocks and len(chosen) < 2):
            break
        timed, failures = evaluator.time(chosen, rounds)
        blocks = joined_blocks(blocks, by_kernel(timed))
        for failure in failures:
            blocks.pop(failure.kernel, None)
        times = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        if stage is None or not times:
            break
        kept, rounds = stage(times, blocks, checked_times_ns)
        chosen = [kernel for kernel in chosen if kernel in kept]
    return blocks


@dataclass(frozen=True, slots=True)
class _Stages:
    """The rounds of a find's final after the first."""

    limits: Limits
    allowance_s: float
    """About how long each stage may take."""

    def contenders(
        self, times: Mapping[int, float], blocks: Blocks, checked_times_ns: Mapping[int, float]
    ) -> tuple[set[int], int]:
        """All kernels; if that takes too long, the fastest and those that may beat it.

        A kernel that was nearly as fast when it was checked may have had a bad first round.
        Libraries are timed next to the winner in its confirmation anyway.
        """
        rounds = self.limits.find_rounds
        if self._cost_s(times.values()) * rounds < self.allowance_s:
            return set(times), rounds
        fastest = min(
            (times[kernel] for kernel in checked_times_ns if kernel in times), default=0.0
        )
        near_ns = self.limits.near_ratio * fastest
        near = {
            k
            for k, hope in checked_times_ns.items()
            if k in times and min(times[k], hope) < near_ns
        }
        chosen = near | {_fastest_kernel(times)} if len(near) > 1 else set[int]()
        return chosen, self._affordable((times[kernel] for kernel in chosen), rounds)

    def undecided(
        self, times: Mapping[int, float], blocks: Blocks, checked_times_ns: Mapping[int, float]
    ) -> tuple[set[int], int]:
        """The fastest, and those that may be ties with it but are not known to be."""
        first = _fastest_kernel(times)
        ratios = {kernel: paired_ratio(blocks[kernel], blocks[first]) for kernel in times}
        tie = {k for k, r in ratios.items() if r.supported and could_tie(r, self.limits)} | {first}
        return tie, self._affordable((times[k] for k in tie), self.limits.deciding_rounds)

    def _affordable(self, times_ns: Iterable[float], rounds: int) -> int:
        cost = self._cost_s(times_ns)
        return min(rounds, max(1, int(self.allowance_s / cost))) if cost else 1

    def _cost_s(self, times_ns: Iterable[float]) -> float:
        """The estimated duration of a round of blocks."""
        limits = self.limits
        calls = (ns * (limits.block_calls if ns < limits.single_call_ns else 1) for ns in times_ns)
        return sum(max(limits.block_ns, ns) for ns in calls) * 1e-9


def _fastest_kernel(times: Mapping[int, float]) -> int:
    return min(times, key=lambda kernel: times[kernel])


# Ranking


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate's result in a ranking."""

    loaded: LoadedCandidate
    timing: Timing
    behind: Ratio
    """How many times slower than the first it is."""
    tie: bool
    """Whether its time cannot be distinguished from that of the first."""
    alone: bool = False
    """Whether it did not run next to the others: its time is that of one call."""


def rank(
    participants: Sequence[LoadedCandidate],
    blocks: Mapping[int, Sequence[Block]],
    limits: Limits = LIMITS,
) -> tuple[RankedCandidate, ...]:
    """The best of each solver, fastest first.

    A time is that of the first, multiplied by how much slower the candidate was in the same rounds:
    so times are comparable although not all ran in all rounds. Without blocks, a candidate keeps
    the time that it has.
    """
    if not participants:
        return ()
    first = _fastest(participants, blocks)
    ranking = [_rank_of(loaded, first, blocks, limits) for loaded in participants]
    ranking.sort(key=lambda place: (place.timing.time_ns, place.loaded is not first))
    best = {place.loaded.solver: place for place in reversed(ranking)}
    return tuple(place for place in ranking if best[place.loaded.solver] is place)


def joined_blocks(
    first: Mapping[int, Sequence[Block]], then: Mapping[int, Sequence[Block]]
) -> dict[int, list[Block]]:
    """The blocks of two stages that were timed one after the other, with rounds counted on."""
    rounds = 1 + max((b.round for blocks in first.values() for b in blocks), default=-1)
    both = {kernel: list(blocks) for kernel, blocks in first.items()}
    for kernel, blocks in then.items():
        both.setdefault(kernel, []).extend(replace(b, round=b.round + rounds) for b in blocks)
    return both


def could_tie(behind: Ratio, limits: Limits = LIMITS) -> bool:
    """Whether the measured ratio leaves open that two candidates are equally fast."""
    if not behind.supported:
        return behind.ratio < 1.0 + limits.widest_tie
    return behind.low <= 1.0 + limits.least_tie and behind.ratio < 1.0 + limits.widest_paired_tie


def noisy_competitors(
    ranking: Sequence[RankedCandidate], limits: Limits = LIMITS
) -> list[RankedCandidate]:
    """The candidates that too few undisturbed rounds show to be slower than the first."""
    return [
        place
        for place in ranking
        if place.behind.noisy
        and place.behind.ratio
        < (limits.near_ratio if place.behind.pairs else limits.far_behind_ratio)
    ]


def _fastest(
    participants: Sequence[LoadedCandidate], blocks: Mapping[int, Sequence[Block]]
) -> LoadedCandidate:
    """A candidate that no other is faster than; with noise there may be none, then one of them."""
    timed = [loaded for loaded in participants if blocks.get(loaded.kernel)]
    if not timed:
        return min(participants, key=lambda loaded: loaded.time_ns)
    first = max(timed, key=lambda loaded: len(blocks[loaded.kernel]))
    for _ in timed:
        leading = blocks[first.kernel]
        slower = {r.kernel: _behind(blocks[r.kernel], leading).ratio for r in timed}
        fastest = min(timed, key=lambda loaded: slower[loaded.kernel])
        if slower[fastest.kernel] >= 1.0:
            break
        first = fastest
    return first


def _rank_of(
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
    """The ratio from the pairs; if all were disturbed, from the two times, without an interval."""
    ratio = paired_ratio(mine, leading)
    if ratio.pairs:
        return ratio
    apart = summarize(mine).time_ns / summarize(leading).time_ns
    return replace(ratio, ratio=apart)
