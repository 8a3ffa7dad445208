"""Monitors calls whose problems are still being searched: they are decided again afterwards.

A thread checks the banks periodically, and lets the next such call ask Python again, so that
kernels race PyTorch's in the program's own thread. With searches in the background, the thread also
requests them, one after the other, starting with the calls that have taken the most time; and it
reports the program's kernel time, of which searches may take a share.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from skipjack.integrations.torch.outcomes import TorchDecision
from skipjack.integrations.torch.stubs import TableEntry
from skipjack.runtime import lookup
from skipjack.runtime.online import account_of_program, failure_of, is_asked_for, search_of
from skipjack.runtime.process import TuningPolicy, in_force, tuning_policy
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_MOST_TRIES = 3
"""How often a search that did not start in time is requested."""


@dataclass(slots=True)
class _OpenCall:
    entry: TableEntry
    decision: TorchDecision
    policy: TuningPolicy
    pauses: int = 0

    @property
    def problems(self) -> list[str]:
        return (self.decision.problem or "").split()

    @property
    def open_problems(self) -> list[str]:
        """Problems that no bank knows, and whose searches may still succeed."""
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
        """The time of its calls so far."""
        return self.entry.torch_calls * (self.decision.before_ns or 0.0)


class SearchMonitor:
    """Monitors calls while there are any to monitor.

    `kernel_ns` returns the time of the program's calls so far.
    """

    def __init__(self, kernel_ns: Callable[[], float]) -> None:
        self._kernel_ns = kernel_ns
        self._counted_ns = kernel_ns()
        self._lock = threading.Lock()
        self._watched: dict[tuple[int, ...], _OpenCall] = {}
        self._tries: dict[tuple[int, ...], int] = {}
        self._thread: threading.Thread | None = None

    def watch(
        self,
        words: tuple[int, ...],
        entry: TableEntry,
        decision: TorchDecision,
        policy: TuningPolicy,
    ) -> None:
        """Decide about a call again when a bank knows its problems."""
        with self._lock:
            tries = self._tries[words] = self._tries.get(words, 0) + 1
            if tries > _MOST_TRIES:
                return
            self._watched[words] = _OpenCall(entry, decision, policy)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skipjack torch", daemon=True
                )
                self._thread.start()

    def forget(self) -> None:
        """Stop monitoring all calls."""
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
        """Check for results of searches, and request the next one."""
        with self._lock:
            watched = dict(self._watched)
        background = [one for one in watched.values() if one.policy.background]
        try:
            if background:
                self._count()
                _request_next_search(background)
        except Exception:  # this must not affect the program
            log.debug("searching in the background failed", exc_info=True)
        for words, one in watched.items():
            one.pauses += 1
            if self._is_due(one):
                with self._lock:
                    self._watched.pop(words, None)
                one.entry.ask_again()

    def _is_due(self, one: _OpenCall) -> bool:
        if all(_is_known(problem, one.decision) for problem in one.problems):
            return True
        if one.policy.background:
            return not one.open_problems
        return one.pauses * _PAUSE_S > 2.0 + (one.policy.seconds or 5.0)

    def _count(self) -> None:
        """Add the time of the program's calls to the account for background searches."""
        total = self._kernel_ns()
        if (taken := total - self._counted_ns) > 0.0:
            self._counted_ns = total
            account_of_program(load_settings().user_dir).add(kernel_ns=int(taken))


def _request_next_search(watched: list[_OpenCall]) -> None:
    """Request a search for the most expensive call, if no search is running."""
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
    except Exception:  # the next lookup reports what is wrong
        log.debug("looking up %s failed", problem, exc_info=True)
        return False
