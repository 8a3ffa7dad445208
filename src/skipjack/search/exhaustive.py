"""Every config once, in the order of the space."""

from __future__ import annotations

from skipjack.core.config import Config
from skipjack.core.space import Countable
from skipjack.errors import UsageError
from skipjack.search.bookkeeping import BookkeepingSearcher
from skipjack.search.searcher import SearchContext


class ExhaustiveSearch(BookkeepingSearcher):
    """Lists the space, after the default and the seeds."""

    def __init__(self, context: SearchContext) -> None:
        if not isinstance(context.space, Countable):
            raise UsageError(
                "this space cannot be listed, so it cannot be searched exhaustively; "
                "use searcher genetic or random"
            )
        super().__init__(context)
        self._listing = context.space.enumerate()

    def propose(self) -> Config | None:
        """The next config of the listing that was not seen."""
        for config in self._listing:
            if self.is_new(config):
                return config
        self.finish()
        return None
