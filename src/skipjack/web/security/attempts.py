"""How many wrong tokens are accepted before the next one has to wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from time import monotonic

PERIOD_S = 60.0
MOST_BY_ONE = 5
"""Wrong tokens from one address in a period."""
_MOST_ADDRESSES = 10_000


class WrongTokens:
    """Counts wrong tokens by address; guesses of others do not count against an address."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """The seconds after which an address may try again; 0: now."""
        now = self._clock()
        times = self._recent(self._times.get(address, []), now)
        return ceil(times[-MOST_BY_ONE] + PERIOD_S - now) if len(times) >= MOST_BY_ONE else 0

    def note(self, address: str) -> None:
        """Count a wrong token."""
        now = self._clock()
        times = self._recent(self._times.pop(address, []), now)
        self._times[address] = [*times, now][-MOST_BY_ONE:]
        while len(self._times) > _MOST_ADDRESSES:
            self._times.popitem(last=False)

    def _recent(self, times: list[float], now: float) -> list[float]:
        return [one for one in times if now - one < PERIOD_S]
