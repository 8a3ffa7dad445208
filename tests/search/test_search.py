"""Names, the choice of a searcher, generators, and whether searching pays."""

from collections.abc import Generator, Iterator
from statistics import fmean

import pytest

from skipjack.core import Config, Parameter, ParameterSpace, Space, Trial
from skipjack.errors import UsageError
from skipjack.operations import parse
from skipjack.search import Batch, GeneratorSearcher, SearchContext, choose, create, names, register
from skipjack.search.generator import MAX_IDLE
from skipjack.search.registry import _FACTORIES
from skipjack.search.searcher import worsening
from skipjack.testing.searchers import drive
from skipjack.testing.spaces import BareSpace, CostSurface, tiled_space, tiny_space, vast_space

Running = Generator[Batch, list[Trial], None]


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(_FACTORIES)
    yield
    _FACTORIES.clear()
    _FACTORIES.update(before)


def test_an_unknown_name_lists_the_known_ones_and_the_closest() -> None:
    with pytest.raises(
        UsageError, match=r"the searchers are auto, exhaustive, .*did you mean genetic\?"
    ):
        create("genetics", SearchContext(tiny_space()))


@pytest.mark.usefixtures("registry")
def test_a_users_searcher_is_created_by_name() -> None:
    def mine(context: SearchContext) -> Running:
        yield context.space.default()

    register("mine", mine)
    assert "mine" in names()
    searcher = create("mine", SearchContext(tiny_space()))
    assert searcher.ask(5) == [tiny_space().default()]
    with pytest.raises(UsageError, match="already"):
        register("genetic", mine)


def test_auto_is_exhaustive_where_the_budget_covers_the_space() -> None:
    assert choose(tiny_space()) == "exhaustive"
    assert choose(tiny_space(), trials=6) == "exhaustive"
    assert choose(tiny_space(), trials=5) == "model"
    assert choose(BareSpace(tiny_space())) == "genetic"
    searcher = create("auto", SearchContext(tiny_space()))
    assert len(searcher.ask(100)) == 6


def test_auto_uses_the_model_where_it_was_shown_to_be_better() -> None:
    assert choose(tiled_space()) == "model"
    assert choose(tiled_space(), problem=parse("matmul:64x64x64")) == "model"
    assert choose(tiled_space(), problem=parse("softmax:64x64")) == "genetic"
    assert choose(BareSpace(tiled_space())) == "genetic", "a space without settings"


def test_exhaustive_needs_a_space_that_can_be_listed() -> None:
    with pytest.raises(UsageError, match="cannot be enumerated"):
        create("exhaustive", SearchContext(BareSpace(tiny_space())))


def test_exhaustive_asks_everything_once() -> None:
    space = tiled_space()
    trials = drive(create("exhaustive", SearchContext(space)), CostSurface(space).trial, 10_000, 64)
    assert {trial.config for trial in trials} == set(space.enumerate())


def test_random_reaches_the_last_config() -> None:
    space = tiled_space()
    trials = drive(create("random", SearchContext(space)), CostSurface(space).trial, 10_000, 64)
    assert len(trials) == space.count()


def test_illegal_seeds_are_left_out() -> None:
    space = tiny_space()
    seeds = (Config(rows=4, columns=4), Config(other=1), Config(rows=2, columns=2))
    context = SearchContext(space, seeds=seeds)
    assert context.starts() == (Config(rows=2, columns=2), space.default())


def test_a_generator_is_sent_the_trials_of_its_batch_in_order() -> None:
    space = tiny_space()
    a, b, c = (Config(rows=1, columns=1), Config(rows=2, columns=1), Config(rows=4, columns=1))
    sent: list[list[Config]] = []

    def steps(context: SearchContext) -> Running:
        for batch in ([b, a, b], c, [a, c], [], [a]):
            trials = yield batch
            sent.append([trial.config for trial in trials])

    searcher = GeneratorSearcher(steps, SearchContext(space))
    assert searcher.ask(10) == [a, b]  # the default comes first, duplicates are not asked again
    assert searcher.ask(10) == []
    searcher.tell(Trial(b, value=1.0))
    assert searcher.ask(10) == []
    searcher.tell(Trial(a, value=2.0))
    assert searcher.ask(10) == [c]
    searcher.tell(Trial(c, value=3.0))
    assert searcher.ask(10) == []
    assert searcher.done
    assert sent == [[b, a, b], [c], [a, c], [], [a]]


