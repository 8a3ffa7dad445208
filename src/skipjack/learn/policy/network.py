"""The network of a policy, computed with NumPy alone: about a third of a millisecond a state.

`skipjack.learn.training.network` is the same in torch, for training; its text says what is computed
and what the arrays are called. The arithmetic is in float32, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import UsageError

HEADS = 4
MOST_FROM_CURSOR = 8
MOST_FROM_END = 15
FORBIDDEN = np.float32(-1e9)
"""The logit of an illegal action: its probability is exactly 0 in float32."""
_LAYER = ("query", "key", "value", "out", "upper", "lower")

Floats = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]


class PolicyNetwork:
    """Logits of actions and the worth of states, from the arrays of a policy."""

    def __init__(self, arrays: Arrays) -> None:
        self.layers = sum(name.endswith(".query.weight") for name in arrays)
        _check(arrays, self.layers)
        self.width, self.row = arrays["row_in.weight"].shape
        self.machine = int(arrays["context.weight"].shape[1])
        self.actions = int(arrays["logits.weight"].shape[0])
        # Transposed once, so that products read both operands in the order of memory.
        self._weights = {
            name.removesuffix(".weight"): np.ascontiguousarray(value.T, np.float32)
            for name, value in arrays.items()
            if name.endswith(".weight") and not name.startswith("from_")
        }
        self._biases = {
            name.removesuffix(".bias"): np.ascontiguousarray(value, np.float32)
            for name, value in arrays.items()
            if name.endswith(".bias")
        }
        self._cursor, self._top, self._bottom = (
            np.ascontiguousarray(arrays[f"from_{end}.weight"], np.float32)
            for end in ("cursor", "top", "bottom")
        )

    def forward(
        self, rows: Floats, present: NDArray[np.bool_], cursor: int, machine: Floats
    ) -> tuple[Floats, float]:
        """The logits of all actions, legal or not, and the worth of one state."""
        there = int(np.count_nonzero(present))
        if not there:
            there = 1  # every loop runs once: a row of padding, as in training
        logits, worth = self.forward_many(
            rows[None, :there],
            present[None, :there],
            np.array([cursor]),
            machine[None],
        )
        return logits[0], float(worth[0])

    def forward_many(
        self,
        rows: Floats,
        present: NDArray[np.bool_],
        cursor: NDArray[np.integer[Any]],
        machine: Floats,
    ) -> tuple[Floats, Floats]:
        """The same for several states side by side; rows that are present come first."""
        most = max(1, int(present.sum(axis=1).max()))
        rows, present = rows[:, :most], present[:, :most]
        context = self._linear("context", machine)
        x = _relu(self._linear("row_out", _relu(self._linear("row_in", rows))))
        x += context[:, None]
        x += self._places(present, cursor)
        keys = np.where(present, np.float32(0), FORBIDDEN)[:, None, None]
        for layer in range(self.layers):
            x = self._layer(f"layers.{layer}.", x, keys)
        h = _relu(self._linear("trunk", _joined(_scaled(x), present, cursor, context)))
        return self._linear("logits", h), self._linear("worth", h)[:, 0]

    def _linear(self, name: str, x: Floats) -> Floats:
        result: Floats = x @ self._weights[name]
        result += self._biases[name]
        return result

    def _places(self, present: NDArray[np.bool_], cursor: NDArray[np.integer[Any]]) -> Floats:
        """What is added for where a loop is: from the cursor, and from both ends."""
        at = np.arange(present.shape[1])
        near = np.clip(at - cursor[:, None], -MOST_FROM_CURSOR, MOST_FROM_CURSOR)
        bottom = np.clip(present.sum(axis=1)[:, None] - 1 - at, 0, MOST_FROM_END)
        top = np.minimum(at, MOST_FROM_END)
        places: Floats = self._cursor[near + MOST_FROM_CURSOR] + self._bottom[bottom]
        places += self._top[top]
        return places

    def _layer(self, prefix: str, x: Floats, keys: Floats) -> Floats:
        states, loops, width = x.shape
        size = width // HEADS
        y = _scaled(x)
        query, key, value = (
            self._linear(prefix + name, y).reshape(states, loops, HEADS, size).swapaxes(1, 2)
            for name in ("query", "key", "value")
        )
        weights: Floats = query @ key.swapaxes(2, 3)
        weights *= np.float32(size**-0.5)
        weights += keys
        weights -= weights.max(axis=3, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=3, keepdims=True)
        seen: Floats = (weights @ value).swapaxes(1, 2).reshape(states, loops, width)
        x = np.add(x, self._linear(prefix + "out", seen))
        x += self._linear(prefix + "lower", _relu(self._linear(prefix + "upper", _scaled(x))))
        return x


def _joined(
    y: Floats, present: NDArray[np.bool_], cursor: NDArray[np.integer[Any]], context: Floats
) -> Floats:
    states, loops, width = y.shape
    there = present[:, :, None]
    y = y * there
    mean = y.sum(axis=1) / np.maximum(there.sum(axis=1), 1).astype(np.float32)
    largest = np.maximum(np.where(there, y, FORBIDDEN).max(axis=1), np.float32(-1e6))
    padded = np.zeros((states, loops + 2, width), np.float32)
    padded[:, 1:-1] = y
    every = np.arange(states)
    near = [padded[every, np.minimum(cursor + shift, loops + 1)] for shift in (1, 0, 2)]
    return np.concatenate([mean, largest, *near, context], axis=1, dtype=np.float32)


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0), out=x)


def _scaled(x: Floats) -> Floats:
    mean = np.einsum("...w,...w->...", x, x)[..., None] / np.float32(x.shape[-1])
    result: Floats = x / np.sqrt(mean + np.float32(1e-6))
    return result


def log_probabilities(logits: Floats, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Of each action, along the last axis; minus infinity for those that are not legal."""
    allowed = np.where(mask, logits.astype(np.float64), -np.inf)
    most = allowed.max(axis=-1, keepdims=True)
    shifted = allowed - np.where(np.isfinite(most), most, 0.0)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # no action is legal in a game that has ended
        shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.where(mask, shifted, -np.inf)


