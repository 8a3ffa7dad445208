"""Statistics of noisy times: blocks of samples, which of them count, medians, paired ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, exp, inf, isfinite, log, nan
from statistics import median
from typing import Any

import numpy as np

SENTINEL_DRIFT = 0.05
"""The machine's speed changed if its sentinels differ by more than this share."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive samples of one kernel, and the sentinels around them."""

    kernel: int
    round: int
    calls: int
    samples_ns: tuple[float, ...]
    """The undisturbed samples; all samples if each was disturbed."""
    sentinel_ns: tuple[float, ...]
    disturbed: bool
    """Whether something else ran during each of the samples."""
    dropped: int = 0
    """The number of disturbed samples that were left out."""

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Block:
        """The block that a run worker sent."""
        return cls(
            record["kernel"],
            record["round"],
            record["calls"],
            tuple(record["samples_ns"]),
            tuple(record["sentinel_ns"]),
            record["disturbed"],
            record["dropped"],
        )

    @property
    def time_ns(self) -> float:
        """The median of the samples."""
        return median(self.samples_ns)

    @property
    def steady(self) -> bool:
        """Whether the machine was as fast after this block's round as before it."""
        sentinel = self.sentinel_ns or (1.0,)
        return max(sentinel) <= min(sentinel) * (1.0 + SENTINEL_DRIFT)

    def drifted(self, best_sentinel_ns: float) -> bool:
        """Whether the machine was slower around this block than it can be."""
        return max(self.sentinel_ns, default=0.0) > best_sentinel_ns * (1.0 + SENTINEL_DRIFT)


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of a kernel from its blocks."""

    time_ns: float
    spread: float
    """Interquartile range over median."""
    samples: int
    set_aside: int
    """Samples not counted because the machine was disturbed."""


def undisturbed(blocks: Sequence[Block], best_sentinel_ns: float | None = None) -> list[Block]:
    """The blocks that count: those that were not disturbed and ran at the machine's full speed.

    If none ran at full speed, all that were not disturbed. If each was disturbed, all of them: a
    search needs some number to continue; a decision needs undisturbed pairs.
    """
    if best_sentinel_ns is None:
        best_sentinel_ns = best_sentinel(blocks)
    quiet = [block for block in blocks if not block.disturbed]
    return [b for b in quiet if not b.drifted(best_sentinel_ns)] or quiet or list(blocks)


def by_kernel(blocks: Iterable[Block]) -> dict[int, list[Block]]:
    """The blocks of each kernel, in the order in which they were timed."""
    found: dict[int, list[Block]] = {}
    for block in blocks:
        found.setdefault(block.kernel, []).append(block)
    return found


def best_sentinel(blocks: Iterable[Block]) -> float:
    """The fastest time of the sentinel."""
    return min((ns for block in blocks for ns in block.sentinel_ns), default=float("inf"))


def summarize(blocks: Sequence[Block], best_sentinel_ns: float | None = None) -> Timing:
    """Median and spread over the undisturbed samples."""
    good = undisturbed(blocks, best_sentinel_ns)
    samples = np.concatenate([block.samples_ns for block in good])
    low, middle, high = np.percentile(samples, [25, 50, 75])
    total = sum(len(block.samples_ns) + block.dropped for block in blocks)
    return Timing(float(middle), float((high - low) / middle), len(samples), total - len(samples))


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster, with a confidence interval."""

    ratio: float
    low: float
    high: float
    confidence: float = 0.99
    pairs: int = 0
    """Rounds in which neither was disturbed, from which the ratio is."""
    left_out: int = 0
    """Rounds in which one of the two was disturbed, or the machine changed its speed."""

    @property
    def supported(self) -> bool:
        """Whether there are enough pairs for an interval."""
        return self.pairs >= _FEWEST

    @property
    def noisy(self) -> bool:
        """Whether too few pairs are left because the others were disturbed."""
        return not self.supported and self.left_out > 0

    @property
    def vague(self) -> bool:
        """Whether the interval is so wide that one of the two was disturbed, noticed or not."""
        return self.supported and self.high > _WIDEST * self.low

    def to_json(self) -> dict[str, Any]:
        """Numbers for JSON, with None for NaN, which JSON does not have."""
        return {
            "ratio": _rounded(self.ratio),
            "low": _rounded(self.low),
            "high": _rounded(self.high),
            "confidence": self.confidence,
            "pairs": self.pairs,
            "left_out": self.left_out,
        }


def _rounded(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


def median_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """An interval for the median from order statistics: exact whatever the distribution.

    With too few values for the confidence asked for, it spans all of them.
    """
    ordered = sorted(values)
    count = len(ordered)
    tail, rank = 0.0, 0
    for k in range(count // 2):
        tail += comb(count, k) / 2.0**count
        if 2.0 * tail > 1.0 - confidence:
            break
        rank = k
    return ordered[rank], ordered[count - 1 - rank]


_FEWEST = 4
_WIDEST = 10.0
"""Largest ratio of an interval's ends: on a quiet machine they are a few percent apart."""
_STUDENT_CONFIDENCE = 0.9975
_STUDENT = {3: 9.465, 4: 6.758, 5: 5.604, 6: 4.981, 7: 4.595, 8: 4.334, 9: 4.146}
"""Two-sided quantiles of Student's distribution at that confidence, by degrees of freedom."""


def log_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """An interval for the center of some log ratios.

    With enough values for the confidence it is from order statistics, which assume nothing. Slow
    kernels have fewer values: then it is Student's interval, which assumes that log ratios of
    neighboring blocks are normal. With fewer than four values the interval is infinite.
    """
    count = len(values)
    if 2.0 * 0.5**count <= 1.0 - confidence:
        return median_interval(values, confidence)
    if count < _FEWEST or confidence > _STUDENT_CONFIDENCE:
        return -inf, inf
    middle, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    half = _STUDENT[count - 1] * spread / count**0.5
    return middle - half, middle + half


def undisturbed_pairs(
    slower: Sequence[Block], faster: Sequence[Block]
) -> list[tuple[Block, Block]]:
    """Blocks of the same rounds, neither of them disturbed.

    A long call is disturbed more often than a short one, so pairs with a disturbed block would make
    the shorter one look faster than it is. A machine that is slowed down by work on other cores
    slows both kernels; if its speed changed within a round, the pair is left out, unless most
    rounds are like that.
    """
    other = {block.round: block for block in faster}
    quiet = [
        (block, other[block.round])
        for block in slower
        if block.round in other and not (block.disturbed or other[block.round].disturbed)
    ]
    steady = [(a, b) for a, b in quiet if a.steady and b.steady]
    return steady if 2 * len(steady) >= len(quiet) else quiet


def paired_ratio(
    slower: Sequence[Block], faster: Sequence[Block], confidence: float = 0.99
) -> Ratio:
    """How many times faster the second is than the first, from interleaved blocks."""
    logs = [log(a.time_ns / b.time_ns) for a, b in undisturbed_pairs(slower, faster)]
    rounds = {block.round for block in slower} & {block.round for block in faster}
    left_out = len(rounds) - len(logs)
    if not logs:
        return Ratio(nan, nan, nan, confidence, 0, left_out)
    low, high = log_interval(logs, confidence)
    return Ratio(exp(median(logs)), exp(low), exp(high), confidence, len(logs), left_out)
