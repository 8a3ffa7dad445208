"""Configs at random, without repeating any."""

from __future__ import annotations

from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.searcher import SearchContext


class RandomSearch(GeneratorSearcher):
    """Uniform over the space, after the default and the seeds. The baseline for all others.

    Where few parameters matter it beats a grid: Bergstra and Bengio, Random Search for
    Hyper-Parameter Optimization, JMLR 13 (2012).

    Example::

        tune("matmul:64x64x64", searcher="random", seed=7)
    """

    def __init__(self, context: SearchContext) -> None:
        super().__init__(self._draw, context)

    def _draw(self, context: SearchContext) -> Batches:
        while (config := self.fresh.draw()) is not None:
            yield Ask([config], wait=False)
