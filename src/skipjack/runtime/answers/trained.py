"""The proposal of a trained heuristic: a config of its portfolio, if it is confident."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skipjack.bank import system_dir_of
from skipjack.core import Config, Device, Problem
from skipjack.models import SURE, heuristic_features, installed_heuristic
from skipjack.settings import Settings
from skipjack.solvers import AdaptedConfigs

_TRIED = 8
"""Members of the portfolio that are tried until the problem can use one."""


@dataclass(frozen=True, slots=True)
class TrainedProposal:
    """What a heuristic proposes."""

    solver: str
    config: Config
    """Empty for a library."""
    confidence: float
    """The probability that it is within 10 % of the best."""


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
    for ranked in model.rank(problem, device, features)[:_TRIED]:
        solver = ranked.member.solver
        config = legal.config(solver, ranked.member.config, ranked.member.place)
        if config is None:
            continue
        confidence = model.confidence(features, ranked.behind)
        if confidence < SURE:
            return f"the heuristic is not sure enough (confidence {confidence:.2f} of {SURE})"
        return TrainedProposal(solver, config, confidence)
    return "the problem can use none of the configs that the heuristic ranks first"
