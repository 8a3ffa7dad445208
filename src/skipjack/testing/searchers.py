"""A conformance kit for searchers. In a test file of yours::

from skipjack.testing.searchers import SearcherConformance

class TestMySearcher(SearcherConformance):
    def create(self, context):
        return MySearcher(context)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skipjack.core import Config, Space, Status, Trial
from skipjack.search import SearchContext, Searcher
from skipjack.testing.spaces import CostSurface, tiled_space, tiny_space

_PATIENCE = 50
"""Consecutive empty asks, with nothing pending, after which a searcher counts as stuck."""


def drive(
    searcher: Searcher, evaluate: Callable[[Config], Trial], limit: int = 200, batch: int = 5
) -> list[Trial]:
    """Ask and tell until the searcher is done or `limit` trials were made; the trials in order."""
    trials: list[Trial] = []
    idle = 0
    while not searcher.done and len(trials) < limit and idle < _PATIENCE:
        configs = searcher.ask(min(batch, limit - len(trials)))
        idle = 0 if configs else idle + 1
        for config in configs:
            trial = evaluate(config)
            trials.append(trial)
            searcher.tell(trial)
    return trials


class SearcherConformance:
    """The contract of searchers. Subclass it, supply `create`, and let pytest collect it."""

    def create(self, context: SearchContext) -> Searcher:
        """A new searcher of the kind under test."""
        raise NotImplementedError("supply create(self, context) in your subclass")

    def space(self) -> Space:
        """The space to search; override it for a searcher that needs a special one."""
        return tiled_space()

    def tiny(self) -> Space:
        """A space of at most a hundred configs, which a searcher can exhaust."""
        return tiny_space()

    def context(self, space: Space, **more: Any) -> SearchContext:
        """The context of a searcher; override it to add a problem and a device."""
        return SearchContext(space, **more)

    def _run(self, context: SearchContext, limit: int = 60, batch: int = 5) -> list[Trial]:
        surface = CostSurface(context.space, seed=1, failure_rate=0.1)
        return drive(self.create(context), surface.trial, limit, batch)

    def test_asks_legal_configs_only(self) -> None:
        space = self.space()
        trials = self._run(self.context(space, trials=60))
        assert trials, "the searcher asked for nothing"
        illegal = [trial.config for trial in trials if not space.contains(trial.config)]
        assert not illegal, f"asked for {illegal[0]}, which the space does not contain"

    def test_asks_no_config_twice(self) -> None:
        space = self.space()
        keys = [space.key(trial.config) for trial in self._run(self.context(space, trials=60))]
        assert len(set(keys)) == len(keys), "the same config was asked for more than once"

    def test_never_gives_more_than_asked_for(self) -> None:
        searcher = self.create(self.context(self.space()))
        assert len(searcher.ask(3)) <= 3, "ask(3) returned more than 3 configs"
        assert searcher.ask(0) == [], "ask(0) returned configs"

    def test_the_default_and_the_seeds_come_first(self) -> None:
        space = self.space()
        rng = self.context(space, seed=9).rng()
        context = self.context(space, trials=40, seeds=(space.sample(rng), space.sample(rng)))
        asked = [trial.config for trial in self._run(context, limit=10)]
        wanted = list(context.starts())
        assert set(asked[: len(wanted)]) == set(wanted), "the seeds were not asked for first"

    def test_the_same_seed_and_trials_give_the_same_asks(self) -> None:
        space = self.space()
        first = self._run(self.context(space, seed=3, trials=60))
        second = self._run(self.context(space, seed=3, trials=60))
        assert first == second, "two runs with the same seed and trials differ"

    def test_stops_at_the_budget(self) -> None:
        context = self.context(self.space(), trials=7)
        searcher = self.create(context)
        surface = CostSurface(context.space)
        trials = drive(searcher, surface.trial, limit=100, batch=4)
        assert len(trials) <= 7, f"asked for {len(trials)} configs with a budget of 7"
        assert searcher.done, "not done although the budget is spent"
        assert searcher.ask(1) == [], "asked again after it was done"

    def test_survives_when_all_trials_fail(self) -> None:
        searcher = self.create(self.context(self.space(), trials=40))
        trials = drive(searcher, lambda config: Trial(config, Status.BUILD_ERROR), limit=40)
        assert len(trials) == 40, f"gave up after {len(trials)} failing trials of 40"

    def test_survives_results_out_of_order(self) -> None:
        """Two batches are pending at a time, and their results come in reverse order."""
        space = self.space()
        surface = CostSurface(space, failure_rate=0.1)
        searcher = self.create(self.context(space, trials=50))
        pending: list[Config] = []
        keys: list[str] = []
        for _ in range(200):
            configs = searcher.ask(4)
            pending += configs
            keys += [space.key(config) for config in configs]
            for _ in range(4 if configs else len(pending)):
                if pending:
                    searcher.tell(surface.trial(pending.pop()))
        assert len(keys) == 50, f"asked for {len(keys)} of 50 configs with results out of order"
        assert len(set(keys)) == 50, "a config was asked for again while others were pending"

    def test_survives_results_that_are_withheld(self) -> None:
        """Asking without telling returns new configs or none; telling late resumes the search."""
        space = self.space()
        searcher = self.create(self.context(space, trials=50))
        withheld = [config for _ in range(30) for config in searcher.ask(4)]
        assert len({space.key(config) for config in withheld}) == len(withheld) <= 50
        surface = CostSurface(space)
        for config in withheld:
            searcher.tell(surface.trial(config))
        later = drive(searcher, surface.trial, limit=50)
        assert len(withheld) + len(later) == 50, "it did not continue after the results came"

    def test_does_not_repeat_what_it_was_told(self) -> None:
        space = self.space()
        earlier = self._run(self.context(space, seed=4, trials=30))
        known = {space.key(trial.config) for trial in earlier}
        surface = CostSurface(space, seed=1, failure_rate=0.1)
        for context in (
            self.context(space, seed=4, trials=30),
            self.context(space, seed=4, trials=30, known=tuple(earlier)),
        ):
            searcher = self.create(context)
            for trial in () if context.known else earlier:
                searcher.tell(trial)
            later = drive(searcher, surface.trial, limit=30)
            assert len(later) == 30, "trials of an earlier run were counted as asked for"
            repeated = [trial.config for trial in later if space.key(trial.config) in known]
            assert not repeated, f"asked again for {repeated[0]}, which it was told"

    def test_ignores_trials_from_outside_the_space(self) -> None:
        searcher = self.create(self.context(self.space(), trials=10))
        searcher.tell(Trial(Config(nobody_has_this=1), value=1.0))
        assert searcher.ask(1), "a trial from another space stopped the search"

    def test_ends_when_a_tiny_space_is_exhausted(self) -> None:
        space = self.tiny()
        surface = CostSurface(space)
        searcher = self.create(self.context(space))
        keys = [space.key(trial.config) for trial in drive(searcher, surface.trial, limit=1000)]
        assert len(set(keys)) == len(keys), "the same config was asked for more than once"
        assert searcher.done, "not done although there is nothing left to ask"
        assert searcher.ask(1) == [], "asked again after it was done"
