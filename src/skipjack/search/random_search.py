"""Configs at random, without repeating any."""

from __future__ import annotations

from skipjack.core.config import Config
from skipjack.search.bookkeeping import BookkeepingSearcher


class RandomSearch(BookkeepingSearcher):
    """Uniform over the space, after the default and the seeds. The baseline for all others."""

    def propose(self) -> Config | None:
        """A config that was not seen."""
        config = self.fresh.draw()
        if config is None:
            self.finish()
        return config
