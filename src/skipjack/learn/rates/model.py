"""A cost model of schedules: a small network over `cost_features`, in plain arrays.

It is fitted by ``bench/loop_model.py`` from tables. It knows how schedules of a nest compare; how
long they take it knows as well as the machines of its tables are like the one that is asked about.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from math import log
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import MalformedError
from skipjack.learn.rates.features import MODEL_FEATURES, cost_facts, cost_features, log_scale
from skipjack.solvers.cpu.nest import Schedule

FILE = "cost_model.npz"
FORMAT = "skipjack-cost-model"
_LAYERS = 3
_LOG2 = log(2.0)
_DIGITS = 6
"""Of what is estimated, behind the point."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NetworkCostModel:
    """A `CostModel`: features are centred and scaled, then two hidden layers and a number.

    The number is the logarithm to base 2 of a schedule's time over `log_scale`'s.
    """

    mean: Matrix
    scale: Matrix
    weights: tuple[Matrix, ...]
    biases: tuple[Matrix, ...]
    card: dict[str, Any] = field(default_factory=dict)
    """What it was fitted on, and how well it does."""

    def log_seconds(
        self, problem: Problem, device: Device, schedules: Sequence[Schedule]
    ) -> list[float]:
        """The logarithm of each schedule's time in seconds."""
        if not schedules:
            return []
        facts = cost_facts(problem, device)
        features = np.array([cost_features(facts, one) for one in schedules], np.float32)
        told = self.predict(features).astype(float) + log_scale(facts)
        return [float(value) * _LOG2 for value in told]

    def predict(self, features: Matrix) -> Matrix:
        """For each row of features one number."""
        # A product's last bits depend on how many rows it has. A schedule has one time, whatever it
        # is asked for with: so more bits are computed than are kept.
        values = np.clip((features.astype(np.float64) - self.mean) / self.scale, -6.0, 6.0)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.maximum(values @ weight + bias, 0.0)
        result = (values @ self.weights[-1] + self.biases[-1])[:, 0]
        return np.round(result, _DIGITS).astype(np.float32)

    def save(self, path: Path) -> None:
        """Plain arrays and a text of JSON."""
        arrays: dict[str, Any] = {"mean": self.mean, "scale": self.scale}
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weight{at}": weight, f"bias{at}": bias}
        about = {"format": FORMAT, "features": MODEL_FEATURES, "card": self.card}
        text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
        with path.open("wb") as file:
            np.savez(file, about=text, **arrays)


def read_model(data: bytes, where: str) -> NetworkCostModel:
    """A model from the bytes of its file; `MalformedError` if it is none of this version."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        about = json.loads(found["about"].tobytes().decode())
        features = about["features"]
        model = NetworkCostModel(
            found["mean"],
            found["scale"],
            tuple(found[f"weight{at}"] for at in range(_LAYERS)),
            tuple(found[f"bias{at}"] for at in range(_LAYERS)),
            about["card"],
        )
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        raise MalformedError(f"{where} is not a cost model: {error}") from None
    if about.get("format") != FORMAT or features != MODEL_FEATURES:
        raise MalformedError(
            f"{where} is a cost model over features of version {features}, and this Skipjack has "
            f"version {MODEL_FEATURES}; fit it again with bench/loop_model.py"
        )
    return model


@functools.cache
def shipped_model() -> NetworkCostModel:
    """The one that comes with Skipjack."""
    file = resources.files("skipjack.learn.rates") / FILE
    return read_model(file.read_bytes(), FILE)
