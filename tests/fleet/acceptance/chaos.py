"""Accidents at random, in an order that a seed decides: kills, stops, outages.

What is drawn does not depend on what is there: the same seed strikes the same kinds in the same
order, at the same share of what there is to strike.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from process_tree import Process

Undo = Callable[[], object]
Victims = Callable[[], Sequence[Process]]


@dataclass(frozen=True)
class Strike:
    """One kind of accident."""

    name: str
    weight: float
    act: Callable[[float], tuple[bool, Undo | None]]
    """Given a number from 0 to 1 that chooses the victim: whether it struck, and what ends it."""
    lasts_s: tuple[float, float] = (0.0, 0.0)


def kill(name: str, weight: float, victims: Victims) -> Strike:
    """``kill -9``."""

    def act(choice: float) -> tuple[bool, Undo | None]:
        victim = _chosen(victims(), choice)
        return (victim is not None and victim.send(signal.SIGKILL)), None

    return Strike(f"kill {name}", weight, act)


def stop(name: str, weight: float, victims: Victims, lasts_s: tuple[float, float]) -> Strike:
    """``kill -STOP``, and ``kill -CONT`` later."""

    def act(choice: float) -> tuple[bool, Undo | None]:
        victim = _chosen(victims(), choice)
        if victim is None or not victim.send(signal.SIGSTOP):
            return False, None
        return True, lambda: victim.send(signal.SIGCONT)

    return Strike(f"stop {name}", weight, act, lasts_s)


def outage(
    name: str, weight: float, begin: Callable[[], Undo], lasts_s: tuple[float, float]
) -> Strike:
    """Something is away for a while; `begin` gives what brings it back."""
    return Strike(name, weight, lambda _: (True, begin()), lasts_s)


def _chosen(victims: Sequence[Process], choice: float) -> Process | None:
    return victims[int(choice * len(victims))] if victims else None


@dataclass
class Chaos:
    """Call `step` often. After `most` strikes all is quiet."""

    strikes: Sequence[Strike]
    seed: int
    most: int
    pause_s: tuple[float, float] = (0.3, 2.0)
    struck: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._undo: dict[str, tuple[float, Undo]] = {}
        self._done = 0
        self._next = time.monotonic() + self._between(self.pause_s, self._rng.random())

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self._done >= self.most and not self._undo

    def away(self, name: str) -> bool:
        """Whether an outage whose name begins so lasts at the moment."""
        return any(lasting.startswith(name) for lasting in self._undo)

    def step(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for name, (when, undo) in list(self._undo.items()):
            if when <= now:
                del self._undo[name]
                undo()
        if now >= self._next and self._done < self.most:
            self._strike(now)

    def _strike(self, now: float) -> None:
        kind, choice, length, pause = self._rng.random(4)
        weights = np.cumsum([strike.weight for strike in self.strikes])
        strike = self.strikes[int(np.searchsorted(weights, kind * weights[-1], side="right"))]
        self._next = now + self._between(self.pause_s, pause)
        if strike.name in self._undo:
            return  # it lasts already
        happened, undo = strike.act(float(choice))
        if happened:
            self._done += 1
            self.struck[strike.name] += 1
        if undo:
            self._undo[strike.name] = (now + self._between(strike.lasts_s, length), undo)

    def calm(self) -> None:
        """End everything that lasts, and strike no more."""
        self._done = self.most
        while self._undo:
            _, (_, undo) = self._undo.popitem()
            undo()

    @staticmethod
    def _between(limits: tuple[float, float], share: float) -> float:
        return limits[0] + (limits[1] - limits[0]) * share
