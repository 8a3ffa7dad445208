"""How many wrong tokens are accepted before the next one has to wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from time import monotonic

PERIOD_S = 60.0
MOST_BY_ONE = 5
"""Wrong tokens from one address in a period."""
MOST_BY_ALL = 100
_MOST_ADDRESSES = 10_000


class WrongTokens:
    """Counts wrong tokens by address."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()
        self._all: list[float] = []

    def wait_s(self, address: str) -> int:
        """The seconds after which an address may try again; 0: now."""
        now = self._clock()
        one = self._recent(self._times.get(address, []), now)
        self._all = self._recent(self._all, now)
        waits = [
            times[-most] + PERIOD_S - now
            for times, most in ((one, MOST_BY_ONE), (self._all, MOST_BY_ALL))
            if len(times) >= most
        ]
        return ceil(max(waits, default=0.0))

    def note(self, address: str) -> None:
        """Count a wrong token."""
        now = self._clock()
        times = self._recent(self._times.pop(address, []), now)
        self._times[address] = [*times, now][-MOST_BY_ONE:]
        self._all = [*self._recent(self._all, now), now][-MOST_BY_ALL:]
        while len(self._times) > _MOST_ADDRESSES:
            self._times.popitem(last=False)

    def _recent(self, times: list[float], now: float) -> list[float]:
        return [one for one in times if now - one < PERIOD_S]
