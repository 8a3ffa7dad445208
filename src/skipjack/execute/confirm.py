"""Is the challenger really faster? A paired sequential test on fresh, interleaved blocks.

The test looks at the pairs a few times while they come in. Each look uses its share of the error
probability (Bonferroni), so that the whole test keeps the stated alpha. The interval for the median
ratio is distribution-free. To be confirmed, the gain must exceed the smallest effect worth having.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block, Ratio, paired_ratio

ALPHA = 0.01
MIN_EFFECT = 0.01
LOOKS = (10, 20, 40)


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
    session: Session, challenger: int, rivals: Sequence[int], most: int = LOOKS[-1]
) -> Confirmation:
    """Time the challenger beside its rivals until every comparison is decided, or `most` pairs."""
    contenders = [challenger, *rivals]
    collected: dict[int, list[Block]] = {kernel: [] for kernel in contenders}
    failures: list[Failure] = []
    confidence = 1.0 - ALPHA / len(LOOKS)
    result = Confirmation({}, {})
    done = 0
    for look in [look for look in LOOKS if look <= most] or [most]:
        blocks, failed = session.time(contenders, look - done)
        failures += failed
        contenders = [kernel for kernel in contenders if kernel not in {f.kernel for f in failed}]
        for block in blocks:
            collected[block.kernel].append(_numbered(block, done))
        done = look
        if challenger not in contenders:
            break
        gains = {
            rival: paired_ratio(collected[rival], collected[challenger], confidence)
            for rival in contenders
            if rival != challenger
        }
        result = Confirmation(
            {kernel: tuple(collected[kernel]) for kernel in contenders}, gains, tuple(failures)
        )
        if all(result.decided(rival) for rival in gains):
            break
    return result if challenger in contenders else Confirmation({}, {}, tuple(failures))


def _numbered(block: Block, offset: int) -> Block:
    """Rounds of later looks go on counting, so that pairs stay pairs."""
    return replace(block, round=block.round + offset)
