"""Every searcher keeps to the kit that ships for users' own."""

from typing import Any

import numpy as np

from skipjack.core import Device, Problem, Space
from skipjack.search import Batches, GeneratorSearcher, SearchContext, Searcher, create
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


class TestModel(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("model", context)


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


class TestModelOnABareSpace(_WithoutCapabilities, TestModel):
    pass


def _wanderer(context: SearchContext) -> Batches:
    rng = context.rng()
    while True:
        yield context.space.sample(rng)


class TestAUsersGenerator(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return GeneratorSearcher(_wanderer, context)


def _specialist(context: SearchContext) -> Batches:
    assert context.problem is not None
    assert context.device is not None
    rng = np.random.default_rng([*context.problem.shape, context.device.units, context.seed])
    while True:
        yield [context.space.sample(rng) for _ in range(4)]


class TestASearcherThatNeedsAProblemAndADevice(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return GeneratorSearcher(_specialist, context)

    def context(self, space: Space, **more: Any) -> SearchContext:
        problem, device = Problem("matmul", (64, 64, 64)), Device("cpu", "haswell", 1)
        return SearchContext(space, problem=problem, device=device, **more)
