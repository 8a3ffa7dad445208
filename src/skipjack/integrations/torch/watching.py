"""Calls whose problems are still being searched: when a bank knows them, they are decided again.

A thread looks at the banks once in a while, and has the next such call ask Python again, so that
kernels race PyTorch's in the program's own thread. In the background this thread also asks for the
searches, one after the other, for the calls first that have taken the most time; and it tells the
searches how much kernel time the program has used, of which they may take a share.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.table import TableEntry
from skipjack.runtime import TuningPolicy, in_force, lookup, tuning_policy
from skipjack.runtime.online import account_of_program, failure_of, is_asked_for, search_of
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

    @property
    def problems(self) -> list[str]:
        return (self.decision.problem or "").split()

    @property
    def open_problems(self) -> list[str]:
        """Those that no bank knows, and of whose searches something may come."""
        device = self.decision.device
        return [
            one
            for one in self.problems
            if not _is_known(one, self.decision)
            and not search_of(one, device)
            and not failure_of(one, device)
        ]

    @property
    def taken_ns(self) -> float:
        """What its calls took the program so far."""
        return self.entry.torch_calls * (self.decision.before_ns or 0.0)


class SearchWatcher:
    """Watches while there is something to watch.

    `kernel_ns` gives what the program's calls took so far.
    """

    def __init__(self, kernel_ns: Callable[[], float]) -> None:
        self._kernel_ns = kernel_ns
        self._counted_ns = kernel_ns()
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
                if not self._watched:
                    self._thread = None
                    return
            self.look()

    def look(self) -> None:
        """See what has become of searches, and ask for the next one."""
        with self._lock:
            watched = dict(self._watched)
        background = [one for one in watched.values() if one.policy.background]
        try:
            if background:
                self._count()
                _request_next_search(background)
        except Exception:  # the program has nothing to do with it
            log.debug("nothing can be searched in the background", exc_info=True)
        for words, one in watched.items():
            one.pauses += 1
            if self._is_due(one):
                with self._lock:
                    self._watched.pop(words, None)
                one.entry.ask_again()

    def _is_due(self, one: _Watched) -> bool:
        if all(_is_known(problem, one.decision) for problem in one.problems):
            return True
        if one.policy.background:
            return not one.open_problems
        return one.pauses * _PAUSE_S > 2.0 + (one.policy.seconds or 5.0)

    def _count(self) -> None:
        """Tell searches in the background what the program's calls took."""
        total = self._kernel_ns()
        if (taken := total - self._counted_ns) > 0.0:
            self._counted_ns = total
            account_of_program(load_settings().user_dir).add(kernel_ns=int(taken))


def _request_next_search(watched: list[_Watched]) -> None:
    """If none is under way: the share of time that searches have is for what costs most."""
    problems = {one.decision.device: set[str]() for one in watched}
    for one in watched:
        problems[one.decision.device].update(one.open_problems)
    if any(is_asked_for(one, device) for device, some in problems.items() for one in some):
        return
    waiting = [one for one in watched if one.open_problems]
    if not waiting:
        return
    dearest = max(waiting, key=lambda one: one.taken_ns)
    for problem in dearest.open_problems:
        with in_force(dearest.policy):
            lookup(problem, device=dearest.decision.device, banks_only=True)


def _is_known(problem: str, decision: TorchDecision) -> bool:
    try:
        with tuning_policy("db"):
            return lookup(problem, device=decision.device, banks_only=True) is not None
    except Exception:  # who asks for the problem next is told what is wrong
        log.debug("banks cannot be asked about %s", problem, exc_info=True)
        return False
