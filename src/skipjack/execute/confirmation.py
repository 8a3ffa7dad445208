"""Is the challenger really faster? A paired sequential test on new, interleaved blocks.

The test looks at the pairs a few times while they are collected. Each look uses its share of the
error probability (Bonferroni), so that the whole test keeps the stated alpha. From ten pairs on,
the interval for the median ratio is distribution-free. To be confirmed, the gain must exceed the
smallest effect worth having. Only undisturbed pairs count: disturbed rounds are repeated, up to a
limit; a comparison that then has too few pairs is called noisy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block, Ratio, paired_ratio, undisturbed_pairs

ALPHA = 0.01
MIN_EFFECT = 0.01
LOOKS: tuple[int, ...] = (5, 10, 20, 40)
"""The numbers of undisturbed pairs of an undecided comparison after which the test looks at it."""
_ROUNDS_PER_PAIR = 4
"""A machine that needs more rounds for an undisturbed pair is too noisy."""
_CHEAP_S = 0.2
_WORTH_S, _NEEDED_S = 1.0, 4.0
"""Rounds that take less than the first are added even after the time is over, since a slow default
is worse. While there is no interval at all, the whole confirmation may take the second."""


class Session(Protocol):
    """The part of a run session that is needed here."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """A block of each kernel in every round, round by round, and the failures.

        Kernels that fail have no blocks. Disturbed blocks are included, and marked.
        """
        ...


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Blocks of all kernels, and the challenger's gain over each competitor."""

    blocks: Mapping[int, tuple[Block, ...]]
    gains: Mapping[int, Ratio]
    failures: tuple[Failure, ...] = ()

    def confirmed(self, competitor: int) -> bool:
        """Whether the challenger is faster than this competitor by at least the minimum effect."""
        gain = self.gains.get(competitor)
        return gain is not None and _claims_gain(gain) and not gain.vague

    def beaten_by(self, competitor: int) -> bool:
        """Whether the competitor is faster than the challenger by at least the minimum effect."""
        gain = self.gains.get(competitor)
        return gain is not None and gain.supported and gain.high < 1.0 / (1.0 + MIN_EFFECT)

    def decided(self, competitor: int) -> bool:
        """Whether more pairs would not change the answer."""
        gain = self.gains[competitor]
        return gain.supported and (self.confirmed(competitor) or gain.high < 1.0 + MIN_EFFECT)

    def noisy(self, competitor: int) -> bool:
        """Whether too many rounds were disturbed to say which of the two is faster, or how much."""
        gain = self.gains.get(competitor)
        return gain is not None and (gain.noisy or (_claims_gain(gain) and gain.vague))


def _claims_gain(gain: Ratio) -> bool:
    return gain.supported and gain.low > 1.0 + MIN_EFFECT


def confirm(
    session: Session,
    challenger: int,
    competitors: Sequence[int],
    most: int = LOOKS[-1],
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Confirmation:
    """Time the challenger next to its competitors until each is decided or has `most` pairs.

    Competitors that are decided are left out of later rounds. Once `stop` returns true, further
    rounds are begun only if they take little time, or somewhat more if there is no interval yet.
    """
    run = _Rounds(session, challenger, list(competitors), clock)
    for look in [look for look in LOOKS if look <= most] or [most]:
        while missing := run.missing(look):
            if run.done and stop() and not run.worth(missing):
                return run.judged()
            if not run.add(missing):
                return Confirmation({}, {}, tuple(run.failures))
        if look == LOOKS[0] and look < most and run.elapsed_s < _CHEAP_S:
            continue  # more pairs are cheap and make the interval narrower
        result = run.judged()
        run.undecided = [
            competitor for competitor in run.undecided if not result.decided(competitor)
        ]
        if not run.undecided or (run.lacks_pairs() and run.elapsed_s > _NEEDED_S):
            break
    return run.judged()


class _Rounds:
    """The blocks that were timed so far."""

    def __init__(
        self, session: Session, challenger: int, competitors: list[int], clock: Callable[[], float]
    ) -> None:
        self._session, self._challenger, self._clock = session, challenger, clock
        self._collected: dict[int, list[Block]] = {
            kernel: [] for kernel in [challenger, *competitors]
        }
        self._started = clock()
        self.undecided = competitors
        self.failures: list[Failure] = []
        self.done = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    def worth(self, rounds: int) -> bool:
        """Whether to add this many rounds although the time is over."""
        costs_s = self.elapsed_s / self.done * rounds
        return costs_s <= _WORTH_S or (self.lacks_pairs() and self.elapsed_s + costs_s <= _NEEDED_S)

    def lacks_pairs(self) -> bool:
        """Whether a competitor has too few pairs for any interval."""
        gains = self.judged().gains
        return any(not gains[competitor].supported for competitor in self.undecided)

    def missing(self, pairs: int) -> int:
        """How many rounds to add so that all undecided competitors may have this many pairs."""
        if self.done and not self.undecided:
            return 0
        challenger = self._collected[self._challenger]
        kept = [
            len(undisturbed_pairs(self._collected[competitor], challenger))
            for competitor in self.undecided
        ]
        fewest = min(kept, default=self.done)
        return max(0, min(pairs - fewest, _ROUNDS_PER_PAIR * pairs - self.done))

    def add(self, rounds: int) -> bool:
        """Time further rounds; False if the challenger fails."""
        blocks, failed = self._session.time([self._challenger, *self.undecided], rounds)
        self.failures += failed
        for failure in failed:
            self._collected.pop(failure.kernel, None)
        if self._challenger not in self._collected:
            return False
        for block in blocks:
            # Rounds of later looks are numbered on, so that pairs stay pairs.
            later = replace(block, round=block.round + self.done) if self.done else block
            self._collected[block.kernel].append(later)
        self.done += rounds
        self.undecided = [
            competitor for competitor in self.undecided if competitor in self._collected
        ]
        return True

    def judged(self) -> Confirmation:
        """The confirmation from the rounds so far."""
        challenger = self._collected[self._challenger]
        gains = {
            competitor: paired_ratio(blocks, challenger, 1.0 - ALPHA / len(LOOKS))
            for competitor, blocks in self._collected.items()
            if competitor != self._challenger
        }
        blocks = {kernel: tuple(blocks) for kernel, blocks in self._collected.items()}
        return Confirmation(blocks, gains, tuple(self.failures))
