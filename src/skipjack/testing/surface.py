"""A null device: a known cost for every config, so that searchers compare without hardware."""

from __future__ import annotations

import hashlib

import numpy as np

from skipjack.core.config import Config
from skipjack.core.space import Space
from skipjack.core.trial import Status, Trial

_SAMPLES = 64


class CostSurface:
    """A bowl around a hidden config, with ripples. The same config always costs the same.

    `ripple` adds up to that share of noise that does not follow the features; `failure_rate` is
    the share of configs that fail, always the same ones and never the space's default.
    """

    def __init__(
        self, space: Space, seed: int = 0, ripple: float = 0.05, failure_rate: float = 0.0
    ) -> None:
        # Not the stream of a searcher with the same seed, which would draw the hidden config.
        rng = np.random.default_rng((seed, 20011))
        samples = np.array([space.features(space.sample(rng)) for _ in range(_SAMPLES)])
        self._space = space
        self._seed = seed
        self._ripple = ripple
        self._failure_rate = failure_rate
        self._spread = np.maximum(np.ptp(samples, axis=0), 1e-9)
        self._target = samples[0]
        self._weights = rng.uniform(0.5, 2.0, samples.shape[1])
        self._default = space.key(space.default())

    def value(self, config: Config) -> float:
        """What the config costs; about 100 at best."""
        offset = (np.array(self._space.features(config)) - self._target) / self._spread
        bowl = float(self._weights @ offset**2)
        return 100.0 * (1.0 + bowl) * (1.0 + self._ripple * self._chance(config, "ripple"))

    def fails(self, config: Config) -> bool:
        """Whether the config is one of the failing ones."""
        if self._space.key(config) == self._default:
            return False
        return self._chance(config, "failure") < self._failure_rate

    def trial(self, config: Config) -> Trial:
        """What a searcher is told."""
        if self.fails(config):
            return Trial(config, Status.CRASH, reason="this surface has a hole here")
        value = self.value(config)
        return Trial(config, value=value, metrics={"time_ns": value})

    def _chance(self, config: Config, purpose: str) -> float:
        text = f"{self._seed}|{purpose}|{self._space.key(config)}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
