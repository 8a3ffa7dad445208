"""A gate for continuous integration: whether a comparison is good enough to go on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.fleet.release.compare.comparing import Comparison
from skipjack.fleet.release.compare.verdicts import Verdict
from skipjack.reading import numbered

_PERCENT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*%")
_MOST_PERCENT = 1000.0
_ROUNDING = 1e-9
"""Ratios of times are that exact; a share this much above its limit is at the limit."""
_DIGITS = range(3, 13)


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not happen. None is never asked."""

    slower: float | None = None
    """The share by which no problem may be slower beyond doubt."""
    mean_slower: float | None = None
    """The share by which the geometric mean may not be slower."""
    missing: bool = False
    """No problem and no device of the baseline may be missing."""

    @property
    def closed(self) -> bool:
        """Whether anything is asked at all."""
        return self.slower is not None or self.mean_slower is not None or self.missing

    def failure(self, comparison: Comparison) -> str:
        """One sentence that says why it does not pass; empty if it does."""
        asked = [
            self._impossible(comparison),
            self._slower(comparison),
            self._mean(comparison),
            *self._missing(comparison),
        ]
        said = [why for why in asked if why]
        if not said and self.closed and not comparison.compared:
            said = ["nothing was compared, so nothing is known"]
        return ", and ".join(said)

    def _impossible(self, comparison: Comparison) -> str:
        """A time that cannot be says nothing, where the baseline says something."""
        if not self.closed:
            return ""
        failed = [
            one
            for one in comparison.of(Verdict.IMPOSSIBLE)
            if one.new and one.old and one.old.possible and not one.new.possible
        ]
        if not failed:
            return ""
        verb = "has a new time" if len(failed) == 1 else "have new times"
        return (
            f"{numbered(len(failed), 'problem')} {verb} that cannot be "
            f"(first: {failed[0].name}, {failed[0].reason})"
        )

    def _slower(self, comparison: Comparison) -> str:
        if self.slower is None:
            return ""
        limit = self.slower
        failed = [
            one for one in comparison.of(Verdict.SLOWER) if _exceeds(one.sure_slowdown, limit)
        ]
        if not failed:
            return ""
        worst = min(failed, key=lambda one: one.gain or 1.0)
        by, most = _apart(1 / (worst.gain or 1.0) - 1, limit)
        verb = "is" if len(failed) == 1 else "are"
        return (
            f"{len(failed)} of {numbered(len(comparison.compared), 'problem')} {verb} slower by "
            f"more than {most} beyond doubt (worst: {worst.name}, {by} slower)"
        )

    def _mean(self, comparison: Comparison) -> str:
        if self.mean_slower is None:
            return ""
        slower = 1 / comparison.mean.gain - 1
        if not _exceeds(slower, self.mean_slower):
            return ""
        by, most = _apart(slower, self.mean_slower)
        return f"the geometric mean is {by} slower, more than the {most} that is allowed"

    def _missing(self, comparison: Comparison) -> Iterator[str]:
        if not self.missing:
            return
        gone = [one.name for one in comparison.of(Verdict.MISSING)]
        yield _gone("problem", gone)
        yield _gone("device", [one for one in comparison.left_out if one in comparison.old.devices])


def _exceeds(share: float, limit: float) -> bool:
    return share > limit + _ROUNDING


def _apart(share: float, limit: float) -> tuple[str, str]:
    """Both for people, with as many digits as tell them apart."""
    texts = ((percent(share, digits), percent(limit, digits)) for digits in _DIGITS)
    return next((both for both in texts if both[0] != both[1]), (percent(share), percent(limit)))


def _gone(noun: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{numbered(len(names), noun)} of the baseline {verb} missing (first: {names[0]})"


def parse_percent(text: str, option: str) -> float:
    """``2%`` or ``0.5 %`` as a share. A bare number is refused: 2 and 0.02 are too easily mixed."""
    found = _PERCENT.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{option} takes a percentage as 2% or 0.5%, {text!r} is none")
    value = float(found[1])
    if value > _MOST_PERCENT:
        raise UsageError(f"{option} is {text}: more than {_MOST_PERCENT:g}% is no limit")
    return value / 100


def percent(share: float, digits: int = 3) -> str:
    """``2 %``, ``0.5 %``."""
    return f"{100 * share:.{digits}g} %"
