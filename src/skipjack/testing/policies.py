"""Policies for tests: networks with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ENDS = {"from_cursor": 17, "from_top": 16, "from_bottom": 16}


def random_weights(
    row: int, machine: int, actions: int, *, width: int = 16, trunk: int = 24, seed: int = 1
) -> dict[str, NDArray[Any]]:
    """The arrays of a small network: so many features of a loop and of a game, so many actions."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> NDArray[np.float32]:
        return rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    matrices = {
        "row_in": (width, row),
        "row_out": (width, width),
        "context": (width, machine),
        "trunk": (trunk, 6 * width),
        "logits": (actions, trunk),
        "worth": (1, trunk),
    }
    for layer in range(2):
        for name in ("query", "key", "value", "out", "upper", "lower"):
            tall = {"upper": (2 * width, width), "lower": (width, 2 * width)}
            matrices[f"layers.{layer}.{name}"] = tall.get(name, (width, width))
    arrays = {f"{name}.weight": drawn(*shape) for name, shape in matrices.items()}
    arrays |= {f"{name}.bias": drawn(shape[0]) for name, shape in matrices.items()}
    return arrays | {f"{name}.weight": drawn(count, width) for name, count in _ENDS.items()}
