"""A gate for continuous integration: whether a comparison is good enough to go on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.fleet.release.compare.comparing import Comparison
from skipjack.fleet.release.compare.verdicts import Verdict
from skipjack.fleet.release.export.contents import numbered

_PERCENT = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*%")
_MOST_PERCENT = 1000.0


@dataclass(frozen=True, slots=True)
class Gate:
    """What must not happen. None is never asked."""

    slower: float | None = None
    """The share by which no problem may be slower beyond doubt."""
    mean_slower: float | None = None
    """The share by which the geometric mean may not be slower."""
    missing: bool = False
    """No problem of the baseline may be missing."""

    @property
    def closed(self) -> bool:
        """Whether anything is asked at all."""
        return self.slower is not None or self.mean_slower is not None or self.missing

    def failure(self, comparison: Comparison) -> str:
        """One sentence that says why it does not pass; empty if it does."""
        asked = [self._slower(comparison), self._mean(comparison), self._missing(comparison)]
        said = [why for why in asked if why]
        if not said and self.closed and not comparison.compared:
            said = ["nothing was compared, so nothing is known"]
        return ", and ".join(said)

    def _slower(self, comparison: Comparison) -> str:
        if self.slower is None:
            return ""
        limit = self.slower
        failed = [one for one in comparison.of(Verdict.SLOWER) if one.sure_slowdown > limit]
        if not failed:
            return ""
        worst = min(failed, key=lambda one: one.gain or 1.0)
        verb = "is" if len(failed) == 1 else "are"
        return (
            f"{len(failed)} of {len(comparison.compared)} problems {verb} slower by more than "
            f"{percent(limit)} beyond doubt (worst: {worst.name}, "
            f"{percent(1 / (worst.gain or 1.0) - 1)} slower)"
        )

    def _mean(self, comparison: Comparison) -> str:
        if self.mean_slower is None:
            return ""
        slower = 1 / comparison.mean.gain - 1
        if slower <= self.mean_slower:
            return ""
        return (
            f"the geometric mean is {percent(slower)} slower, "
            f"more than the {percent(self.mean_slower)} that is allowed"
        )

    def _missing(self, comparison: Comparison) -> str:
        gone = comparison.of(Verdict.MISSING) if self.missing else []
        if not gone:
            return ""
        verb = "is" if len(gone) == 1 else "are"
        many = numbered(len(gone), "problem")
        return f"{many} of the baseline {verb} missing (first: {gone[0].name})"


def parse_percent(text: str, option: str) -> float:
    """``2%`` or ``0.5 %`` as a share. A bare number is refused: 2 and 0.02 are too easily mixed."""
    found = _PERCENT.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{option} takes a percentage as 2% or 0.5%, {text!r} is none")
    value = float(found[1])
    if value > _MOST_PERCENT:
        raise UsageError(f"{option} is {text}: more than {_MOST_PERCENT:g}% is no limit")
    return value / 100


def percent(share: float) -> str:
    """``2 %``, ``0.5 %``."""
    return f"{100 * share:.3g} %"
