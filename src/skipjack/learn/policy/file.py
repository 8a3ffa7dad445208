"""Policies as files: a NumPy archive of plain arrays, which is read without running any code of it.

===============  =============================================================================
array            what it holds
===============  =============================================================================
``format``       the version of this format
``observation``  the version of what the network sees (`POLICY_OBSERVATION`)
``preset``       which game it plays
``actions``      the names of that game's actions, in the order of the network's logits
the others       the weights by name: see `skipjack.learn.training.network`
===============  =============================================================================
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import UsageError
from skipjack.learn.loops import POLICY_OBSERVATION, Preset
from skipjack.learn.policy.network import Arrays, PolicyNetwork

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
    """Where it is from, for messages and records."""


def write_policy(path: Path, arrays: Arrays, preset: Preset) -> None:
    """Write the weights of a network that was trained on this version's observations."""
    PolicyNetwork(arrays)  # refuses what could not be read
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
            # A date of its own would make files of equal weights differ.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), data.getvalue(), zipfile.ZIP_DEFLATED)


def read_policy(path: Path) -> Policy:
    """The policy of a file; `UsageError` if it is not one, or one of another version."""
    return _checked(_file_arrays(path), f"policy {path}", path)


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The weights of the policy of a file, by name; errors are those of `read_policy`."""
    arrays = _file_arrays(path)
    _checked(arrays, f"policy {path}", path)
    return arrays


def _file_arrays(path: Path) -> dict[str, NDArray[Any]]:
    where = f"policy {path}"
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UsageError(f"{where} has {size} bytes; at most {MAX_BYTES} are read")
        return _read_arrays(path, where)
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise UsageError(f"{where} is not a file of plain arrays: {error}") from None


def _checked(arrays: dict[str, NDArray[Any]], where: str, path: Path) -> Policy:
    """The policy of arrays, which are the weights alone afterwards."""
    lacking = next((name for name in _FIELDS if name not in arrays), "")
    if lacking:
        raise UsageError(f"{where} has no array {lacking}: it is not a policy")
    kept, observation, name, actions = (arrays.pop(field) for field in _FIELDS)
    if _whole(kept) != FORMAT:
        raise UsageError(
            f"{where} has format {_whole(kept)}, this version of Skipjack reads format {FORMAT}"
        )
    if _whole(observation) != POLICY_OBSERVATION:
        raise UsageError(
            f"{where} was trained on observations of version {_whole(observation)}, this version "
            f"of Skipjack has version {POLICY_OBSERVATION}; train it again"
        )
    if str(name) not in tuple(Preset):
        raise UsageError(f"{where} plays the unknown game {str(name)!r}")
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
    """One array. Its header must say what there is: NumPy would allocate what a header claims."""
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
