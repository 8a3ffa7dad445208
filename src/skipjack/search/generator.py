"""Searchers written as generators: yield a config or a batch, be sent what came of it.

::

    def search(context):
        trials = yield context.starts()
        while True:
            best = min((t for t in trials if t.ok), key=lambda t: t.value)
            trials = yield context.space.neighbours(best.config)

Configs that were tried before are answered from memory and cost nothing.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from skipjack.core.config import Config
from skipjack.core.space import Countable, Space
from skipjack.core.trial import Trial
from skipjack.errors import UsageError
from skipjack.search.searcher import SearchContext

log = logging.getLogger(__name__)

MAX_IDLE = 1000
"""A search that yields nothing new so often in a row is going in circles."""
_TRIES = 32
_LISTABLE = 20_000


@dataclass(frozen=True, slots=True)
class Ask:
    """What a search yields where a config or a list of configs does not say enough."""

    configs: Sequence[Config] = ()
    wait: bool = True
    """False: the search goes on when more is asked for, with what was told meanwhile.

    Without configs it goes on as soon as anything was told.
    """
    again: bool = False
    """Ask for configs that are known once more, where the context allows repeats."""


Batch = Config | Sequence[Config] | Ask
Batches = Generator[Batch, list[Trial], None]
"""A running search: yields batches, is sent the trials of each."""
Search = Callable[..., Batches]
"""Takes a `SearchContext`; further arguments, all with defaults, are the search's parameters."""


class GeneratorSearcher:
    """Runs a generator as a searcher.

    The starts of the context come first, nothing is asked twice, the budget is kept. The generator
    begins when the starts are asked; what was told by then is `known` in its context.

    Args:
        search: the generator function. A class hands over a method of its own, which may use `rng`,
            `fresh`, `seen`, `trials` and `is_new`.
        context: what to search.
        starts: whether the default and the seeds are asked before anything else.
    """

    def __init__(self, search: Search, context: SearchContext, *, starts: bool = True) -> None:
        self.context = context
        self.space = context.space
        self.rng = context.rng()
        self.trials: dict[str, Trial] = {}
        """What is known, by the config's key."""
        self.seen: set[str] = set()
        """Keys of all configs that were asked or told."""
        self.fresh = FreshConfigs(self.space, self.seen, self.rng)
        """Random configs that were not seen."""
        self._search = search
        self._running: Batches | None = None
        self._batch = Ask()
        self._awaited: list[tuple[str, int]] = []
        """The answers to the batch: the config's key, and which of its trials."""
        self._queue = deque((config, 0) for config in (context.starts() if starts else ()))
        """What is left to ask of the batch, each with which of its trials is wanted."""
        self._answers: defaultdict[str, list[Trial]] = defaultdict(list)
        self._wanted: Counter[str] = Counter()
        """How many trials of each config the search has asked for."""
        self._news: list[Trial] = []
        """What was told since the search last ran."""
        self._asked = self._idle = 0
        self._finished = False
        self._size = self.space.count() if isinstance(self.space, Countable) else None
        for trial in context.known:
            self.tell(trial)

    @property
    def done(self) -> bool:
        spent = self.context.trials is not None and self._asked >= self.context.trials
        exhausted = self._size is not None and len(self.seen) >= self._size
        return spent or (exhausted and not self.context.repeats) or self._finished

    def ask(self, n: int) -> list[Config]:
        configs: list[Config] = []
        while len(configs) < n and not self.done:
            config = self._next()
            if config is None:
                break
            self.seen.add(self.space.key(config))
            self._asked += 1
            configs.append(config)
        return configs

    def tell(self, trial: Trial) -> None:
        """What came of a config; one that is not in the space (any more) is of no use here."""
        if not self.space.contains(trial.config):
            return
        key = self.space.key(trial.config)
        self.seen.add(key)
        self.trials[key] = trial
        self._answers[key].append(trial)
        self._news.append(trial)

    def is_new(self, config: Config) -> bool:
        """Whether it was neither asked nor told."""
        return self.space.key(config) not in self.seen

    def settle(self) -> None:
        """Nothing is asked any more: let the search know the answer to its last batch."""
        if not self.done and self._awaited and self._may_go_on():
            self._advance()
        self._finished = True

    def _next(self) -> Config | None:
        """The next config of the batch; when all of it is known, the first of the next batch."""
        while not self._finished:
            while self._queue:
                config, place = self._queue.popleft()
                if self.is_new(config) or 0 < place >= len(self._answers[self.space.key(config)]):
                    return config
            if not self._may_go_on():
                return None
            self._advance()
        return None

    def _may_go_on(self) -> bool:
        if self._running is None:
            return True
        if self._batch.wait:
            return all(place < len(self._answers[key]) for key, place in self._awaited)
        return bool(self._batch.configs or self._news)

    def _advance(self) -> None:
        """Run the search up to its next batch, or to its end."""
        try:
            if self._running is None:
                context = replace(self.context, known=tuple(self.trials.values()))
                self._running = self._search(context)
                batch = next(self._running)
            else:
                batch = self._running.send(self._replies())
        except StopIteration:
            self._finished = True
            return
        self._news = []
        self._take(batch)
        if self._idle >= MAX_IDLE:
            log.info("search ended: nothing new in %d batches", MAX_IDLE)
            self._finished = True

    def _replies(self) -> list[Trial]:
        if not self._batch.wait:
            return self._news
        if not self.context.repeats:
            return [self.trials[key] for key, _ in self._awaited]
        return [self._answers[key][place] for key, place in self._awaited]

    def _take(self, batch: Batch) -> None:
        if not isinstance(batch, Ask):
            batch = Ask([batch] if isinstance(batch, Config) else list(batch))
        self._batch = batch
        self._awaited = []
        self._idle += 1
        for config in batch.configs:
            if not isinstance(config, Config) or not self.space.contains(config):
                raise UsageError(f"searcher yielded {config}, which the space does not contain")
            key = self.space.key(config)
            if not self._wanted[key] or (batch.again and self.context.repeats):
                self._queue.append((config, self._wanted[key]))
                self._wanted[key] += 1
                self._idle = 0
            self._awaited.append((key, self._wanted[key] - 1))


