"""Sample spaces, and cost surfaces over them that stand in for a device."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from skipjack.core import Config, Parameter, ParameterSpace, Space, Status, Trial

# Sample spaces, with from six to a billion configs.

_TILES = (8, 16, 32, 64, 128, 256)


def tiny_space() -> ParameterSpace:
    """A space with six legal configs of nine."""
    return ParameterSpace(
        [Parameter("rows", (1, 2, 4)), Parameter("columns", (1, 2, 4))], ["rows * columns <= 4"]
    )


def tiled_space() -> ParameterSpace:
    """A few thousand configs, as for a tiled matrix product."""
    return ParameterSpace(
        [
            Parameter("tile_m", _TILES, default=32),
            Parameter("tile_n", _TILES, default=32),
            Parameter("tile_k", _TILES, default=16),
            Parameter("unroll", (1, 2, 4, 8), stage="run"),
            Parameter("order", ("mnk", "mkn", "kmn"), stage="run"),
            Parameter("pack", (False, True), stage="run"),
        ],
        ["tile_m * tile_n <= 8192", "tile_k % unroll == 0", "not pack or tile_m * tile_k >= 512"],
    )


def _pipelined(stages: int, warps: int) -> bool:
    return stages * warps <= 48


def vast_space() -> ParameterSpace:
    """More than a billion raw combinations under five constraints."""
    tiles = tuple(range(4, 132, 4))
    return ParameterSpace(
        [
            *(Parameter(f"tile_{axis}", tiles) for axis in "mnk"),
            *(Parameter(f"split_{axis}", tuple(range(1, 13))) for axis in "mnk"),
            Parameter("stages", tuple(range(1, 9))),
            Parameter("warps", (1, 2, 4, 8, 16)),
        ],
        [
            "tile_m * tile_n * tile_k <= 65536",
            "tile_m % split_m == 0",
            "tile_k + stages < 128",
            "split_m * split_n * split_k * warps <= 1000",
            _pipelined,
        ],
    )


class BareSpace:
    """A wrapper with the methods of `Space` only, whatever else the wrapped space has."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def default(self) -> Config:
        """Delegates to the wrapped space."""
        return self._space.default()

    def contains(self, config: Config) -> bool:
        """Delegates to the wrapped space."""
        return self._space.contains(config)

    def sample(self, rng: np.random.Generator) -> Config:
        """Delegates to the wrapped space."""
        return self._space.sample(rng)

    def neighbours(self, config: Config) -> Sequence[Config]:
        """Delegates to the wrapped space."""
        return self._space.neighbours(config)

    def key(self, config: Config) -> str:
        """Delegates to the wrapped space."""
        return self._space.key(config)

    def features(self, config: Config) -> tuple[float, ...]:
        """Delegates to the wrapped space."""
        return self._space.features(config)


# A known cost for every config, so that searchers can be compared without hardware.

_SAMPLES = 64


class CostSurface:
    """A bowl around a hidden config, with ripples. The same config always costs the same.

    `ripple` is the largest share of noise that does not depend on the features; `failure_rate` is
    the share of configs that fail, which are always the same and never the space's default.
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
        """The cost of a config; about 100 at best."""
        offset = (np.array(self._space.features(config)) - self._target) / self._spread
        bowl = float(self._weights @ offset**2)
        return 100.0 * (1.0 + bowl) * (1.0 + self._ripple * self._chance(config, "ripple"))

    def fails(self, config: Config) -> bool:
        """Whether a config fails."""
        if self._space.key(config) == self._default:
            return False
        return self._chance(config, "failure") < self._failure_rate

    def trial(self, config: Config) -> Trial:
        """The trial of a config."""
        if self.fails(config):
            return Trial(config, Status.CRASH, reason="this surface has a hole here")
        value = self.value(config)
        return Trial(config, value=value, metrics={"time_ns": value})

    def _chance(self, config: Config, purpose: str) -> float:
        text = f"{self._seed}|{purpose}|{self._space.key(config)}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