def test_a_generator_that_yields_an_illegal_config_is_told_so() -> None:
    def wrong(context: SearchContext) -> Running:
        yield Config(rows=4, columns=4)

    with pytest.raises(UsageError, match=r"rows=4 columns=4, which the space does not contain"):
        GeneratorSearcher(wrong, SearchContext(tiny_space())).ask(10)


def test_a_generator_that_goes_in_circles_ends() -> None:
    rounds = 0

    def circles(context: SearchContext) -> Running:
        nonlocal rounds
        while True:
            rounds += 1
            yield context.space.default()

    space = BareSpace(tiny_space())
    searcher = GeneratorSearcher(circles, SearchContext(space))
    drive(searcher, CostSurface(space).trial)
    assert searcher.done
    assert rounds <= MAX_IDLE + 1


@pytest.mark.parametrize("name", ["hill_climbing", "simulated_annealing", "genetic"])
def test_what_is_known_is_where_the_search_starts(name: str) -> None:
    """With one good trial told, what is asked next is nearer to it than chance would have it."""
    space = vast_space()
    surface = CostSurface(space, seed=2, ripple=0.0)
    rng = SearchContext(space, seed=8).rng()
    known = [surface.trial(space.sample(rng)) for _ in range(40)]
    best = min(known, key=lambda trial: trial.value or 0.0)

    def shared(config: Config) -> float:
        return float(sum(config[name] == best.config[name] for name in config))

    searcher = create(name, SearchContext(space, trials=60))
    for trial in known:
        searcher.tell(trial)
    searcher.tell(surface.trial(space.default()))
    asked = searcher.ask(1)
    while len(asked) < 12:
        searcher.tell(surface.trial(asked[-1]))
        asked += searcher.ask(1)
    by_chance = fmean(shared(space.sample(rng)) for _ in range(100))
    assert fmean(map(shared, asked)) > by_chance + 1


@pytest.mark.parametrize("name", ["hill_climbing", "simulated_annealing", "genetic"])
@pytest.mark.parametrize("space", [tiled_space(), BareSpace(tiled_space())])
def test_a_search_beats_random_on_a_smooth_surface(name: str, space: Space) -> None:
    assert _average_best(name, space) < 0.95 * _average_best("random", space)


def _average_best(name: str, space: Space, trials: int = 60) -> float:
    found = []
    for seed in range(8):
        surface = CostSurface(space, seed, failure_rate=0.1)
        searcher = create(name, SearchContext(space, seed=seed, trials=trials))
        values = [trial.value for trial in drive(searcher, surface.trial, trials)]
        found.append(min(value for value in values if value is not None))
    return fmean(found)


def test_genetic_tries_promising_configs_early() -> None:
    parameters = [Parameter(name, tuple(range(1, 20))) for name in "abc"]
    space = ParameterSpace(parameters, order=lambda c: abs(float(c["a"]) - 15) + float(c["b"]))
    searcher = create("genetic", SearchContext(space, trials=100))
    asked = searcher.ask(4)
    assert asked[1:] == list(space.promising(3))


def test_getting_worse_is_a_ratio_for_times_and_for_rates() -> None:
    assert worsening(100.0, 200.0) == pytest.approx(-worsening(200.0, 100.0))
    assert worsening(100.0, 200.0) == pytest.approx(worsening(-200.0, -100.0))
    assert worsening(-1.0, 1.0) > 0 > worsening(1.0, 0.0)
