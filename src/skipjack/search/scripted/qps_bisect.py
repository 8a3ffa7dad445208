"""QPSBisect: one step of a bisection of the target load, worked out from all that was run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skipjack.errors import UsageError
from skipjack.search.scripted.bisect import Bisect
from skipjack.search.scripted.contract import Run

PARAMETER = "server_target_qps"

PastRun = tuple[Mapping[str, Any], Any]
"""A point and its stats; a `Run` is one."""


class QPSBisect:
    """A bisection of ``server_target_qps`` over ``range(lb, ub, ss)``, made anew for each step.

    It knows nothing but the history. The last good and the last bad value in it are the ends of
    what is left; good is a run that says VALID. The lower bound is run if all others were bad. A
    history that mixes several searches must be filtered before; None is one without runs.
    """

    def __init__(
        self, lb: int, ub: int, ss: int, past_runs: Iterable[PastRun] | None = None
    ) -> None:
        self._next = _next_value(lb, ub, ss, past_runs or ())

    def get_next_cross(self) -> dict[str, Any] | None:
        """The next point, in a dict of the caller's own; None at the end."""
        return None if self._next is None else {PARAMETER: self._next}


def _next_value(lb: int, ub: int, ss: int, past_runs: Iterable[PastRun]) -> int | None:
    bisect = Bisect(PARAMETER, lb, ub, ss, lambda run: run["result_validity"] == "VALID")
    candidates = bisect.candidates
    low, high = 0, len(candidates)
    tried = set()
    for point, stats in past_runs:
        value = point.get(PARAMETER) or 0
        if value not in candidates:
            if value == 0:  # not set
                continue
            raise UsageError(
                f"QPSBisect was given a past run at {PARAMETER}={value!r}, which is none of "
                f"{lb} to {ub} by {ss}; hand it only the runs of this search"
            )
        place = candidates.index(value)
        tried.add(place)
        if bisect.was_good(Run(point, stats)):
            low = place
        else:
            high = place
    middle = (low + high) // 2
    return None if middle in tried else candidates[middle]
