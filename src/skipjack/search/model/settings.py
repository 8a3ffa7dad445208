"""The numbers of the searcher ``model``, chosen on recorded and on made-up spaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How the model is fitted, and how it chooses."""

    # the first configs
    first_samples: int = 4
    """Configs, far from each other, before the model chooses."""
    spread_over: int = 100
    """Random configs among which the one that is farthest from all others is found."""
    # what is usual
    length: float = 0.6
    """The distance at which results differ, as a share of a setting's range."""
    length_spread: float = 1.0
    """How far lengths are from that: the standard deviation of their logarithm."""
    noise: float = 1e-3
    """The variance of the noise, as a share of that of the results."""
    trend: float = 0.5
    """How much results may depend on each estimate otherwise than it says."""
    failed_rank: float = 0.8
    """Failures count as the result behind this share of all: no cliff that the model has to fit."""
    chance_power: float = 4.0
    """How much the chance of success counts: above 1, as what fails is not learnt exactly."""
    plain_share: float = 0.5
    """The share of results, the best, that are taken as they are; the others are compressed."""
    # the pool
    listed: int = 20_000
    """Spaces up to this size are predicted as a whole."""
    drawn: int = 160
    """The configs that are predicted of other spaces."""
    renewed: int = 40
    """How many of them are drawn anew at a time."""
    renew_first: int = 4
    """After so many trials they are drawn anew for the first time; then after twice as many."""
    renew_last: int = 16
    """The most trials between."""
    # fits
    first_steps: int = 20
    """Steps of the first fit of the lengths."""
    steps: int = 10
    """Steps of each later fit, which starts where the last ended."""
    most_used: int = 300
    """The most trials that the model is conditioned on: the best, and the newest."""

    def interval(self, told: int) -> int:
        """The trials after which lengths are fitted again: few while there are few."""
        return next((many for below, many in _INTERVALS if told < below), _LAST_INTERVAL)


_INTERVALS = ((10, 1), (20, 2), (50, 5), (100, 10))
_LAST_INTERVAL = 20
