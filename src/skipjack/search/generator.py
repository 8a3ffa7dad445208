"""Searchers written as generators, which yield configs and receive their trials.

::

    def search(context):
        trials = yield context.starts()
        while True:
            best = min((t for t in trials if t.ok), key=lambda t: t.value)
            trials = yield context.space.neighbours(best.config)

Configs that were tried before are answered from memory, at no cost.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from skipjack.core import Config, Countable, Space, Trial
from skipjack.errors import UsageError
from skipjack.search.searcher import SearchContext

log = logging.getLogger(__name__)

MAX_IDLE = 1000
"""A search that yields no new config in this many batches in a row is ended."""
_TRIES = 32
_LISTABLE = 20_000


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a search, with options that a config or a list of configs cannot express."""

    configs: Sequence[Config] = ()
    wait: bool = True
    """False: the search continues when more configs are requested, with the trials told meanwhile.

    Without configs it continues as soon as a trial was told.
    """
    again: bool = False
    """Request known configs once more, if the context allows repeats."""


Batch = Config | Sequence[Config] | Ask
Batches = Generator[Batch, list[Trial], None]
"""A running search: it yields batches and receives the trials of each."""
Search = Callable[..., Batches]
"""Takes a `SearchContext`; further arguments, all with defaults, are the search's parameters."""


class GeneratorSearcher:
    """Runs a generator as a searcher.

    The starting points of the context come first, no config is requested twice, and the budget is
    observed. The generator begins after the starting points were requested; trials told by then are
    `known` in its context.

    Args:
        search: the generator function. A subclass passes one of its methods, which may use `rng`,
            `fresh`, `seen`, `trials` and `is_new`.
        context: what to search.
        starts: whether the default and the seeds are requested first.
    """

    def __init__(self, search: Search, context: SearchContext, *, starts: bool = True) -> None:
        self.context = context
        self.space = context.space
        self.rng = context.rng()
        self.trials: dict[str, Trial] = {}
        """The last trial of each config, by the config's key."""
        self.seen: set[str] = set()
        """Keys of all configs that were requested or told."""
        self.fresh = FreshConfigs(self.space, self.seen, self.rng)
        """Random configs that were not seen yet."""
        self._search = search
        self._running: Batches | None = None
        self._batch = Ask()
        self._awaited: list[tuple[str, int]] = []
        """The trials that the batch waits for: the config's key, and which of its trials."""
        self._queue = deque((config, 0) for config in (context.starts() if starts else ()))
        """Configs of the batch still to be requested, each with which of its trials is meant."""
        self._answers: defaultdict[str, list[Trial]] = defaultdict(list)
        self._wanted: Counter[str] = Counter()
        """How many trials of each config the search has requested."""
        self._news: list[Trial] = []
        """Trials told since the search last ran."""
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
        """Record a trial; one whose config is not in the space is ignored."""
        if not self.space.contains(trial.config):
            return
        key = self.space.key(trial.config)
        self.seen.add(key)
        self.trials[key] = trial
        self._answers[key].append(trial)
        self._news.append(trial)

    def is_new(self, config: Config) -> bool:
        """Whether a config was neither requested nor told."""
        return self.space.key(config) not in self.seen

    def finish(self) -> None:
        """End the search, after sending it the trials of its last batch if they are known."""
        if not self.done and self._awaited and self._may_go_on():
            self._advance()
        self._finished = True

    def _next(self) -> Config | None:
        """The next config of the batch, or of the next batch once all of it is known."""
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
            log.info("search ended: no new config in %d batches", MAX_IDLE)
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
    """Draws configs that are not in `seen`, which its owner keeps up to date."""

    def __init__(self, space: Space, seen: Set[str], rng: np.random.Generator) -> None:
        self._space = space
        self._seen = seen
        self._rng = rng
        self._rest: Iterator[Config] | None = None

    def draw(self) -> Config | None:
        """A config not seen before; None if none can be found."""
        if self._rest is None:
            for _ in range(_TRIES):
                config = self._space.sample(self._rng)
                if self._space.key(config) not in self._seen:
                    return config
            # Nearly all configs were seen, so from now on enumerate the rest.
            self._rest = self._leftover()
        return next(self._rest, None)

    def initial_samples(self, context: SearchContext) -> list[Config]:
        """Random configs to try before a local search: an eighth of the budget, 4 to 16."""
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
