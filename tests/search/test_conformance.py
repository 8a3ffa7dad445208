"""Every searcher keeps to the kit that ships for users' own."""

from collections.abc import Generator

from skipjack.core.space import Space
from skipjack.core.trial import Trial
from skipjack.search import GeneratorSearcher, SearchContext, Searcher, create
from skipjack.search.generator import Batch
from skipjack.testing.searchers import SearcherConformance
from skipjack.testing.spaces import BareSpace, tiled_space, tiny_space


class TestExhaustive(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("exhaustive", context)


class TestRandom(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("random", context)


class TestHillClimbing(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("hill_climbing", context)


class TestSimulatedAnnealing(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("simulated_annealing", context)


class TestGenetic(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("genetic", context)


class _WithoutCapabilities(SearcherConformance):
    def space(self) -> Space:
        return BareSpace(tiled_space())

    def tiny(self) -> Space:
        return BareSpace(tiny_space())


class TestRandomOnABareSpace(_WithoutCapabilities, TestRandom):
    pass


class TestHillClimbingOnABareSpace(_WithoutCapabilities, TestHillClimbing):
    pass


class TestSimulatedAnnealingOnABareSpace(_WithoutCapabilities, TestSimulatedAnnealing):
    pass


class TestGeneticOnABareSpace(_WithoutCapabilities, TestGenetic):
    pass


def _wanderer(context: SearchContext) -> Generator[Batch, list[Trial], None]:
    rng = context.rng()
    while True:
        yield context.space.sample(rng)


class TestAUsersGenerator(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return GeneratorSearcher(_wanderer, context)
