"""Calls whose problems are still being searched: when a bank knows them, they are decided again.

A thread looks at the banks once in a while, and has the next such call ask Python again, so that
kernels race PyTorch's in the program's own thread. In the background it also tells the searches how
much kernel time the program has used, of which they may take a share.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.table import TableEntry
from skipjack.runtime import TuningPolicy, lookup, tuning_policy
from skipjack.runtime.online import account_of_program
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_MOST_TRIES = 3
"""A search that did not begin in time is asked for this often."""


@dataclass(slots=True)
class _Watched:
    entry: TableEntry
    decision: TorchDecision
    policy: TuningPolicy
    pauses: int = 0
    counted: int = 0
    """Calls that the searches were told of."""


class SearchWatcher:
    """Watches while there is something to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[tuple[int, ...], _Watched] = {}
        self._tries: dict[tuple[int, ...], int] = {}
        self._thread: threading.Thread | None = None

    def watch(
        self,
        words: tuple[int, ...],
        entry: TableEntry,
        decision: TorchDecision,
        policy: TuningPolicy,
    ) -> None:
        """Have a call decided again when a bank knows its problems."""
        with self._lock:
            tries = self._tries[words] = self._tries.get(words, 0) + 1
            if tries > _MOST_TRIES:
                return
            self._watched[words] = _Watched(entry, decision, policy)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skipjack torch", daemon=True
                )
                self._thread.start()

    def forget(self) -> None:
        """Watch nothing any more."""
        with self._lock:
            self._watched.clear()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(_PAUSE_S)
            with self._lock:
                watched = dict(self._watched)
                if not watched:
                    self._thread = None
                    return
            try:
                self._count(list(watched.values()))
            except Exception:  # the program has nothing to do with it
                log.debug("searches cannot be told what the program's calls took", exc_info=True)
            for words, one in watched.items():
                one.pauses += 1
                if self._is_due(one):
                    with self._lock:
                        self._watched.pop(words, None)
                    one.entry.ask_again()

    def _is_due(self, one: _Watched) -> bool:
        if all(
            _is_known(problem, one.decision) for problem in (one.decision.problem or "").split()
        ):
            return True
        if one.policy.background:
            return False
        return one.pauses * _PAUSE_S > 2.0 + (one.policy.seconds or 5.0)

    def _count(self, watched: list[_Watched]) -> None:
        """Tell searches in the background what the program's calls took."""
        taken = 0.0
        for one in watched:
            calls = one.entry.torch_calls
            if one.policy.background and one.decision.before_ns:
                taken += (calls - one.counted) * one.decision.before_ns
            one.counted = calls
        if taken:
            account_of_program(load_settings().user_dir).add(kernel_ns=int(taken))


def _is_known(problem: str, decision: TorchDecision) -> bool:
    try:
        with tuning_policy("db"):
            return lookup(problem, device=decision.device, banks_only=True) is not None
    except Exception:  # who asks for the problem next is told what is wrong
        log.debug("banks cannot be asked about %s", problem, exc_info=True)
        return False
