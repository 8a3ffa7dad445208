"""Parameters of searchers: given as text or by name, checked, and recorded with the study."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import pytest

from skipjack.core import Config, Trial
from skipjack.errors import UsageError
from skipjack.search import (
    Ask,
    Batches,
    Bounds,
    GeneratorSearcher,
    SearchContext,
    Searcher,
    check_name,
    create,
    register,
)
from skipjack.search.registry import _FACTORIES
from skipjack.testing.searchers import SearcherConformance, drive
from skipjack.testing.spaces import CostSurface, tiled_space, tiny_space

OWN = ("exhaustive", "random", "hill_climbing", "simulated_annealing", "genetic")


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(_FACTORIES)
    yield
    _FACTORIES.clear()
    _FACTORIES.update(before)


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("auto", "auto"),
        ("genetic", "genetic"),
        ("genetic:population=12", "genetic"),
        ("genetic:tournament=5, population=30", "genetic:population=30,tournament=5"),
        ("simulated_annealing:hot=1", "simulated_annealing:hot=1.0"),
        ("simulated_annealing:hot=1e-1,walkers=2", "simulated_annealing:walkers=2"),
    ],
)
def test_only_what_differs_from_the_defaults_is_recorded(text: str, recorded: str) -> None:
    assert check_name(text) == recorded
    assert check_name(recorded) == recorded


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "genetics:population=3",
            r"unknown searcher 'genetics'; the searchers are auto, .*did you mean genetic",
        ),
        (
            "genetic:popultion=3",
            r"genetic has no parameter 'popultion'; it takes population, .*mean",
        ),
        ("random:width=3", r"searcher random has no parameter 'width'; it takes none$"),
        ("auto:width=3", r"searcher auto has no parameter 'width'; it takes none$"),
        (
            "genetic:population=many",
            "population of searcher genetic must be a whole number, not 'm",
        ),
        ("genetic:population=3.5", "population of searcher genetic must be a whole number"),
        ("genetic:population=0", "population of searcher genetic must be from 1 to 10000, not 0"),
        ("genetic:mutation=1.5", "mutation of searcher genetic must be from 0 to 1, not 1.5"),
        ("genetic:mutation=nan", "mutation of searcher genetic must be a number, not 'nan'"),
        ("genetic:population=3,population=4", "sets population twice"),
        ("genetic:", "write parameters as NAME:PARAMETER=VALUE"),
        ("genetic:30", "write parameters as NAME:PARAMETER=VALUE"),
        ("genetic:population=", "write parameters as NAME:PARAMETER=VALUE"),
        ("genetic:=3", "write parameters as NAME:PARAMETER=VALUE"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_name(text)
    with pytest.raises(UsageError, match=sentence):
        create(text, SearchContext(tiny_space()))


def test_parameters_are_arguments_in_python() -> None:
    context = SearchContext(tiled_space(), trials=40)
    surface = CostSurface(context.space)
    by_text = drive(create("genetic:population=4,mutation=1", context), surface.trial)
    by_name = drive(create("genetic", context, population=4, mutation=1), surface.trial)
    assert by_text == by_name != drive(create("genetic", context), surface.trial)
    with pytest.raises(UsageError, match="population of searcher genetic must be a whole number"):
        create("genetic", context, population=True)


@pytest.mark.parametrize("name", OWN)
def test_every_parameter_changes_the_search_and_is_documented(name: str) -> None:
    factory = _FACTORIES[name]
    context = SearchContext(tiled_space(), seed=5, trials=120)
    surface = CostSurface(context.space, seed=1, failure_rate=0.3)
    usual = drive(create(name, context), surface.trial)
    for parameter in list(inspect.signature(factory).parameters.values())[1:]:
        if parameter.name == "cooling_trials":  # for searches without a budget
            continue
        other = 0.9 if isinstance(parameter.default, float) else 1
        assert drive(create(name, context, **{parameter.name: other}), surface.trial) != usual
        assert f"        {parameter.name}: " in (factory.__doc__ or "")
    assert f'searcher="{name}' in (factory.__doc__ or "")


class TestGeneticWithParameters(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("genetic:population=2,tournament=1,immigration=0.5,mutations=1", context)


class TestHillClimbingWithParameters(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("hill_climbing:width=1,kick=9", context)


class TestAnnealingWithParameters(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("simulated_annealing:walkers=9,hot=3,cold=2,cooling_trials=10", context)


def stride(
    context: SearchContext,
    by: Annotated[int, Bounds(1, 3)] = 1,
    backwards: bool = False,
    word: str = "a",
    odd: object = None,
) -> Batches:
    """Every so-manieth config of the listing."""
    listing = list(tiny_space().enumerate())[:: -by if backwards else by]
    yield listing


@pytest.mark.usefixtures("registry")
def test_parameters_of_a_users_generator_are_its_arguments() -> None:
    register("stride", stride)
    assert check_name("stride:by=2,backwards=True,word=b") == "stride:backwards=true,by=2,word=b"
    listing = list(tiny_space().enumerate())
    context = SearchContext(tiny_space(), seeds=tuple(listing[:1]))
    assert set(create("stride:by=3", context).ask(9)) == {*listing[::3], tiny_space().default()}
    for text, sentence in (
        ("stride:by=4", "by of searcher stride must be from 1 to 3, not 4"),
        ("stride:backwards=yes", "backwards of searcher stride must be true or false, not 'yes'"),
        ("stride:word=a=b", "word of searcher stride must not contain commas or ="),
        ("stride:odd=1", "has no parameter 'odd'; it takes by, backwards, word"),
        (f"stride:word={'b' * 300}", "characters; at most 255 are possible"),
    ):
        with pytest.raises(UsageError, match=sentence):
            check_name(text)


@pytest.mark.usefixtures("registry")
def test_a_searcher_with_other_defaults_can_be_registered() -> None:
    register("wide", partial(_FACTORIES["hill_climbing"], width=30))
    assert check_name("wide:width=30") == "wide"
    assert check_name("wide:width=8") == "wide:width=8"
    with pytest.raises(UsageError, match="width of searcher wide must be from 1 to 10000"):
        check_name("wide:width=0")


def test_a_parameter_without_a_default_is_refused() -> None:
    def needy(context: SearchContext, width: int) -> Batches:
        yield context.starts()

    with pytest.raises(UsageError, match="parameter width of searcher 'needy' needs a default"):
        register("needy", needy)


# Asking without waiting, and again


def configs(count: int) -> list[Config]:
    return list(tiny_space().enumerate())[:count]


def test_a_search_that_does_not_wait_hears_what_was_told_meanwhile() -> None:
    heard: list[list[Trial]] = []

    def ahead(context: SearchContext) -> Batches:
        for config in configs(4):
            heard.append((yield Ask([config], wait=False)))

    a, b, c, d = configs(4)
    searcher = GeneratorSearcher(ahead, SearchContext(tiny_space()), starts=False)
    assert searcher.ask(3) == [a, b, c]
    searcher.tell(Trial(b, value=2.0))
    searcher.tell(Trial(a, value=1.0))
    assert searcher.ask(3) == [d]
    assert searcher.done
    assert heard == [[], [], [Trial(b, value=2.0), Trial(a, value=1.0)], []]


def test_an_empty_request_waits_for_whatever_comes_next() -> None:
    def waits(context: SearchContext) -> Batches:
        yield Ask(configs(2), wait=False)
        (trial,) = yield Ask(wait=False)
        yield configs(3)[2] if trial.config == configs(2)[1] else configs(4)[3]

    searcher = GeneratorSearcher(waits, SearchContext(tiny_space()), starts=False)
    assert searcher.ask(9) == configs(2)
    assert searcher.ask(9) == []
    assert not searcher.done
    searcher.tell(Trial(configs(2)[1], value=1.0))
    assert searcher.ask(9) == [configs(3)[2]]


@pytest.mark.parametrize("repeats", [True, False])
def test_a_config_is_asked_again_only_where_the_context_allows_it(repeats: bool) -> None:
    heard: list[float | None] = []

    def twice(context: SearchContext) -> Batches:
        for _ in range(2):
            (trial,) = yield Ask(configs(1), again=True)
            heard.append(trial.value)

    searcher = GeneratorSearcher(twice, SearchContext(tiny_space(), repeats=repeats))
    values = iter([1.0, 2.0])
    drive(searcher, lambda config: Trial(config, value=next(values)))
    assert heard == ([1.0, 2.0] if repeats else [1.0, 1.0])
