"""The policies that come with Skipjack, and where they were shown to beat other searchers."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skipjack.core import Device, Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import Preset, loop_game, loop_space
from skipjack.learn.policy.network import Policy, read_policy
from skipjack.learn.policy.play import ANALYTIC, best_schedules
from skipjack.operations import comes_with_skipjack
from skipjack.reading import parse_json, read_json
from skipjack.solvers.cpu.nest import Schedule

# The policies that come with Skipjack, each with a card about its training.

FOLDER = Path(__file__).parent / "files"
SHIPPED = "shipped"
RUN_FILE = "policy.npz"
"""The policy's file in the folder of a training run."""


@functools.cache
def shipped(preset: Preset) -> Policy:
    """The policy that comes with Skipjack for a preset; `UsageError` if there is none."""
    path = FOLDER / f"{preset}.npz"
    if not path.is_file():
        raise UsageError(f"this version of Skipjack has no policy for the preset {preset}")
    return read_policy(path)


def find_policy(text: str, preset: Preset | None = None) -> Policy:
    """The policy ``shipped``, or the one in a file or in the folder of a training run.

    `UsageError` if there is none, or if it plays another preset than requested.
    """
    if text == SHIPPED:
        return shipped(preset or Preset.FULL)
    path = Path(text)
    policy = read_policy(path / RUN_FILE if path.is_dir() else path)
    if preset not in (None, policy.preset):
        raise UsageError(f"policy {policy.name} plays the preset {policy.preset}, not {preset}")
    return policy


def propose(
    problem: Problem, device: Device, count: int = 1, policy: Policy | None = None
) -> list[Schedule]:
    """The best schedules of a problem according to a policy, without measuring.

    The default is the policy that comes with Skipjack. `UsageError` for problems that policies
    cannot play: row programs, packed products, GPU kernels.
    """
    game = loop_game(problem, device, Preset.FULL)
    space = loop_space(problem, device)
    analytic = [space.schedule(config) for config in space.promising(ANALYTIC)]
    return best_schedules(policy or shipped(Preset.FULL), game, analytic, count)


def card(preset: Preset) -> dict[str, Any]:
    """The card of a policy: what it was trained on, how long, and by which script."""
    path = FOLDER / f"{preset}.json"
    found = parse_json(path.read_bytes(), str(path))
    assert isinstance(found, dict)
    return found


# Evaluations that show where the policy beats the other searchers.
#
# `bench/loop_policy.py` writes the file. Without it, or if the file is of another policy, ``auto``
# does not use the policy.

FORMAT = 1
_PRODUCTS, _CONVOLUTIONS = ("matmul", "bmm"), ("conv2d", "conv3d")


@dataclass(frozen=True, slots=True)
class EvaluationScope:
    """The scope of an evaluation: a kind of problems on a kind of CPUs."""

    group: str
    vector_bytes: int
    several_threads: bool


def evaluation_scope(problem: Problem, device: Device) -> EvaluationScope:
    """The scope of a problem on a device."""
    if problem.operation in _PRODUCTS:
        group = "products"
    elif problem.operation in _CONVOLUTIONS:
        group = "convolutions"
    else:
        group = "vectors" if comes_with_skipjack(problem.operation) else "plug-in"
    return EvaluationScope(group, device.vector_bytes, device.units > 1)


def leads(problem: Problem, device: Device) -> bool:
    """Whether the policy beat every other searcher in the scope of a problem."""
    return evaluation_scope(problem, device) in scopes_led(FOLDER)


@functools.cache
def scopes_led(folder: Path) -> frozenset[EvaluationScope]:
    """The scopes in which the folder's policy was best; none without an evaluation of it."""
    policy, evaluation = folder / f"{Preset.FULL}.npz", folder / "evaluation.json"
    if not (policy.is_file() and evaluation.is_file()):
        return frozenset()
    read = read_json(evaluation.read_bytes(), str(evaluation))
    if read["format"].integer() != FORMAT or read["policy"].text() != digest(policy):
        return frozenset()
    return frozenset(one.of(EvaluationScope) for one in read["beaten"].elements())


def evidence(grounds: list[EvaluationScope], policy: Path, source: str) -> dict[str, Any]:
    """The content of the evaluation file; `source` names the results behind it."""
    return {
        "format": FORMAT,
        "policy": digest(policy),
        "source": source,
        "beaten": [asdict(each) for each in grounds],
    }


def digest(path: Path) -> str:
    """The digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
