"""Which trial is better: less is, and a failing one ranks last."""

from __future__ import annotations

import math
from collections.abc import Iterable

from skipjack.core.trial import Trial


def cost(trial: Trial) -> float:
    """The trial's value, infinite if it failed."""
    value = trial.value if trial.ok else None
    return math.inf if value is None or math.isnan(value) else value


def best(trials: Iterable[Trial]) -> Trial | None:
    """The first of the cheapest trials that did not fail."""
    found = min(trials, key=cost, default=None)
    return None if found is None or math.isinf(cost(found)) else found


def worsening(old: float, new: float) -> float:
    """By what factor it got worse, as a logarithm; negative if it got better.

    Values are times or, where more is better, negated rates: all of one sign as a rule. Where
    signs differ the relative difference has to do.
    """
    if old > 0 and new > 0:
        return math.log(new / old)
    if old < 0 and new < 0:
        return math.log(old / new)
    return (new - old) / max(abs(new), abs(old), 1e-300)
