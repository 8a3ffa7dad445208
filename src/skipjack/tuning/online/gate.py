"""Trials wait where they would take more than their share of the program's kernel time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from skipjack.interrupt import Interrupt
from skipjack.runtime.online import RegretAccount
from skipjack.tuning.options import Progress

_PAUSE_S = 0.05
FINAL = "final"


class RegretGate:
    """Counts what a search takes, and holds it up while its share is spent.

    A search that waits does not keep the device from others: `hold` takes it again.
    """

    def __init__(
        self,
        account: RegretAccount,
        share: float,
        interrupt: Interrupt,
        hold: Callable[[], AbstractContextManager[None]],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._account, self._share, self._interrupt = account, share, interrupt
        self._hold, self._now, self._sleep = hold, now, sleep
        self._held = ExitStack()
        self._paused_s = 0.0
        self._since = now()

    def clock(self) -> float:
        """Seconds without those of pauses: what a search's budget is counted in."""
        return self._now() - self._paused_s

    def __enter__(self) -> RegretGate:
        self._wait(0.0)
        self._held.enter_context(self._hold())
        self._since = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self._note()
        self._held.close()

    def observe(self, progress: Progress) -> None:
        """The next batch will take about as long as the one before, the final a share of all."""
        next_s = self._note()
        if progress.phase == FINAL and progress.budget.seconds is not None:
            next_s = max(next_s, 0.2 * progress.budget.seconds)
        if self._allowed(next_s):
            return
        self._held.close()
        self._wait(next_s)
        self._held.enter_context(self._hold())
        self._since = self._now()

    def _note(self) -> float:
        now = self._now()
        took, self._since = now - self._since, now
        self._account.add(trial_ns=int(took * 1e9))
        return took

    def _allowed(self, next_s: float) -> bool:
        sums = self._account.add()
        return sums.kernel_ns > 0 and sums.allow(self._share, next_s * 1e9)

    def _wait(self, next_s: float) -> None:
        began = self._now()
        while not self._interrupt.requested and not self._allowed(next_s):
            self._sleep(_PAUSE_S)
        self._paused_s += self._now() - began
