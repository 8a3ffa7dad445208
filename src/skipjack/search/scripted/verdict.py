"""Whether a run is good, as a searcher asks it: failing runs are bad without asking anybody."""

from __future__ import annotations

from typing import Any

from skipjack.errors import blaming
from skipjack.search.scripted.contract import Predicate, Run, held


def is_good(run: Run | None, predicate: Predicate, owner: str) -> bool:
    """Whether a run holds by the predicate of `owner`; what that raises is blamed on it."""
    with blaming(f"the predicate of {owner}"):
        return held(run, predicate)


def as_run(result: Any) -> Run | None:
    """A run, from a run or from its bare stats."""
    return result if result is None or isinstance(result, Run) else Run({}, result)
