"""Is the challenger really faster? A paired sequential test on fresh, interleaved blocks.

The test looks at the pairs a few times while they come in. Each look uses its share of the error
probability (Bonferroni), so that the whole test keeps the stated alpha. From ten pairs on, the
interval for the median ratio is distribution-free. To be confirmed, the gain must exceed the
smallest effect worth having.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block, Ratio, paired_ratio

ALPHA = 0.01
MIN_EFFECT = 0.01
LOOKS = (5, 10, 20, 40)
_CHEAP_S = 0.2
_WORTH_S = 1.0
"""A further look that takes less is taken also after the time is over: a slow default is worse."""


class Session(Protocol):
    """The one verb of a run session that is needed here."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels, and those that failed."""
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
        return gain is not None and gain.supported and gain.low > 1.0 + MIN_EFFECT

    def beaten_by(self, rival: int) -> bool:
        """The rival is faster than the challenger by at least the minimum effect."""
        gain = self.gains.get(rival)
        return gain is not None and gain.supported and gain.high < 1.0 / (1.0 + MIN_EFFECT)

    def decided(self, rival: int) -> bool:
        """More pairs would not change the answer."""
        gain = self.gains[rival]
        return gain.supported and (self.confirmed(rival) or gain.high < 1.0 + MIN_EFFECT)


def confirm(
    session: Session,
    challenger: int,
    rivals: Sequence[int],
    most: int = LOOKS[-1],
    stop: Callable[[], bool] = lambda: False,
) -> Confirmation:
    """Time the challenger beside its rivals until every comparison is decided, or `most` pairs.

    Rivals that are decided stay out of later looks. Once `stop` holds, a further look is begun only
    where it takes little time, or too many pairs were disturbed to say anything at all.
    """
    collected: dict[int, list[Block]] = {kernel: [] for kernel in [challenger, *rivals]}
    failures: list[Failure] = []
    undecided = list(rivals)
    result = Confirmation({}, {})
    done = 0
    started = time.monotonic()
    looks = [look for look in LOOKS if look <= most] or [most]
    for look, following in zip(looks, [*looks[1:], most], strict=True):
        blocks, failed = session.time([challenger, *undecided], look - done)
        failures += failed
        for failure in failed:
            collected.pop(failure.kernel, None)
        if challenger not in collected:
            return Confirmation({}, {}, tuple(failures))
        for block in blocks:
            collected[block.kernel].append(_numbered(block, done))
        done = look
        undecided = [rival for rival in undecided if rival in collected]
        if look == LOOKS[0] and look < most and time.monotonic() - started < _CHEAP_S:
            continue  # more pairs cost next to nothing and make the interval narrow
        result = _judge(challenger, collected, failures)
        undecided = [rival for rival in undecided if not result.decided(rival)]
        unheard = [rival for rival in undecided if not result.gains[rival].supported]
        costs_s = (time.monotonic() - started) / done * (following - done)
        if not undecided or (stop() and not unheard and costs_s > _WORTH_S):
            break
    return result


def _judge(
    challenger: int, collected: Mapping[int, list[Block]], failures: list[Failure]
) -> Confirmation:
    gains = {
        rival: paired_ratio(blocks, collected[challenger], 1.0 - ALPHA / len(LOOKS))
        for rival, blocks in collected.items()
        if rival != challenger
    }
    blocks = {kernel: tuple(blocks) for kernel, blocks in collected.items()}
    return Confirmation(blocks, gains, tuple(failures))


def _numbered(block: Block, offset: int) -> Block:
    """Rounds of later looks go on counting, so that pairs stay pairs."""
    return replace(block, round=block.round + offset)
