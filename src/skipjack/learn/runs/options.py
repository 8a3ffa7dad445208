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
"""Options that may change when a run is resumed."""
SLOW_RATES = (LIVE, MIXED)
"""Prefixes of rates that are measured on demand."""


_LIMITS = {
    "total_steps": (1, 10**12),
    "episode_steps": (1, 1000),
    "episodes": (1, 100_000),
    "threads": (1, 1024),
    "seed": (0, 2**32 - 1),
    "eval_size": (0, 1_000_000),
    "eval_budget": (1, 10**9),
}
"""Ranges of options. The episodes of an iteration are in memory, and seeds are NumPy's."""


class TrainerName(StrEnum):
    """The trainers."""

    PPO = "ppo"
    DQN = "dqn"
    SB3 = "sb3"


_ALIASES = {
    "ppo.ppotrainer": TrainerName.PPO,
    "dqn.dqntrainer": TrainerName.DQN,
    "dqn.apextrainer": TrainerName.DQN,
    "maskableppo": TrainerName.SB3,
}
"""Names in the RLlib version with which LoopTune was trained, in lower case."""


def trainer_named(text: str) -> TrainerName:
    """The trainer of this name; `UsageError` if there is none."""
    known = _ALIASES | {each.value: each for each in TrainerName}
    if text.lower() not in known:
        also = "dqn.ApexTrainer and ppo.PPOTrainer are accepted, too"
        raise UsageError(f"unknown trainer {text!r}; choose from {', '.join(TrainerName)} ({also})")
    return known[text.lower()]


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The options of a run; invalid ones raise `UsageError`."""

    dataset: str
    trainer: TrainerName = TrainerName.PPO
    total_steps: int = 200_000
    """The total number of actions to play."""
    preset: Preset = Preset.LOOPTUNE
    episode_steps: int = 10
    episodes: int | None = None
    """Episodes in each iteration; None for the trainer's default."""
    rates: str = MODEL
    """The rates for training, as for `open_rates`."""
    threads: int = 1
    seed: int = 0
    start: str = ""
    """The initial policy; empty for random weights."""
    eval_size: int = 5
    """The number of problems in the evaluation after the run; 0 for no evaluation."""
    eval_time: float = 10.0
    """Seconds of each search on each problem in the evaluation."""
    eval_budget: int = 30
    """The most distinct schedules that each search measures."""
    eval_rates: str = LIVE

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{option(name)} is {value}; it must be {least} or more")
            if value is not None and value > most:
                raise UsageError(f"{option(name)} is {value}; it must be {most} or less")
        if not 0 < self.eval_time < inf:
            raise UsageError(
                f"--eval-time is {self.eval_time:g}; give a finite number of seconds above 0"
            )


def option(name: str) -> str:
    """The command-line option of a field."""
    return f"--{name.replace('_', '-')}"


def absolute_rates(text: str) -> str:
    """Rates with an absolute path of tables, because a run may be resumed from elsewhere."""
    bare = text.removeprefix(EXACTLY)
    if not bare or not Path(bare).exists():
        return text
    return f"{EXACTLY if bare != text else ''}{Path(bare).absolute()}"


def continued(options: TrainOptions, given: Mapping[str, Any], where: Path) -> TrainOptions:
    """The options of a resumed run, some of which are given again.

    `UsageError` if an option differs that cannot change.
    """
    kept = {each.name: getattr(options, each.name) for each in fields(options)}
    for name, value in given.items():
        if name not in MAY_CHANGE and kept[name] != value:
            raise UsageError(
                f"{where} was begun with {option(name)} {kept[name]}, not {value}; leave out the "
                "option to resume the run, or begin a new run with --out"
            )
    return TrainOptions(**kept | dict(given))


def what_rates_are(text: str) -> str:
    """A phrase that says whether times are measured, replayed or estimated."""
    if text == LIVE:
        return "measured"
    if text == MODEL:
        return "estimated"
    if text.startswith(MIXED):
        return f"estimated, and a share of {text.removeprefix(MIXED)} measured"
    if text.startswith(EXACTLY):
        return "replayed from a table"
    return "replayed from a table, and estimated where it has none"
