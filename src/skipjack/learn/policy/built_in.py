"""The policies that come with Skipjack, each with a card that says what it was trained on."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import Preset, loop_game, loop_space
from skipjack.learn.policy.file import Policy, read_policy
from skipjack.learn.policy.play import ANALYTIC, best_schedules
from skipjack.reading import parse_json
from skipjack.solvers.cpu.nest import Schedule

FOLDER = Path(__file__).parent / "files"
SHIPPED = "shipped"
RUN_FILE = "policy.npz"
"""What the policy is called in the folder of a training run."""


@functools.cache
def shipped(preset: Preset) -> Policy:
    """The policy for a preset; `UsageError` if this version has none."""
    path = FOLDER / f"{preset}.npz"
    if not path.is_file():
        raise UsageError(f"this version of Skipjack comes without a policy for the preset {preset}")
    return read_policy(path)


def find_policy(text: str, preset: Preset | None = None) -> Policy:
    """The policy that a text names: ``shipped``, the folder of a training run, or a file.

    `UsageError` if there is none, or it plays another preset than the one that is asked for.
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
    """The best schedules of a problem according to a policy, before anything is measured.

    Without `policy` it is the one that comes with Skipjack. `UsageError` where policies do not
    play: row programs, packed products, kernels for GPUs.
    """
    game = loop_game(problem, device, Preset.FULL)
    space = loop_space(problem, device)
    analytic = [space.schedule(config) for config in space.promising(ANALYTIC)]
    return best_schedules(policy or shipped(Preset.FULL), game, analytic, count)


def card(preset: Preset) -> dict[str, Any]:
    """What the policy was trained on, how long, and by which script."""
    path = FOLDER / f"{preset}.json"
    found = parse_json(path.read_bytes(), str(path))
    assert isinstance(found, dict)
    return found
