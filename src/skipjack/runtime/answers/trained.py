"""The proposal of a trained heuristic: a config of its portfolio, if it is confident."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skipjack.bank import system_dir_of
from skipjack.core import Config, Device, Problem
from skipjack.models import SURE, heuristic_features, installed_heuristic
from skipjack.settings import Settings
from skipjack.solvers import AdaptedConfigs

_TIMED = 4
"""Configs that are proposed on a CPU, where guesses are timed; on a GPU it is one."""


@dataclass(frozen=True, slots=True)
class TrainedProposal:
    """What a heuristic proposes."""

    solver: str
    config: Config
    """Empty for a library."""
    confidence: float
    """The probability that it is within 10 % of the best."""
    others: tuple[tuple[str, Config], ...] = ()
    """Solvers and configs that are expected to be nearly as fast."""


def model_directories(settings: Settings) -> tuple[Path, Path]:
    """Where models are looked for: the user's come before those shipped with Skipjack."""
    return settings.user_dir, system_dir_of(settings.system_dir)


def trained_proposal(problem: Problem, device: Device, settings: Settings) -> TrainedProposal | str:
    """The config to use, or why there is none."""
    model = installed_heuristic(problem, device, model_directories(settings))
    if model is None:
        return "no heuristic was trained for this operation and device"
    if not model.applies(problem, device):
        return "the heuristic was not trained for this dtype, layout, direction or threads"
    legal = AdaptedConfigs(problem, device)
    features = heuristic_features(problem, device)
    found = model.propose(
        problem,
        device,
        lambda member: legal.config(member.solver, member.config, member.place),
        wanted=_TIMED if device.kind == "cpu" else 1,
        features=features,
    )
    if not found:
        return "the problem can use none of the configs that the heuristic ranks first"
    first, *others = found
    confidence = model.confidence(features, first.behind)
    if confidence < SURE:
        return f"the heuristic is not sure enough (confidence {confidence:.2f} of {SURE})"
    more = tuple((one.solver, one.config) for one in others)
    return TrainedProposal(first.solver, first.config, confidence, more)
