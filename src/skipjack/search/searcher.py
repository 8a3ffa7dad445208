"""What a searcher is, and what it is given to start with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.core.trial import Trial

_BEFORE_DEFAULT = 2


@dataclass(frozen=True, slots=True)
class SearchContext:
    """Everything a search depends on besides what it is told."""

    space: Space
    seed: int = 0
    trials: int | None = None
    """How many configs may be asked; None for no limit."""
    seeds: tuple[Config, ...] = ()
    """Where to look first: winners of near problems, promising configs."""
    known: tuple[Trial, ...] = ()
    """Trials of earlier runs of the study. They are not asked again and cost no budget."""
    default_soon: bool = True
    """Gains are measured against the default, so it is asked early; else after all seeds.

    Two seeds go before it: where time is short they are worth more.
    """
    problem: Problem | None = None
    """What is tuned; None where it is not a problem, as in a sweep of commands."""
    device: Device | None = None
    """What it is tuned for, which may not be here; None where there is no problem."""
    repeats: bool = False
    """Whether a config may be asked again: runs of a command differ, and a search may need that."""

    def starts(self) -> tuple[Config, ...]:
        """What is asked first: the default and the seeds that are legal here, each once."""
        legal = [config for config in self.seeds if self.space.contains(config)]
        place = _BEFORE_DEFAULT if self.default_soon else len(legal)
        order = (*legal[:place], self.space.default(), *legal[place:])
        return tuple({self.space.key(config): config for config in order}.values())

    def rng(self) -> np.random.Generator:
        """A fresh source of randomness, the same for the same seed."""
        return np.random.default_rng(self.seed)


@runtime_checkable
class Searcher(Protocol):
    """Decides which configs to try next. `GeneratorSearcher` is the easy way to write one.

    Configs that are asked are legal, distinct, and not among the trials told before (unless the
    context allows repeats); there are never more than the budget. Given the same context and the
    same calls with the same trials in the same order, a searcher asks the same.
    """

    def ask(self, n: int) -> list[Config]:
        """Up to `n` configs; fewer or none while it waits for trials, none once it is `done`."""
        ...

    def tell(self, trial: Trial) -> None:
        """What came of a config. In any order, also of configs that were never asked."""
        ...

    @property
    def done(self) -> bool:
        """Whether it will never ask again, whatever it is told."""
        ...
