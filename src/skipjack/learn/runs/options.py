"""The options of a training run, and which of them may change when it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any

from skipjack.errors import UsageError
from skipjack.learn.loops import Preset
from skipjack.learn.rates import EXACTLY, LIVE, MIXED, MODEL

MAY_CHANGE = ("total_steps", "eval_size", "eval_time", "eval_budget", "eval_rates")
"""Options that may have other values when a run is resumed."""
SLOW_RATES = (LIVE, MIXED)
"""How texts of rates begin that are measured while they are asked for."""


_LIMITS = {
    "total_steps": (1, 10**12),
    "episode_steps": (1, 1000),
    "episodes": (1, 100_000),
    "threads": (1, 1024),
    "seed": (0, 2**32 - 1),
    "eval_size": (0, 1_000_000),
    "eval_budget": (1, 10**9),
}
"""The least and the most. Episodes of an iteration are in memory, and seeds are NumPy's."""


class TrainerName(StrEnum):
    """Who trains."""

    PPO = "ppo"
    DQN = "dqn"
    SB3 = "sb3"


_ALIASES = {
    "ppo.ppotrainer": TrainerName.PPO,
    "dqn.dqntrainer": TrainerName.DQN,
    "dqn.apextrainer": TrainerName.DQN,
    "maskableppo": TrainerName.SB3,
}
"""As RLlib called them when LoopTune was trained, in small letters."""


def trainer_named(text: str) -> TrainerName:
    """The trainer of this name; `UsageError` if there is none."""
    known = _ALIASES | {each.value: each for each in TrainerName}
    if text.lower() not in known:
        also = "dqn.ApexTrainer and ppo.PPOTrainer are taken as well"
        raise UsageError(
            f"there is no trainer {text!r}; choose from {', '.join(TrainerName)} ({also})"
        )
    return known[text.lower()]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of a run. What is wrong raises `UsageError`."""

    dataset: str
    trainer: TrainerName = TrainerName.PPO
    total_steps: int = 200_000
    """Actions to play in all."""
    preset: Preset = Preset.LOOPTUNE
    episode_steps: int = 10
    episodes: int | None = None
    """Of each iteration; None for what is usual for the trainer."""
    rates: str = MODEL
    """What the times are from that are trained on, as `open_rates` knows it."""
    threads: int = 1
    seed: int = 0
    start: str = ""
    """The policy that the network is at first; empty for random weights."""
    eval_size: int = 5
    """Problems that the policy is judged on in the end; 0 for none."""
    eval_time: float = 10.0
    """Seconds of each search on each of them."""
    eval_budget: int = 30
    """Distinct schedules that each search measures."""
    eval_rates: str = LIVE

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{option(name)} is {value}; give {least} or more")
            if value is not None and value > most:
                raise UsageError(f"{option(name)} is {value}; give {most} or less")
        if not 0 < self.eval_time < inf:
            raise UsageError(f"--eval-time is {self.eval_time:g}; give seconds above 0")


def option(name: str) -> str:
    """A field as it is called on the command line."""
    return f"--{name.replace('_', '-')}"


def absolute_rates(text: str) -> str:
    """Rates with the absolute path of their tables: a run may be resumed from another folder."""
    bare = text.removeprefix(EXACTLY)
    if not bare or not Path(bare).exists():
        return text
    return f"{EXACTLY if bare != text else ''}{Path(bare).absolute()}"


def continued(options: TrainOptions, given: Mapping[str, Any], where: Path) -> TrainOptions:
    """The options of a run that goes on with some that are given anew.

    `UsageError` if one of those is not as it was and cannot change.
    """
    kept = {each.name: getattr(options, each.name) for each in fields(options)}
    for name, value in given.items():
        if name not in MAY_CHANGE and kept[name] != value:
            raise UsageError(
                f"{where} was begun with {option(name)} {kept[name]}, not {value}; leave it out to "
                "go on, or begin a new run with --out"
            )
    return TrainOptions(**kept | dict(given))


def what_rates_are(text: str) -> str:
    """Whether the times of a text of rates are measured, replayed or estimated."""
    if text == LIVE:
        return "measured"
    if text == MODEL:
        return "estimated"
    if text.startswith(MIXED):
        return f"estimated, and a share of {text.removeprefix(MIXED)} measured"
    if text.startswith(EXACTLY):
        return "replayed from a table"
    return "replayed from a table, and estimated where it has none"
