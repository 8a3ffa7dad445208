"""How long an answer is waited for, of somebody who may show that work goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_EVERY_S = 0.25


class Watch:
    """A time limit that starts anew whenever there is progress."""

    def __init__(self, timeout_s: float, progress: Callable[[], object]) -> None:
        self._timeout_s, self._progress = timeout_s, progress
        self._seen = progress()
        self._deadline = time.monotonic() + timeout_s

    def pause(self) -> float:
        """How long to wait before the next look."""
        return min(_LOOK_EVERY_S, max(0.0, self._deadline - time.monotonic()))

    def over(self) -> bool:
        """Whether the time is up, which a new value of `progress` renews."""
        seen = self._progress()
        if seen != self._seen:
            self._seen = seen
            self._deadline = time.monotonic() + self._timeout_s
        return time.monotonic() >= self._deadline
