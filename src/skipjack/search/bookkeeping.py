"""What all searchers share: the seeds come first, nothing is asked twice, the budget is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from skipjack.core.config import Config
from skipjack.core.space import Countable
from skipjack.core.trial import Trial
from skipjack.errors import UsageError
from skipjack.search.fresh import FreshConfigs
from skipjack.search.searcher import SearchContext


class BookkeepingSearcher(ABC):
    """A searcher that only has to propose. Subclasses implement `propose` and may use `trials`."""

    def __init__(self, context: SearchContext) -> None:
        self.context = context
        self.space = context.space
        self.rng = context.rng()
        self.trials: dict[str, Trial] = {}
        """What is known, by the config's key."""
        self.seen: set[str] = set()
        """Keys of all configs that were asked or told."""
        self.fresh = FreshConfigs(self.space, self.seen, self.rng)
        self._starts = deque(context.starts())
        self._asked = 0
        self._finished = False
        self._size = self.space.count() if isinstance(self.space, Countable) else None
        for trial in context.known:
            self.tell(trial)

    @abstractmethod
    def propose(self) -> Config | None:
        """A legal config that was not seen, or None: wait for trials, or `finish` was called."""

    def observe(self, trial: Trial) -> None:  # noqa: B027 - a hook, not a duty
        """Learn from a trial, if the searcher keeps more than `trials`."""

    def finish(self) -> None:
        """Say that there is nothing left to propose, ever."""
        self._finished = True

    @property
    def done(self) -> bool:
        """Whether it will never ask again."""
        spent = self.context.trials is not None and self._asked >= self.context.trials
        exhausted = self._size is not None and len(self.seen) >= self._size
        return spent or exhausted or self._finished

    def ask(self, n: int) -> list[Config]:
        """Up to `n` configs to try."""
        configs: list[Config] = []
        while len(configs) < n and not self.done:
            config = self._next_start() or self.propose()
            if config is None:
                break
            self._note(config)
            configs.append(config)
        return configs

    def tell(self, trial: Trial) -> None:
        """What came of a config; one that is not in the space (any more) is of no use here."""
        if not self.space.contains(trial.config):
            return
        key = self.space.key(trial.config)
        self.seen.add(key)
        self.trials[key] = trial
        self.observe(trial)

    def is_new(self, config: Config) -> bool:
        """Whether it was neither asked nor told."""
        return self.space.key(config) not in self.seen

    def _next_start(self) -> Config | None:
        while self._starts:
            config = self._starts.popleft()
            if self.is_new(config):
                return config
        return None

    def _note(self, config: Config) -> None:
        if not self.space.contains(config):
            raise UsageError(f"searcher asked for {config}, which the space does not contain")
        self.seen.add(self.space.key(config))
        self._asked += 1
