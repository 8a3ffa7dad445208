"""The network of a policy, computed with NumPy alone, and its file."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import UsageError
from skipjack.learn.loops import POLICY_OBSERVATION, Preset

# The network, which takes about a third of a millisecond for a state.
#
# `skipjack.learn.training.network` is the same network in torch, for training; it describes the
# computation and the names of the arrays. The arithmetic is in float32 in both.

HEADS = 4
MOST_FROM_CURSOR = 8
MOST_FROM_END = 15
FORBIDDEN = np.float32(-1e9)
"""The logit of an illegal action: its probability is exactly 0 in float32."""
_LAYER = ("query", "key", "value", "out", "upper", "lower")

Floats = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]


class PolicyNetwork:
    """Computes logits of actions and values of states from the arrays of a policy."""

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
        """The logits of all actions, legal or not, and the value of one state."""
        there = int(np.count_nonzero(present))
        if not there:
            there = 1  # no loops: use a row of padding, as in training
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
        """The same for several states; present rows come first."""
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
        """Embeddings of the positions of loops, relative to the cursor and to both ends."""
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
    """Log probabilities of actions along the last axis; minus infinity for illegal ones."""
    allowed = np.where(mask, logits.astype(np.float64), -np.inf)
    most = allowed.max(axis=-1, keepdims=True)
    shifted = allowed - np.where(np.isfinite(most), most, 0.0)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # no action is legal in a game that has ended
        shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return np.where(mask, shifted, -np.inf)


def _check(arrays: Arrays, layers: int) -> None:
    """Raise `UsageError` if an array is missing or unknown, or has the wrong shape."""
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
            raise UsageError(f"array {name} of the policy contains values that are not finite")


# Files of policies: NumPy archives of plain arrays, which are read without unpickling.
#
# ===============  =============================================================================
# array            what it holds
# ===============  =============================================================================
# ``format``       the version of this format
# ``observation``  the version of the network's input (`POLICY_OBSERVATION`)
# ``preset``       the preset of the game that it plays
# ``actions``      the names of that game's actions, in the order of the network's logits
# all others       the weights by name, see `skipjack.learn.training.network`
# ===============  =============================================================================

FORMAT = 1
MAX_BYTES = 32 << 20
_MAX_ARRAYS = 256
_FIELDS = ("format", "observation", "preset", "actions")


@dataclass(frozen=True, slots=True)
class Policy:
    """A network and the game that it plays."""

    network: PolicyNetwork
    preset: Preset
    name: str
    """The name for messages and records."""


def write_policy(path: Path, arrays: Arrays, preset: Preset) -> None:
    """Write the weights of a network that was trained on this version's observations."""
    PolicyNetwork(arrays)  # raises UsageError if the file could not be read
    fields: dict[str, Any] = {
        "format": np.int64(FORMAT),
        "observation": np.int64(POLICY_OBSERVATION),
        "preset": np.str_(preset.value),
        "actions": np.array(preset.actions),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in {**fields, **arrays}.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.asarray(value), allow_pickle=False)
            # Without a date, so that files of equal weights are equal.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data.getvalue(), zipfile.ZIP_DEFLATED)


def read_policy(path: Path) -> Policy:
    """Read a policy; `UsageError` if it is not one, or is of another version."""
    return _checked(_file_arrays(path), f"policy {path}", path)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """Read the weights of a policy by name; errors are those of `read_policy`."""
    arrays = _file_arrays(path)
    _checked(arrays, f"policy {path}", path)
    return arrays


def _file_arrays(path: Path) -> dict[str, NDArray[Any]]:
    where = f"policy {path}"
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(f"{where} has {size} bytes; at most {MAX_BYTES} are allowed")
        return _read_arrays(path, where)
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise UsageError(f"{where} is not a file of plain arrays: {error}") from None


def _checked(arrays: dict[str, NDArray[Any]], where: str, path: Path) -> Policy:
    """The policy of these arrays; afterwards they contain only the weights."""
    lacking = next((name for name in _FIELDS if name not in arrays), "")
    if lacking:
        raise UsageError(f"{where} has no array {lacking}: it is not a policy")
    kept, observation, name, actions = (arrays.pop(field) for field in _FIELDS)
    if _whole(kept) != FORMAT:
        raise UsageError(
            f"{where} has format {_whole(kept)}, but this version of Skipjack reads format {FORMAT}"
        )
    if _whole(observation) != POLICY_OBSERVATION:
        raise UsageError(
            f"{where} was trained on observations of version {_whole(observation)}, but this "
            f"version of Skipjack uses version {POLICY_OBSERVATION}; train it again"
        )
    if str(name) not in tuple(Preset):
        raise UsageError(f"{where} plays the unknown preset {str(name)!r}")
    preset = Preset(str(name))
    if tuple(map(str, actions.ravel())) != preset.actions:
        raise UsageError(
            f"{where} has other actions than the preset {preset} of this version of Skipjack; "
            "train it again"
        )
    try:
        network = PolicyNetwork(arrays)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if network.actions != len(preset.actions):
        raise UsageError(f"{where} has {network.actions} logits for {len(preset.actions)} actions")
    return Policy(network, preset, str(path))


def _whole(value: NDArray[Any]) -> int:
    return int(value) if value.size == 1 and value.dtype.kind == "i" else -1


def _read_arrays(path: Path, where: str) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > _MAX_ARRAYS or sum(each.file_size for each in members) > MAX_BYTES:
            raise UsageError(f"{where} unpacks to more than {MAX_BYTES} bytes")
        return {each.filename.removesuffix(".npy"): _array(archive, each) for each in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read an array, after checking its header: NumPy allocates whatever a header claims."""
    with archive.open(member) as file:
        data = io.BytesIO(file.read(member.file_size + 1))
    version = np.lib.format.read_magic(data)
    if version != (1, 0):
        raise ValueError(f"array {member.filename} has version {version} of NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(data)
    if dtype.kind not in "ifU" or any(size < 0 for size in shape):
        raise ValueError(f"array {member.filename} holds {dtype}")
    if prod(shape) * dtype.itemsize != len(data.getbuffer()) - data.tell():
        raise ValueError(f"array {member.filename} is cut off")
    data.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(data, allow_pickle=False)
    return array
