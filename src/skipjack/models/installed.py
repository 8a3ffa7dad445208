"""Where trained models lie: in the user directory, else in that of the system's bank."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from skipjack.core import Device, Problem
from skipjack.models.features import operation_group
from skipjack.models.heuristic import ConfigHeuristic
from skipjack.models.ranker import Ranker, device_key

MODELS = "models"
"""The directory of models in a user directory."""
HEURISTIC_FILE, RANKER_FILE = "heuristic", "ranker"


def model_file(directory: Path, what: str, group: str, device: str) -> Path:
    """The file of a model in a user directory."""
    return directory / MODELS / f"{what}-{group}-{device}.npz"


def installed_heuristic(
    problem: Problem, device: Device, directories: Sequence[Path]
) -> ConfigHeuristic | None:
    """The heuristic for a problem in the first directory that has one.

    Raises `MalformedError` if the file is damaged.
    """
    found = _installed(HEURISTIC_FILE, problem, device, directories)
    return None if found is None else _heuristic(*found)


def installed_ranker(
    problem: Problem, device: Device, directories: Sequence[Path]
) -> Ranker | None:
    """The ranker for a problem in the first directory that has one.

    Raises `MalformedError` if the file is damaged.
    """
    found = _installed(RANKER_FILE, problem, device, directories)
    return None if found is None else _ranker(*found)


def _installed(
    what: str, problem: Problem, device: Device, directories: Sequence[Path]
) -> tuple[Path, int] | None:
    name = operation_group(problem.operation), device_key(device)
    for directory in directories:
        path = model_file(directory, what, *name)
        try:
            return path, path.stat().st_mtime_ns
        except OSError:
            continue
    return None


@functools.lru_cache(maxsize=32)
def _heuristic(path: Path, _changed_ns: int) -> ConfigHeuristic:
    return ConfigHeuristic.read(path.read_bytes(), str(path))


@functools.lru_cache(maxsize=32)
def _ranker(path: Path, _changed_ns: int) -> Ranker:
    return Ranker.read(path.read_bytes(), str(path))
