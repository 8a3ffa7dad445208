"""The numbers of the searcher ``model``, chosen on recorded and on made-up spaces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How the model is fitted, and how it chooses."""

    first_samples: int = 4
    """Configs, far from each other, before the model chooses."""
    spread_over: int = 100
    """Random configs among which the one that is farthest from all others is found."""
    length: float = 0.6
    """The expected distance at which results differ, as a share of a setting's range."""
    length_spread: float = 1.0
    """How far lengths may be from that, as a standard deviation of their logarithm."""
    noise: float = 1e-3
    """The expected variance of the noise, as a share of that of the values."""
    first_steps: int = 20
    """Steps of the first fit of the lengths."""
    steps: int = 10
    """Steps of each later fit."""
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
    trend: float = 0.5
    """How much values may depend on each estimate, as a share of their deviation."""
    most_fitted: int = 300
    """The most trials that the model is conditioned on: the best, and the newest."""
    refit_shares: tuple[tuple[int, int], ...] = ((10, 1), (20, 2), (50, 5), (100, 10))
    """Up to so many trials, the lengths are fitted again after so many more."""
    refit_last: int = 20
    """After more trials than those."""
    valid_power: float = 1.0
    middle: float = 0.5
    failed_share: float = 1.0
