"""Recorded grids: for every setting, which loads it held how often. And made-up ones alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config

FORMAT = 1
Floats = NDArray[np.float64]
Record = dict[str, Any]


class Curve:
    """The chance that a setting holds a load; between recorded loads it falls steadily."""

    def __init__(self, held: Mapping[str, list[int]]) -> None:
        tried = sorted((float(load), runs) for load, runs in held.items() if runs)
        loads = [log(load) for load, _ in tried]
        counts = np.array([len(runs) for _, runs in tried], dtype=np.float64)
        chances = _falling(np.array([np.mean(runs) for _, runs in tried]), counts)
        # Below and above what was tried nothing is known; it is taken to hold, and not to.
        self._loads = np.array([loads[0] - 0.1, *loads, loads[-1] + 0.1])
        self._chances = np.array([max(chances[0], 0.95), *chances, 0.0])

    def __call__(self, load: float) -> float:
        return float(np.interp(log(load), self._loads, self._chances))

    @property
    def limit(self) -> float:
        """Where the chance is one half."""
        return exp(float(np.interp(-0.5, -self._chances, self._loads)))


def _falling(values: Floats, weights: Floats) -> Floats:
    """The nearest values that never rise: neighbours that do are put together."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((float(value), float(weight), 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (one, many, first), (other, more, second) = blocks[-2:]
            mean = (one * many + other * more) / (many + more)
            blocks[-2:] = [(mean, many + more, first + second)]
    return np.concatenate([np.full(count, value) for value, _, count in blocks])


@dataclass(frozen=True)
class Grid:
    """Settings with their curves."""

    name: str
    parameters: Mapping[str, list[Any]]
    build_parameters: tuple[str, ...]
    curves: Mapping[Config, Curve]

    @property
    def best(self) -> float:
        """The largest limit."""
        return max(curve.limit for curve in self.curves.values())

    def limit(self, setting: Mapping[str, Any]) -> float:
        """Of one setting."""
        return self.curves[self._config(setting)].limit

    def chance(self, setting: Mapping[str, Any], load: float) -> float:
        """That a setting holds a load."""
        return self.curves[self._config(setting)](load)

    def _config(self, setting: Mapping[str, Any]) -> Config:
        return Config({name: setting[name] for name in self.parameters})

    def range(self) -> tuple[int, int]:
        """Bounds that a user would give: all limits lie within, with room above."""
        limits = [curve.limit for curve in self.curves.values()]
        return max(int(min(limits) * 0.8), 1), int(max(limits) * 1.6) + 1


def read_grid(path: Path) -> Grid:
    """A grid from its file; settings of which nothing is recorded are left out."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise SystemExit(f"{path} has format {data.get('format')}, this reads {FORMAT}")
    return grid_of(path.stem, data)


def grid_of(name: str, data: Record) -> Grid:
    """A grid from what its file holds, in the order of its parameters' values."""
    names = list(data["parameters"])
    values = [data["parameters"][name] for name in names]
    ordered = sorted(
        data["points"],
        key=lambda record: [
            listed.index(record["point"][name]) for name, listed in zip(names, values, strict=True)
        ],
    )
    curves = {
        Config({key: record["point"][key] for key in names}): Curve(record["held"])
        for record in ordered
        if any(record["held"].values())
    }
    return Grid(name, data["parameters"], tuple(data["build_parameters"]), curves)


def made_up(seed: int) -> Record:
    """A grid as a batching server has it: larger batches do more, and wait longer.

    Workers share cores, a longer wait fills batches but eats into the latency bound, and int8
    is faster, less so where batches are small: the best value of each depends on the others.
    """
    rng = np.random.default_rng([5, seed])
    parameters: dict[str, list[Any]] = {
        "batch_size": [1, 2, 4, 8, 16, 32],
        "workers": [1, 2],
        "queue_delay_us": [0, 3000],
        "precision": ["fp32", "int8"],
    }
    fixed_ms, each_ms = rng.uniform(0.5, 2.0), rng.uniform(0.5, 1.2)
    bound_ms, shared = rng.uniform(20.0, 45.0), rng.uniform(0.55, 0.9)
    int8 = rng.uniform(0.45, 0.8)
    points = []
    for batch, workers, delay, precision in product(*parameters.values()):
        work = each_ms * (int8 if precision == "int8" else 1.0)
        busy_ms = (fixed_ms + work * batch) * (1.0 if workers == 1 else shared * 2)
        full = min(1.0, 0.75 + 0.25 * delay / 3000) if batch > 1 else 1.0
        spare = max(0.05, 1.0 - (2.2 * busy_ms + delay / 1e3) / bound_ms)
        limit = workers * batch * full / busy_ms * 1e3 * spare ** rng.uniform(0.3, 0.4)
        limit *= exp(rng.normal(0.0, 0.03))
        setting = dict(zip(parameters, (batch, workers, delay, precision), strict=True))
        points.append({"point": setting, "held": _held(limit, rng), "metrics": {}})
    return {
        "format": FORMAT,
        "scenario": "Server",
        "parameters": parameters,
        "build_parameters": ["precision"],
        "points": points,
    }


def _held(limit: float, rng: np.random.Generator) -> dict[str, list[int]]:
    width, unlucky = 0.02, 0.04
    held = {}
    for ratio in np.arange(0.79, 1.21, 0.03):
        chance = (1.0 - unlucky) / (1.0 + exp(log(ratio) / width))
        held[f"{limit * ratio:.2f}"] = (rng.random(60) < chance).astype(int).tolist()
    return held