class FreshConfigs:
    """Draws from a space without repeating what is in `seen`, which its owner keeps up to date."""

    def __init__(self, space: Space, seen: Set[str], rng: np.random.Generator) -> None:
        self._space = space
        self._seen = seen
        self._rng = rng
        self._rest: Iterator[Config] | None = None

    def draw(self) -> Config | None:
        """A config not seen before; None once there is none to be found."""
        if self._rest is None:
            for _ in range(_TRIES):
                config = self._space.sample(self._rng)
                if self._space.key(config) not in self._seen:
                    return config
            # Nearly all was seen, so from here on what is left is listed.
            self._rest = self._leftover()
        return next(self._rest, None)

    def scouts(self, context: SearchContext) -> list[Config]:
        """Configs to look at before settling where to search: an eighth of the budget, 4 to 16."""
        trials = context.trials
        count = 16 if trials is None else max(4, min(16, trials // 8))
        distinct: dict[str, Config] = {}
        for _ in range(count - len(context.known)):
            config = self.draw()
            if config is not None:
                distinct[self._space.key(config)] = config
        return list(distinct.values())

    def _leftover(self) -> Iterator[Config]:
        space = self._space
        if not isinstance(space, Countable):
            draws: Iterator[Config] = (space.sample(self._rng) for _ in range(10 * _TRIES))
        elif space.count() <= _LISTABLE:
            listed = list(space.enumerate())
            draws = (listed[at] for at in self._rng.permutation(len(listed)))
        else:
            draws = space.enumerate()
        for config in draws:
            if self._space.key(config) not in self._seen:
                yield config
