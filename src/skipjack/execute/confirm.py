"""Is the challenger really faster? A paired sequential test on fresh, interleaved blocks.

The test looks at the pairs a few times while they come in. Each look uses its share of the error
probability (Bonferroni), so that the whole test keeps the stated alpha. From ten pairs on, the
interval for the median ratio is distribution-free. To be confirmed, the gain must exceed the
smallest effect worth having. Only undisturbed pairs count: rounds that were disturbed are made up
for, up to a limit, and what then has too few is called noisy.
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
LOOKS = (5, 10, 20, 40)
"""After so many undisturbed pairs of each comparison that is not decided yet."""
_ROUNDS_PER_PAIR = 4
"""A machine that disturbs more rounds than that is too noisy."""
_CHEAP_S = 0.2
_WORTH_S, _NEEDED_S = 1.0, 4.0
"""Rounds that take less are added also after the time is over: a slow default is worse. Where
nothing at all can be said yet, the whole confirmation may take the second of these."""


class Session(Protocol):
    """The one verb of a run session that is needed here."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """A block of each kernel in every round, round by round, and those that failed.

        What fails is in no block. Disturbed blocks are given and say so.
        """
        ...


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Blocks of all contenders, and the challenger's gain over each rival."""

    blocks: Mapping[int, tuple[Block, ...]]
    gains: Mapping[int, Ratio]
    failures: tuple[Failure, ...] = ()

    def confirmed(self, rival: int) -> bool:
        """The challenger is faster than this rival by at least the minimum effect."""
        gain = self.gains.get(rival)
        return gain is not None and _claims_gain(gain) and not gain.vague

    def beaten_by(self, rival: int) -> bool:
        """The rival is faster than the challenger by at least the minimum effect."""
        gain = self.gains.get(rival)
        return gain is not None and gain.supported and gain.high < 1.0 / (1.0 + MIN_EFFECT)

    def decided(self, rival: int) -> bool:
        """More pairs would not change the answer."""
        gain = self.gains[rival]
        return gain.supported and (self.confirmed(rival) or gain.high < 1.0 + MIN_EFFECT)

    def noisy(self, rival: int) -> bool:
        """Too many of the rounds were disturbed to say which of the two is faster, or how much."""
        gain = self.gains.get(rival)
        return gain is not None and (gain.noisy or (_claims_gain(gain) and gain.vague))


def _claims_gain(gain: Ratio) -> bool:
    return gain.supported and gain.low > 1.0 + MIN_EFFECT


def confirm(
    session: Session,
    challenger: int,
    rivals: Sequence[int],
    most: int = LOOKS[-1],
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Confirmation:
    """Time the challenger beside its rivals until every comparison is decided, or `most` pairs.

    Rivals that are decided stay out of later looks. Once `stop` holds, further rounds are begun
    only where they take little time; somewhat more where nothing at all could be said yet.
    """
    run = _Rounds(session, challenger, list(rivals), clock)
    for look in [look for look in LOOKS if look <= most] or [most]:
        while missing := run.missing(look):
            if run.done and stop() and not run.worth(missing):
                return run.judged()
            if not run.add(missing):
                return Confirmation({}, {}, tuple(run.failures))
        if look == LOOKS[0] and look < most and run.elapsed_s < _CHEAP_S:
            continue  # more pairs cost next to nothing and make the interval narrow
        result = run.judged()
        run.undecided = [rival for rival in run.undecided if not result.decided(rival)]
        if not run.undecided or (run.lacks_pairs() and run.elapsed_s > _NEEDED_S):
            break
    return run.judged()


class _Rounds:
    """What was timed so far."""

    def __init__(
        self, session: Session, challenger: int, rivals: list[int], clock: Callable[[], float]
    ) -> None:
        self._session, self._challenger, self._clock = session, challenger, clock
        self._collected: dict[int, list[Block]] = {kernel: [] for kernel in [challenger, *rivals]}
        self._started = clock()
        self.undecided = rivals
        self.failures: list[Failure] = []
        self.done = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    def worth(self, rounds: int) -> bool:
        """Whether to add so many although the time is over."""
        costs_s = self.elapsed_s / self.done * rounds
        return costs_s <= _WORTH_S or (self.lacks_pairs() and self.elapsed_s + costs_s <= _NEEDED_S)

    def lacks_pairs(self) -> bool:
        """Whether there is a rival with too few pairs for any interval."""
        gains = self.judged().gains
        return any(not gains[rival].supported for rival in self.undecided)

    def missing(self, pairs: int) -> int:
        """How many rounds to add so that all that is undecided may have so many pairs."""
        if self.done and not self.undecided:
            return 0
        challenger = self._collected[self._challenger]
        kept = [
            len(undisturbed_pairs(self._collected[rival], challenger)) for rival in self.undecided
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
            # Rounds of later looks go on counting, so that pairs stay pairs.
            later = replace(block, round=block.round + self.done) if self.done else block
            self._collected[block.kernel].append(later)
        self.done += rounds
        self.undecided = [rival for rival in self.undecided if rival in self._collected]
        return True

    def judged(self) -> Confirmation:
        """What the rounds say."""
        challenger = self._collected[self._challenger]
        gains = {
            rival: paired_ratio(blocks, challenger, 1.0 - ALPHA / len(LOOKS))
            for rival, blocks in self._collected.items()
            if rival != self._challenger
        }
        blocks = {kernel: tuple(blocks) for kernel, blocks in self._collected.items()}
        return Confirmation(blocks, gains, tuple(self.failures))
