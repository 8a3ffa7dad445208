"""Sample spaces, from one with six configs to one with a billion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skipjack.core.config import Config
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.space import Space

_TILES = (8, 16, 32, 64, 128, 256)


def tiny_space() -> ParameterSpace:
    """Six legal configs of nine."""
    return ParameterSpace(
        [Parameter("rows", (1, 2, 4)), Parameter("columns", (1, 2, 4))], ["rows * columns <= 4"]
    )


def tiled_space() -> ParameterSpace:
    """Some thousand configs, as of a tiled matrix product."""
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
    """A space with the five verbs only, whatever else the one inside can do."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def default(self) -> Config:
        """As inside."""
        return self._space.default()

    def contains(self, config: Config) -> bool:
        """As inside."""
        return self._space.contains(config)

    def sample(self, rng: np.random.Generator) -> Config:
        """As inside."""
        return self._space.sample(rng)

    def neighbours(self, config: Config) -> Sequence[Config]:
        """As inside."""
        return self._space.neighbours(config)

    def key(self, config: Config) -> str:
        """As inside."""
        return self._space.key(config)

    def features(self, config: Config) -> tuple[float, ...]:
        """As inside."""
        return self._space.features(config)
