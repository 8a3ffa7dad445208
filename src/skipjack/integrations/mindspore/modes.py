"""AutoTune's modes, and what they are here: which classes of operations are tuned, and by whom.

``RL`` is the learned policy on vector operations (broadcast, reduce, elementwise), ``GA`` the
genetic search on cube operations (convolutions and products of matrices).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError

GRAPH_MODE, PYNATIVE_MODE = 0, 1
NO_TUNE = "NO_TUNE"
AUTO_TUNE_MODES = (NO_TUNE, "RL", "GA", "RL,GA", "GA,RL")
_SEARCHERS = {"RL": ("vector", "policy"), "GA": ("cube", "genetic")}


def searchers_of(mode: str) -> dict[str, str]:
    """The searcher for each class of operations that a mode tunes; none for ``NO_TUNE``.

    A mode that is not known is a `UsageError`.
    """
    if mode not in AUTO_TUNE_MODES:
        hint = did_you_mean(str(mode), AUTO_TUNE_MODES)
        known = ", ".join(AUTO_TUNE_MODES[:-2])
        raise UsageError(f"there is no mode {mode!r}; there are {known}, RL,GA and GA,RL{hint}")
    return dict(_SEARCHERS[word] for word in mode.split(",") if word in _SEARCHERS)


def mode_policy(searchers: Mapping[str, str]) -> str:
    """The policy of a mode: without a searcher banks answer, and nothing is searched."""
    return "incremental" if searchers else "db"


def auto_tune_mode(searchers: Iterable[tuple[str, str]]) -> str:
    """The mode that these searchers are; empty if none is."""
    given = set(searchers)
    words = [word for word, pair in _SEARCHERS.items() if pair in given]
    return ",".join(words) if words and len(words) == len(given) else ""
