"""Ranking by pairs: whoever ran in the same rounds is compared there, whatever the clock did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.execute.statistics import Block, Ratio, Timing, paired_ratio, summarize
from skipjack.tuning.final import LEAST_TIE, WIDEST_TIE
from skipjack.tuning.runner import Runner

_WIDEST_TIE = 0.05
"""Times that differ by more are no ties, however noisy their pairs are."""
_NEAR, _FAR = 1.25, 10.0
"""So many times slower than the first, one is behind it also if few rounds say so, or none."""
_UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a solver came in."""

    runner: Runner
    timing: Timing
    behind: Ratio
    """How many times slower than the first it is."""
    tie: bool
    """It cannot be told from the first."""
    alone: bool = False
    """It did not run beside the others: its time is that of one call."""


def rank(runners: Sequence[Runner], blocks: Mapping[int, Sequence[Block]]) -> tuple[Place, ...]:
    """The best of each solver, fastest first.

    Times are the first one's, times how much slower the others were beside it: so they compare
    although not all ran in all rounds. Who has no blocks keeps the time it has.
    """
    if not runners:
        return ()
    first = _first(runners, blocks)
    places = [_place(runner, first, blocks) for runner in runners]
    places.sort(key=lambda place: (place.timing.time_ns, place.runner is not first))
    best = {place.runner.solver: place for place in reversed(places)}
    return tuple(place for place in places if best[place.runner.solver] is place)


def joined(
    first: Mapping[int, Sequence[Block]], then: Mapping[int, Sequence[Block]]
) -> dict[int, list[Block]]:
    """The blocks of two stages that were timed one after the other."""
    rounds = 1 + max((b.round for blocks in first.values() for b in blocks), default=-1)
    both = {kernel: list(blocks) for kernel, blocks in first.items()}
    for kernel, blocks in then.items():
        both.setdefault(kernel, []).extend(replace(b, round=b.round + rounds) for b in blocks)
    return both


def could_tie(behind: Ratio) -> bool:
    """Whether what is known of two does not tell them apart."""
    if not behind.supported:
        return behind.ratio < 1.0 + WIDEST_TIE
    return behind.low <= 1.0 + LEAST_TIE and behind.ratio < 1.0 + _WIDEST_TIE


def unclear(places: Sequence[Place]) -> list[Place]:
    """Those of whom too few undisturbed rounds say that they are behind the first."""
    return [
        place
        for place in places
        if place.behind.noisy and place.behind.ratio < (_NEAR if place.behind.pairs else _FAR)
    ]


def _first(runners: Sequence[Runner], blocks: Mapping[int, Sequence[Block]]) -> Runner:
    """One that nobody is faster than; noise can make that a circle, which ends somewhere."""
    timed = [runner for runner in runners if blocks.get(runner.kernel)]
    if not timed:
        return min(runners, key=lambda runner: runner.time_ns)
    first = max(timed, key=lambda runner: len(blocks[runner.kernel]))
    for _ in timed:
        leading = blocks[first.kernel]
        slower = {r.kernel: _behind(blocks[r.kernel], leading).ratio for r in timed}
        fastest = min(timed, key=lambda runner: slower[runner.kernel])
        if slower[fastest.kernel] >= 1.0:
            break
        first = fastest
    return first


def _place(runner: Runner, first: Runner, blocks: Mapping[int, Sequence[Block]]) -> Place:
    mine, leading = blocks.get(runner.kernel), blocks.get(first.kernel)
    least_ns = summarize(leading).time_ns if leading else first.time_ns
    if not mine or not leading:
        ratio = Ratio(runner.time_ns / least_ns, _UNKNOWN, _UNKNOWN)
        timing = Timing(runner.time_ns, runner.spread, 1, 0)
        return Place(runner, timing, ratio, tie=False, alone=True)
    own = summarize(mine)
    if runner is first:
        return Place(runner, own, Ratio(1.0, 1.0, 1.0), tie=False)
    ratio = _behind(mine, leading)
    timing = replace(own, time_ns=least_ns * max(1.0, ratio.ratio))
    return Place(runner, timing, ratio, could_tie(ratio))


def _behind(mine: Sequence[Block], leading: Sequence[Block]) -> Ratio:
    """From the pairs; where all were disturbed from the times of each, without an interval."""
    ratio = paired_ratio(mine, leading)
    if ratio.pairs:
        return ratio
    apart = summarize(mine).time_ns / summarize(leading).time_ns
    return replace(ratio, ratio=apart)
