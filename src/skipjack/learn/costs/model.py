"""A cost model of schedules: regression trees over `cost_features`, in plain arrays.

``bench/loop_model.py`` fits it to tables. The preset looptune has its own model, which is also
fitted to schedules of that game. A model predicts how schedules of a nest compare; its absolute
times are only as good as the machine resembles those of its tables.
"""

from __future__ import annotations

import functools
import io
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from math import log
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Device, Problem
from skipjack.errors import MalformedError
from skipjack.learn.costs.features import (
    MODEL_FEATURES,
    CostFacts,
    cost_facts,
    cost_features,
    log_scale,
)
from skipjack.learn.loops import LoopGame, Preset
from skipjack.models import TreeEnsemble
from skipjack.reading import parse_json
from skipjack.solvers.cpu.nest import Schedule

MODEL_FILE = "cost_model.npz"
_FILES = {Preset.FULL: MODEL_FILE, Preset.LOOPTUNE: "looptune_model.npz"}
FORMAT = "skipjack-cost-trees"
_ARRAYS = ("roots", "features", "thresholds", "below", "above", "values")
_DAMAGE = (
    *(OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error),
    *(RuntimeError, NotImplementedError),  # headers of an encrypted file, or of a newer zip
)
_LOG2 = log(2.0)
_DIGITS = 6
"""Decimal places of estimates."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TreeCostModel:
    """A `CostModel`: trees for log2 of a schedule's time relative to that of `log_scale`."""

    trees: TreeEnsemble
    card: dict[str, Any] = field(default_factory=dict)
    """A description: what it was fitted on, and its quality."""

    def log_seconds(
        self, problem: Problem, device: Device, schedules: Sequence[Schedule]
    ) -> list[float]:
        """The logarithm of each schedule's time in seconds."""
        return self._log_seconds(cost_facts(problem, device), schedules)

    def log_seconds_in(self, game: LoopGame, schedules: Sequence[Schedule]) -> list[float]:
        """The same for schedules of a game."""
        return self._log_seconds(CostFacts(game), schedules)

    def _log_seconds(self, facts: CostFacts, schedules: Sequence[Schedule]) -> list[float]:
        if not schedules:
            return []
        rows = np.array([cost_features(facts, one) for one in schedules], np.float32)
        told = self.predict(rows).astype(float) + log_scale(facts)
        return [float(value) * _LOG2 for value in told]

    def predict(self, rows: Floats) -> Floats:
        """The estimate for each row of features."""
        # Round: the last bits of a sum may depend on the number of rows.
        rounded: Floats = np.round(self.trees.sums(rows), _DIGITS).astype(np.float32)
        return rounded

    def save(self, path: Path) -> None:
        """Write the arrays, and a description as JSON."""
        about = {
            "format": FORMAT,
            "features": MODEL_FEATURES,
            "depth": self.trees.depth,
            "card": self.card,
        }
        text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
        with path.open("wb") as file:
            arrays = {name: getattr(self.trees, name) for name in _ARRAYS}
            np.savez_compressed(file, about=text, **arrays)


def read_model(data: bytes, where: str) -> TreeCostModel:
    """Read a model from bytes; `MalformedError` if it is not a model of this version."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        about = parse_json(found["about"].tobytes(), where)
        known = (about["format"], about["features"])
        trees = TreeEnsemble(**{name: found[name] for name in _ARRAYS}, depth=int(about["depth"]))
        model = TreeCostModel(trees, about["card"])
    except _DAMAGE as error:
        raise MalformedError(f"{where} is not a cost model of this version: {error}") from None
    if known != (FORMAT, MODEL_FEATURES):
        raise MalformedError(
            f"{where} is a cost model for features of version {known[1]}, but this Skipjack has "
            f"version {MODEL_FEATURES}; fit it again with bench/loop_model.py"
        )
    model.trees.check(where)
    return model


@functools.cache
def shipped_model(preset: Preset = Preset.FULL) -> TreeCostModel:
    """The model that comes with Skipjack for a preset."""
    name = _FILES[preset]
    file = resources.files("skipjack.learn.costs") / name
    return read_model(file.read_bytes(), name)
