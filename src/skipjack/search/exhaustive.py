"""Every config once, in the order of the space."""

from __future__ import annotations

from skipjack.core.space import Countable
from skipjack.errors import UsageError
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.searcher import SearchContext


class ExhaustiveSearch(GeneratorSearcher):
    """Lists the space, after the default and the seeds. It needs one that can be listed.

    Example::

        tune("matmul:64x64x64", searcher="exhaustive")
    """

    def __init__(self, context: SearchContext) -> None:
        if not isinstance(context.space, Countable):
            raise UsageError(
                "this space cannot be listed, so it cannot be searched exhaustively; "
                "use searcher genetic or random"
            )
        self._listing = context.space.enumerate()
        super().__init__(self._list, context)

    def _list(self, context: SearchContext) -> Batches:
        for config in self._listing:
            yield Ask([config], wait=False)
