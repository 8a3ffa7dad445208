"""The policies that come with Skipjack, each with a card that says what it was trained on."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import Preset, loop_game
from skipjack.learn.policy.file import Policy, read_policy
from skipjack.learn.policy.play import proposals
from skipjack.reading import parse_json
from skipjack.solvers.cpu.nest import Schedule

FOLDER = Path(__file__).parent / "files"


@functools.cache
def shipped(preset: Preset) -> Policy:
    """The policy for a preset; `UsageError` if this version has none."""
    path = FOLDER / f"{preset}.npz"
    if not path.is_file():
        raise UsageError(f"this version of Skipjack comes without a policy for the preset {preset}")
    return read_policy(path)


def propose(problem: Problem, device: Device, count: int = 1) -> list[Schedule]:
    """Schedules of a problem that the policy holds to be best, before anything was measured.

    `UsageError` where it does not play: row programs, packed products, kernels for GPUs.
    """
    game = loop_game(problem, device, Preset.FULL)
    return [each.schedule for each in proposals(shipped(Preset.FULL), game, count)]


def card(preset: Preset) -> dict[str, Any]:
    """What the policy was trained on, how long, and by which script."""
    path = FOLDER / f"{preset}.json"
    found = parse_json(path.read_bytes(), str(path))
    assert isinstance(found, dict)
    return found
