"""What runs at some loads say about the largest load that holds.

The chance that a run holds falls with the load: as a logistic curve over its logarithm. Unknown
are where it crosses the chance that is asked for (the *limit*), how steep it is, and how often a
run fails for reasons of its own (a *lapse*): so one unlucky run moves the answer a little and does
not fix it. All combinations of the three lie on a grid, each with its probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WIDTHS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Of the fall, relative to the load. Real ones: 0.2 % for long runs on GPUs, 5 % for short ones."""
_UNLUCKY = (0.02, 0.1, 0.3, 0.6)
"""How often a run fails at any load, as a share of the failures that the limit allows."""
_UNLUCKY_PRIOR = (0.4, 0.35, 0.2, 0.05)
_LUCKY = 0.01
"""How often a run holds at any load, as a share of the chance that the limit asks for."""
_OUTSIDE = 0.1
"""The chance, before any run, that the limit lies below the range, and that it lies above it."""
_BEYOND = log(1.5)
"""How far beyond its range a limit may lie; further away looks the same from within."""
_MOST_CELLS = 4000
_NEGLIGIBLE = 1e-9


class LoadPosterior:
    """Beliefs about the limit within a range of loads; `add` is told each run."""

    def __init__(
        self, lower: float, upper: float, *, holds: float = 0.5, resolution: float = 0.01
    ) -> None:
        self.lower, self.upper = lower, upper
        inside = _cells(log(lower), log(upper), resolution / 3)
        below = _cells(log(lower) - _BEYOND, log(lower), 0.02)
        above = _cells(log(upper), log(upper) + _BEYOND, 0.02)
        self._first, self._last = len(below), len(below) + len(inside)
        limits = np.concatenate([below, inside, above])
        widths = np.array(_WIDTHS)
        unlucky = np.array(_UNLUCKY) * (1.0 - holds)
        lucky = _LUCKY * holds
        at_limit = (holds - lucky) / (1.0 - unlucky - lucky)
        shares = [
            np.full(len(below), _OUTSIDE / len(below)),
            np.full(len(inside), (1.0 - 2 * _OUTSIDE) / len(inside)),
            np.full(len(above), _OUTSIDE / len(above)),
        ]
        grid = np.meshgrid(
            np.arange(len(limits)), np.arange(len(widths)), np.arange(len(unlucky)), indexing="ij"
        )
        self._cell, width, lapse = (axis.ravel() for axis in grid)
        self._limits = limits
        self._limit = limits[self._cell]
        self._width = widths[width]
        self._offset = np.log(at_limit / (1.0 - at_limit))[lapse]
        self._lucky, self._range = lucky, (1.0 - unlucky - lucky)[lapse]
        prior = np.concatenate(shares)[self._cell] * np.array(_UNLUCKY_PRIOR)[lapse]
        self._mass: Floats = prior / prior.sum()

    def add(self, load: float, held: bool) -> None:
        """A run at this load held, or did not."""
        chance = self._chance(load)
        mass = self._mass * (chance if held else 1.0 - chance)
        keep = mass > _NEGLIGIBLE * mass.max()
        self._mass = mass[keep] / mass[keep].sum()
        self._cell, self._limit = self._cell[keep], self._limit[keep]
        self._width, self._offset = self._width[keep], self._offset[keep]
        self._range = self._range[keep]

    @property
    def below(self) -> float:
        """The probability that the limit is below the range."""
        return float(self._mass[self._cell < self._first].sum())

    @property
    def above(self) -> float:
        """The probability that the limit is above the range."""
        return float(self._mass[self._cell >= self._last].sum())

    def quantiles(self, shares: Sequence[float]) -> Floats:
        """Loads below which the limit lies with these probabilities; ends at the range."""
        totals = np.cumsum(np.bincount(self._cell, self._mass, len(self._limits)))
        cells = np.searchsorted(totals, np.asarray(shares) * totals[-1])
        loads: Floats = np.exp(self._limits[np.clip(cells, 0, len(self._limits) - 1)])
        return loads.clip(self.lower, self.upper)

    def chance(self, load: float) -> float:
        """The probability that a run at this load holds."""
        return float((self._mass * self._chance(load)).sum())  # BLAS would wait for its threads

    def safe(self, level: float) -> float | None:
        """The largest load of the range that holds with this probability, lapses aside.

        None if not even the lower end does.
        """
        low, high = log(self.lower), log(self.upper)
        if self._steady(low) < level:
            return None
        if self._steady(high) >= level:
            return self.upper
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if self._steady(middle) >= level else (low, middle)
        return exp(low)

    def gains(self, loads: Sequence[float]) -> Floats:
        """What a run at each load would tell about the limit, in nats."""
        now = _entropy(self._inner(self._mass))
        return np.array([now - self._left(load) for load in loads])

    def _left(self, load: float) -> float:
        """The uncertainty that is expected to be left after a run."""
        chance = self._chance(load)
        held, failed = self._inner(self._mass * chance), self._inner(self._mass * (1.0 - chance))
        return sum(float(part.sum()) * _entropy(part / part.sum()) for part in (held, failed))

    def _inner(self, mass: Floats) -> Floats:
        """By limit; how far outside of the range it is does not matter."""
        whole = np.bincount(self._cell, mass, len(self._limits))
        inside = whole[self._first : self._last]
        return np.array([whole[: self._first].sum(), *inside, whole[self._last :].sum()])

    def _chance(self, load: float) -> Floats:
        return self._lucky + self._range * self._curve(log(load))

    def _curve(self, at: float) -> Floats:
        steps = (self._limit - at) / self._width + self._offset
        curve: Floats = 1.0 / (1.0 + np.exp(-np.clip(steps, -40.0, 40.0)))
        return curve

    def _steady(self, at: float) -> float:
        return float((self._mass * self._curve(at)).sum())


def _cells(low: float, high: float, step: float) -> Floats:
    """Midpoints of equal cells."""
    count = min(max(ceil((high - low) / step), 1), _MOST_CELLS)
    width = (high - low) / count
    return np.array(low + width * (np.arange(count) + 0.5), dtype=np.float64)


def _entropy(masses: Floats) -> float:
    there = masses[masses > 0.0]
    return float(-(there * np.log(there)).sum())
