"""Where the policy that comes with Skipjack was shown to beat the other searchers.

`bench/loop_policy.py` writes the file; without it, or for another policy than the one it is of,
``auto`` does not use the policy.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.learn.loops import Preset
from skipjack.learn.policy.built_in import FOLDER
from skipjack.operations import comes_with_skipjack
from skipjack.reading import read_json

FORMAT = 1
_PRODUCTS, _CONVOLUTIONS = ("matmul", "bmm"), ("conv2d", "conv3d")


@dataclass(frozen=True, slots=True)
class Ground:
    """What an evaluation is about: a kind of problems on a kind of CPUs."""

    group: str
    vector_bytes: int
    several_threads: bool


def ground_of(problem: Problem, device: Device) -> Ground:
    """The kind that a problem is of."""
    if problem.operation in _PRODUCTS:
        group = "products"
    elif problem.operation in _CONVOLUTIONS:
        group = "convolutions"
    else:
        group = "vectors" if comes_with_skipjack(problem.operation) else "plug-in"
    return Ground(group, device.vector_bytes, device.units > 1)


def leads(problem: Problem, device: Device) -> bool:
    """Whether the policy beat every other searcher on this kind of problems."""
    return ground_of(problem, device) in beaten(FOLDER)


@functools.cache
def beaten(folder: Path) -> frozenset[Ground]:
    """The grounds on which the folder's policy came first; none without an evaluation of it."""
    policy, evaluation = folder / f"{Preset.FULL}.npz", folder / "evaluation.json"
    if not (policy.is_file() and evaluation.is_file()):
        return frozenset()
    read = read_json(evaluation.read_bytes(), str(evaluation))
    if read["format"].integer() != FORMAT or read["policy"].text() != digest(policy):
        return frozenset()
    return frozenset(one.of(Ground) for one in read["beaten"].elements())


def evidence(grounds: list[Ground], policy: Path, source: str) -> dict[str, Any]:
    """What `beaten` reads: `source` names the results that say so."""
    return {
        "format": FORMAT,
        "policy": digest(policy),
        "source": source,
        "beaten": [asdict(each) for each in grounds],
    }


def digest(path: Path) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
