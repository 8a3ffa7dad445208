"""Features of candidates: those of the problem and device, of the config, and of both together."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Config, Device, Problem, Space
from skipjack.models.features import (
    MISSING,
    device_facts,
    dtype_facts,
    operation_group,
    problem_feature_names,
    problem_features,
    word_code,
)

Rows = NDArray[np.float32]

_TILE_FEATURES = (
    *("padded_rows", "padded_columns", "padded", "tiles", "waves", "last_wave"),
    *("accumulators", "loads_per_step", "passes", "splits"),
    *("tile_over_l1", "tile_over_l2", "panel_over_l1", "block_n_over_l2", "block_m_over_l2"),
    *("blocks_m", "blocks_n", "last_pass"),
)
_ESTIMATE_FEATURES = ("estimate", "estimate_over_first")
_NUMBERS = re.compile(r"\d+")
_PARTS = 3
"""The most numbers of a word such as ``4x3x2`` that are features."""
_SCHEDULES = "skipjack.learn.ranker.schedules:schedule_rows"
"""What describes schedules of nests; loaded when it is first used, as it is in a layer above."""

Described = Callable[[Problem, Device, Space, Sequence[Config]], tuple[tuple[str, ...], Rows]]


@functools.cache
def _schedule_rows() -> Described:
    module, _, name = _SCHEDULES.partition(":")
    found: Described = getattr(importlib.import_module(module), name)
    return found


class CandidateFeatures:
    """The features of all configs of one problem, device and space.

    What does not depend on the config is computed once. `names` are those of the columns of `rows`.
    """

    def __init__(self, problem: Problem, device: Device, space: Space) -> None:
        self.problem, self.device, self.space = problem, device, space
        self._problem = problem_features(problem, device)
        self._sizes = _matrix_sizes(problem, self._problem)
        default = space.default()
        self._is_schedule = set(default) == {"schedule"}
        self._settings = () if self._is_schedule else tuple(sorted(default))
        self._words = frozenset(n for n in self._settings if isinstance(default[n], str))
        self._cost: Callable[[Config], float | None] | None
        self._cost = getattr(space, "expected_cost", None)
        self._first = MISSING
        self._lists_settings = callable(getattr(space, "choices", None))
        self._own = 0 if self._is_schedule or self._lists_settings else len(space.features(default))
        names = [*problem_feature_names(problem.operation)]
        if self._is_schedule:
            described, rows = _schedule_rows()(problem, device, space, [default])
            if described[-1] == "estimate":
                self._first = float(rows[0, -1])
                described = (*described, "estimate_over_first")
            self.names = (*names, *described)
        else:
            self._first = self._expected(default)
            self.names = (*names, *self._setting_names(), *_TILE_FEATURES, *_ESTIMATE_FEATURES)

    def _setting_names(self) -> list[str]:
        names = []
        for name in self._settings:
            names.append(f"config.{name}")
            if name in self._words:
                names += [f"config.{name}.{part}" for part in range(_PARTS)]
        return names + [f"space.{number}" for number in range(self._own)]

    def rows(self, configs: Sequence[Config]) -> Rows:
        """One row of features for each config."""
        if not configs:
            return np.empty((0, len(self.names)), np.float32)
        if self._is_schedule:
            names, rows = _schedule_rows()(self.problem, self.device, self.space, configs)
            same = np.tile(np.array(self._problem, np.float32), (len(configs), 1))
            over = [rows[:, -1:] - self._first] if names[-1] == "estimate" else []
            return np.hstack([same, rows, *over]).astype(np.float32)
        return np.array([self._row(config) for config in configs], np.float32)

    def _row(self, config: Config) -> list[float]:
        row = [*self._problem]
        for name in self._settings:
            if name in self._words:
                row += _word_numbers(config.get(name))
            else:
                row.append(_number(config.get(name)))
        if self._own:
            row += self.space.features(config)
        row += self._tile(config)
        cost = self._expected(config)
        return [*row, cost, MISSING if MISSING in (cost, self._first) else cost - self._first]

    def _expected(self, config: Config) -> float:
        """Log2 of the cost by the space's own estimate; `MISSING` without one."""
        cost = self._cost(config) if self._cost is not None else None
        return log2(cost) if cost is not None and 0.0 < cost < float("inf") else MISSING

    def _tile(self, config: Config) -> list[float]:
        """What follows from the sizes of the problem and of the tile, where these are known."""
        tile = _tile_of(config, self.device, self.problem)
        if self._sizes is None or tile is None:
            return [MISSING] * len(_TILE_FEATURES)
        batch, m, n, k = self._sizes
        if config.get("rows") == "channels" or config.get("swap") is True:
            m, n = n, m
        facts, item = device_facts(self.device), dtype_facts(self.problem.dtype)[0]
        lanes = max(1, facts.vector_bytes // item) if self.device.kind == "cpu" else 1
        rows, columns = tile.rows, tile.columns
        depth = min(tile.depth or k, k)
        high, wide, passes = -(-m // rows), -(-n // columns), -(-k // depth)
        padded_m, padded_n = log2(high * rows / m), log2(wide * columns / n)
        tiles = high * wide * batch * tile.splits
        waves = tiles / max(1, self.device.units)
        vectors = max(1, columns // lanes)
        sums = rows * vectors
        l1, l2, _ = facts.caches
        block_m, block_n = min(tile.block_m or m, m), min(tile.block_n or n, n)
        return [
            *(padded_m, padded_n, padded_m + padded_n, log2(tiles), log2(waves)),
            log2(-(-tiles // max(1, self.device.units)) / waves),
            *(log2(sums), log2((rows + vectors) / sums), log2(passes), log2(tile.splits)),
            log2((rows * depth + columns * depth + rows * columns) * item) - l1,
            log2((rows * depth + columns * depth + rows * columns) * item) - l2,
            *(log2(columns * depth * item) - l1, log2(block_n * depth * item) - l2),
            log2(block_m * depth * item) - l2,
            *(log2(-(-m // block_m)), log2(-(-n // block_n)), log2(passes * depth / k)),
        ]


def candidate_features(
    problem: Problem, device: Device, space: Space, config: Config
) -> tuple[float, ...]:
    """The features of one candidate; `CandidateFeatures` is faster for many, and has the names."""
    return tuple(CandidateFeatures(problem, device, space).rows([config])[0].tolist())


def arranged(rows: Rows, names: Sequence[str], wanted: Sequence[str]) -> Rows:
    """The columns in the order of a model; those that a space does not have are `MISSING`."""
    if tuple(names) == tuple(wanted):
        return rows
    places = {name: at for at, name in enumerate(names)}
    found = np.full((len(rows), len(wanted)), MISSING, np.float32)
    for at, name in enumerate(wanted):
        if name in places:
            found[:, at] = rows[:, places[name]]
    return found


def _number(value: object) -> float:
    """The logarithm of a size; -1 for 0; other numbers as they are."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int):
        return log2(value) if value > 0 else -1.0 if value == 0 else float(value)
    return float(value) if isinstance(value, float) else MISSING


def _word_numbers(value: object) -> list[float]:
    """A word's code, without its digits, and the logarithms of its numbers."""
    text = str(value) if value is not None else ""
    found = [_number(int(digits)) for digits in _NUMBERS.findall(text)[:_PARTS]]
    word = _NUMBERS.sub("", text)
    return [word_code(word), *found, *[MISSING] * (_PARTS - len(found))]


@dataclass(frozen=True, slots=True)
class _Tile:
    rows: int
    columns: int
    depth: int
    splits: int = 1
    block_m: int = 0
    block_n: int = 0


def _tile_of(config: Mapping[str, Any], device: Device, problem: Problem) -> _Tile | None:
    """The tile of a config by the names that the solvers for products and convolutions use."""
    item = dtype_facts(problem.dtype)[0]
    lanes = max(1, device.vector_bytes // item) if device.kind == "cpu" else 1
    text = config.get("tile")
    numbers = [int(digits) for digits in _NUMBERS.findall(text)] if isinstance(text, str) else []
    if len(numbers) >= 2:
        rows, columns = prod(numbers[:-1]), numbers[-1] * lanes
    else:
        sides = (
            (_size(config, "tile_m", "pixels", "rows"), _size(config, "tile_n", "cols", "columns")),
            (_size(config, "rows"), _size(config, "vectors") * lanes),
        )
        rows, columns = next((pair for pair in sides if pair[0] and pair[1]), (0, 0))
    if not (rows and columns):
        return None
    return _Tile(
        rows,
        columns,
        _size(config, "tile_k", "k_block", "depth"),
        max(1, _size(config, "splits")),
        _size(config, "m_block"),
        _size(config, "n_block"),
    )


def _size(config: Mapping[str, Any], *names: str) -> int:
    """The first of these settings that is a size; 0 if there is none."""
    for name in names:
        value = config.get(name)
        if type(value) is int and value > 0:
            return value
    return 0


def _matrix_sizes(problem: Problem, features: Sequence[float]) -> tuple[int, int, int, int] | None:
    """Batch or groups, and rows, columns and depth of the product that a problem is."""
    group = operation_group(problem.operation)
    names = problem_feature_names(problem.operation)
    if group == "products":
        batch, m, n, k = problem.shape if len(problem.shape) == 4 else (1, *problem.shape)
        return batch, m, n, k
    if group != "convolutions":
        return None
    known = dict(zip(names, features, strict=True))
    sizes = (round(2 ** known[name]) for name in ("groups", "gemm_m", "gemm_n", "gemm_k"))
    groups, m, n, k = sizes
    return groups, m, n, k
