"""The legal actions of a game, determined without applying them.

`ActionRules` has the rules of the nest; this module adds the machine's limits. They depend only on
the ranges of the marked suffix, so only these are computed for an action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.core import lanes_for
from skipjack.solvers.cpu.nest import LegalActions, Mark

if TYPE_CHECKING:
    from skipjack.learn.loops.game import GameState, LoopGame


MAX_LOOPS = 16
"""The most loops of a schedule in a game, so that observations are arrays of one size."""
_UNROLL, _ACCUMULATE, _PARALLEL = Mark.UNROLL, Mark.ACCUMULATE, Mark.PARALLEL
_VECTORIZE, _STREAM = Mark.VECTORIZE, Mark.STREAM
_MARKED = (_UNROLL, _VECTORIZE, _ACCUMULATE, _PARALLEL, _STREAM)
"""The marks in the order of their actions."""


def mask_of(game: LoopGame, state: GameState) -> list[bool]:
    """Whether each action of the game is legal."""
    count = len(state.schedule.loops)
    full = len(game.actions) > len(game.factors) + 4
    if state.stopped or not count:
        mask = [False] * len(game.actions)
        mask[-1] = full and not state.stopped
        return mask
    at, legal = state.cursor, LegalActions(state.schedule, game.rules)
    reach = legal.reach(at)
    mask = [at > 0, at + 1 < count, reach.start < at, at + 1 < reach.stop]
    largest = legal.largest_factor(at) if count < MAX_LOOPS else 1
    mask += [factor <= largest for factor in game.factors]
    if not full:
        return mask
    suffix = _Suffix(game, legal)
    if legal.streamed and at == legal.vectorized:
        # Vectors must be whole; they are narrower if the factor is less than the lanes.
        for number, factor in enumerate(game.factors, 4):
            if mask[number] and factor % lanes_for(factor, suffix.lanes):
                mask[number] = False
    mask.append(legal.can_merge(at) and suffix.allows_merge(at))
    mask += suffix.marks(at)
    mask.append(True)
    return mask


class _Suffix:
    """The resources of a schedule's marked suffix, now and after an action."""

    __slots__ = ("game", "lanes", "legal")

    def __init__(self, game: LoopGame, legal: LegalActions) -> None:
        self.game, self.legal, self.lanes = game, legal, game.limits.lanes

    def marks(self, at: int) -> list[bool]:
        """Whether each action that marks the loop is legal."""
        legal, own = self.legal, self.legal.loops[at].mark
        found = legal.marks(at)
        if not found:
            return [False] * len(_MARKED)
        mask = []
        for mark in _MARKED:
            if mark is own:
                mask.append(Mark.NONE in found)
            elif mark not in found:
                mask.append(False)
            elif mark is _PARALLEL:
                mask.append(self.game.threads > 1)
            elif mark is _STREAM:
                aligned = self.game.streaming and self._is_aligned(at, legal.covered[at])
                mask.append(aligned and self._fits(at, mark, legal.covered[at]))
            else:
                mask.append(self._fits(at, mark, legal.covered[at]))
        return mask

    def allows_merge(self, at: int) -> bool:
        """Whether the next inner loop on the variable can cover the range of this loop."""
        legal = self.legal
        gone, kept = at, legal.inner[at]
        if kept == len(legal.loops):
            gone, kept = legal.outer[at], at
        if kept < legal.suffix:
            return True
        covered = legal.covered[gone]
        if legal.streamed and not self._is_aligned(kept, covered, gone):
            return False
        return self._fits(kept, legal.loops[kept].mark, covered, gone)

    def _fits(self, at: int, mark: Mark, covered: int, gone: int = -1) -> bool:
        """Whether copies and sums stay within the limits if a loop gets this mark and range."""
        legal, lanes, limits = self.legal, self.lanes, self.game.limits
        copies = sums = 1
        for place in range(min(at, legal.suffix), len(legal.loops)):
            if place == gone:
                continue
            loop, size = legal.loops[place], legal.covered[place]
            its = loop.mark
            if place == at:
                its, size = mark, covered
            trips = -(-size // (lanes if its is _VECTORIZE or its is _STREAM else loop.step))
            copies *= trips
            if its is _ACCUMULATE or not legal.reduced[place]:
                sums *= trips
        if copies > limits.max_unrolled:
            return False
        return not self.game.nest.reduction or sums <= 2 * limits.registers

    def _is_aligned(self, at: int, covered: int, gone: int = -1) -> bool:
        """Whether all vectors of the output are aligned if a loop covers this range."""
        legal, output = self.legal, self.game.nest.output
        pivot = at
        if legal.streamed and legal.vectorized != at:
            pivot, covered = legal.vectorized, legal.covered[legal.vectorized]
        width = lanes_for(covered, self.lanes)
        if output.offset % width:
            return False
        return all(
            place in (pivot, gone) or loop.step * output.stride(loop.variable) % width == 0
            for place, loop in enumerate(legal.loops)
        )
