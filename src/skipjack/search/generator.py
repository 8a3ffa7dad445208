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
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from skipjack.core.config import Config
from skipjack.core.trial import Trial
from skipjack.errors import UsageError
from skipjack.search.bookkeeping import BookkeepingSearcher
from skipjack.search.searcher import SearchContext

log = logging.getLogger(__name__)

Batch = Config | Sequence[Config]
Search = Callable[[SearchContext], Generator[Batch, list[Trial], None]]

MAX_IDLE = 1000
"""A generator that yields nothing new so often in a row is going in circles."""


class GeneratorSearcher(BookkeepingSearcher):
    """Runs a generator as a searcher; it knows trials told before as `context.known`."""

    def __init__(self, search: Search, context: SearchContext) -> None:
        self._search = search
        self._running: Generator[Batch, list[Trial], None] | None = None
        self._batch: list[str] = []
        self._queue: deque[Config] = deque()
        self._idle = 0
        super().__init__(context)

    def propose(self) -> Config | None:
        """The next config of the batch; when all of it is known, the first of the next batch."""
        while True:
            while self._queue:
                config = self._queue.popleft()
                if self.is_new(config):
                    self._idle = 0
                    return config
            if any(key not in self.trials for key in self._batch):
                return None
            self._idle += 1
            if self._idle > MAX_IDLE:
                log.info("search ended: nothing new in %d batches", MAX_IDLE)
                self.finish()
                return None
            if not self._advance():
                self.finish()
                return None

    def _advance(self) -> bool:
        try:
            if self._running is None:
                known = tuple(self.trials.values())
                self._running = self._search(replace(self.context, known=known))
                yielded = next(self._running)
            else:
                yielded = self._running.send([self.trials[key] for key in self._batch])
        except StopIteration:
            return False
        configs = [yielded] if isinstance(yielded, Config) else list(yielded)
        for config in configs:
            if not isinstance(config, Config) or not self.space.contains(config):
                raise UsageError(f"searcher yielded {config}, which the space does not contain")
        self._batch = [self.space.key(config) for config in configs]
        self._queue.extend(configs)
        return True