def _check(arrays: Arrays, layers: int) -> None:
    """Raise `UsageError` if an array is missing, too many, or of another shape than the others."""
    missing = [f"{name}.weight" for name in ("row_in", "context", "trunk", "logits")]
    missing = [name for name in missing if name not in arrays or arrays[name].ndim != 2]
    if missing:
        raise UsageError(f"the policy has no matrix {missing[0]}")
    width, row = arrays["row_in.weight"].shape
    machine, trunk = arrays["context.weight"].shape[1], arrays["trunk.weight"].shape[0]
    matrices = {
        "row_in": (width, row),
        "row_out": (width, width),
        "context": (width, machine),
        "trunk": (trunk, 6 * width),
        "logits": (arrays["logits.weight"].shape[0], trunk),
        "worth": (1, trunk),
    }
    for layer in range(layers):
        inner = {"upper": (2 * width, width), "lower": (width, 2 * width)}
        matrices |= {f"layers.{layer}.{name}": inner.get(name, (width, width)) for name in _LAYER}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, matrix in matrices.items():
        shapes |= {f"{name}.weight": matrix, f"{name}.bias": matrix[:1]}
    shapes |= {
        "from_cursor.weight": (2 * MOST_FROM_CURSOR + 1, width),
        "from_top.weight": (MOST_FROM_END + 1, width),
        "from_bottom.weight": (MOST_FROM_END + 1, width),
    }
    if width % HEADS:
        raise UsageError(f"the policy's width of {width} is not a multiple of {HEADS}")
    for name in shapes.keys() ^ arrays.keys():
        what = "has no" if name in shapes else "has an unknown"
        raise UsageError(f"the policy {what} array {name}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float32:
            found = f"{arrays[name].dtype} {arrays[name].shape}"
            raise UsageError(f"array {name} of the policy is {found}, not float32 {shape}")
        if not np.isfinite(arrays[name]).all():
            raise UsageError(f"array {name} of the policy holds numbers that are not finite")
