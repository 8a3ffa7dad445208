"""A gate for continuous integration: conditions that a comparison must meet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.fleet.release.compare.comparison import Comparison, ComparisonOutcome
from skipjack.reading import numbered

_PERCENT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*%")
_MOST_PERCENT = 1000.0
_ROUNDING = 1e-9
"""Rounding error of ratios; a share that exceeds its limit by less is at the limit."""
_DIGITS = range(3, 13)


@dataclass(frozen=True, slots=True)
class Gate:
    """The conditions of a gate; None disables a condition."""

    slower: float | None = None
    """The largest slowdown, as a share, that a problem may certainly have."""
    mean_slower: float | None = None
    """The largest slowdown, as a share, of the geometric mean."""
    missing: bool = False
    """Whether all problems and devices of the baseline must be present."""

    @property
    def closed(self) -> bool:
        """Whether any condition is enabled."""
        return self.slower is not None or self.mean_slower is not None or self.missing

    def failure(self, comparison: Comparison) -> str:
        """A sentence with the violated conditions; empty if the gate passes."""
        checks = [
            self._impossible(comparison),
            self._slower(comparison),
            self._mean(comparison),
            *self._missing(comparison),
        ]
        failures = [why for why in checks if why]
        if not failures and self.closed and not comparison.compared:
            failures = ["no problem was compared"]
        return ", and ".join(failures)

    def _impossible(self, comparison: Comparison) -> str:
        """Impossible new times of problems for which the baseline has a valid time."""
        if not self.closed:
            return ""
        failed = [
            one
            for one in comparison.of(ComparisonOutcome.IMPOSSIBLE)
            if one.new and one.old and one.old.possible and not one.new.possible
        ]
        if not failed:
            return ""
        verb = "has an impossible new time" if len(failed) == 1 else "have impossible new times"
        return (
            f"{numbered(len(failed), 'problem')} {verb} "
            f"(first: {failed[0].name}, {failed[0].reason})"
        )

    def _slower(self, comparison: Comparison) -> str:
        if self.slower is None:
            return ""
        limit = self.slower
        failed = [
            one
            for one in comparison.of(ComparisonOutcome.SLOWER)
            if _exceeds(one.sure_slowdown, limit)
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
        gone = [one.name for one in comparison.of(ComparisonOutcome.MISSING)]
        yield _gone("problem", gone)
        yield _gone("device", [one for one in comparison.left_out if one in comparison.old.devices])


def _exceeds(share: float, limit: float) -> bool:
    return share > limit + _ROUNDING


def _apart(share: float, limit: float) -> tuple[str, str]:
    """Both as text, with enough digits to distinguish them."""
    texts = ((percent(share, digits), percent(limit, digits)) for digits in _DIGITS)
    return next((both for both in texts if both[0] != both[1]), (percent(share), percent(limit)))


def _gone(noun: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"{numbered(len(names), noun)} of the baseline {verb} missing (first: {names[0]})"


def parse_percent(text: str, option: str) -> float:
    """``2%`` or ``0.5 %`` as a share. The sign is required, as 2 and 0.02 are easily confused."""
    found = _PERCENT.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{option} is {text!r}; write a percentage such as 2% or 0.5%")
    value = float(found[1])
    if value > _MOST_PERCENT:
        raise UsageError(f"{option} is {text}; the maximum is {_MOST_PERCENT:g}%")
    return value / 100


def percent(share: float, digits: int = 3) -> str:
    """A share as a percentage: ``2 %``, ``0.5 %``."""
    return f"{100 * share:.{digits}g} %"
