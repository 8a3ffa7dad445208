"""Optuna's samplers keep to the contract of searchers."""

import importlib
import logging
from typing import Any

import pytest

from skipjack.core import Config, Parameter, ParameterSpace, Status, Trial
from skipjack.errors import UsageError
from skipjack.search import SearchContext, Searcher, applicable_searcher, check_name, create
from skipjack.testing.searchers import SearcherConformance, drive
from skipjack.testing.spaces import BareSpace, CostSurface, tiled_space

pytest.importorskip("optuna")
pytest.importorskip("cmaes")


class TestTpe(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("optuna:tpe", context)


class TestCmaes(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        return create("optuna:cmaes", context)


@pytest.mark.long
class TestGaussianProcess(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        pytest.importorskip("scipy")
        pytest.importorskip("torch")
        return create("optuna:gp", context)


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        ("optuna", "optuna"),
        ("optuna:tpe", "optuna"),
        ("optuna:cmaes", "optuna:sampler=cmaes"),
        ("optuna:sampler=gp", "optuna:sampler=gp"),
        ("optuna:gp,startup=20", "optuna:sampler=gp,startup=20"),
    ],
)
def test_the_sampler_is_the_parameter_without_a_name(text: str, recorded: str) -> None:
    assert check_name(text) == recorded
    assert check_name(recorded) == recorded


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("optuna:tpee", r"unknown sampler 'tpee' of Optuna; there are tpe, gp, cmaes.*mean tpe"),
        ("optuna:tpe,gp", "write parameters as NAME:PARAMETER=VALUE"),
        ("optuna:tpe,sampler=gp", "searcher optuna sets sampler twice: to tpe and to gp"),
        ("optuna:tpe,startup=-1", "startup of searcher optuna must be from 0 to 10000"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        create(text, SearchContext(tiled_space()))


def test_spaces_without_parameters_are_refused_and_searched_by_another() -> None:
    context = SearchContext(BareSpace(tiled_space()))
    with pytest.raises(UsageError, match="optuna cannot be used: Optuna suggests values of"):
        create("optuna:tpe", context)
    name, reason = applicable_searcher("optuna:tpe", context)
    assert name == "genetic"
    assert "this space has none" in reason


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", pytest.param("gp", marks=pytest.mark.long)])
def test_it_comes_closer_to_the_optimum_than_random_search(sampler: str) -> None:
    if sampler == "gp":
        pytest.importorskip("torch")
        pytest.importorskip("scipy")
    space = tiled_space()
    budget, seeds = (25, 2) if sampler == "gp" else (60, 2)

    def found(searcher: str) -> float:
        return sum(_best(searcher, space, budget, seed) for seed in range(seeds))

    assert found(f"optuna:{sampler}") < found("random")


def _best(searcher: str, space: ParameterSpace, budget: int, seed: int) -> float:
    surface = CostSurface(space, seed=2, failure_rate=0.1)
    made = create(searcher, SearchContext(space, seed=seed, trials=budget))
    trials = drive(made, surface.trial, budget, batch=1)
    assert len(trials) == budget
    return min(trial.value for trial in trials if trial.value is not None)


def test_a_gaussian_process_asks_new_legal_configs() -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("torch")
    space = tiled_space()
    surface = CostSurface(space, seed=2, failure_rate=0.3)
    made = create("optuna:gp,startup=5", SearchContext(space, trials=9))
    assert len({trial.config.key for trial in drive(made, surface.trial, 9)}) == 9


def test_negated_rates_are_searched_too() -> None:
    space = tiled_space()
    surface = CostSurface(space, seed=2)
    made = create("optuna:tpe", SearchContext(space, trials=60))

    def rate(config: Config) -> Trial:
        value = -1e6 / surface.value(config)
        return Trial(config, value=value)

    values = [trial.value for trial in drive(made, rate, 60) if trial.value is not None]
    assert min(values[30:]) < min(values[:10])


def test_a_space_whose_configs_are_mostly_illegal_is_searched_to_its_end() -> None:
    values = tuple(range(1, 41))
    space = ParameterSpace([Parameter("a", values), Parameter("b", values)], ["a * b == 36"])
    trials = drive(
        create("optuna:tpe", SearchContext(space)), lambda c: Trial(c, value=float(c["a"])), 100
    )
    assert {trial.config.key for trial in trials} == {one.key for one in space.enumerate()}


def test_a_parameter_with_one_value_keeps_it() -> None:
    space = ParameterSpace([Parameter("a", (1, 2, 4, 8)), Parameter("b", ("x",))])
    trials = drive(create("optuna", SearchContext(space)), lambda c: Trial(c, Status.CRASH), 10)
    assert {trial.config["b"] for trial in trials} == {"x"}
    assert len(trials) == 4


def test_optuna_says_nothing_of_its_own(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    logging.getLogger("optuna").setLevel(logging.INFO)
    drive(create("optuna:cmaes", SearchContext(tiled_space(), trials=15)), _fails, 15)
    assert logging.getLogger("optuna").level == logging.INFO
    assert capfd.readouterr().err == ""
    assert not recwarn.list


def _fails(config: Config) -> Trial:
    return Trial(config, Status.BUILD_ERROR)


@pytest.mark.parametrize(
    ("missing", "sampler", "sentence"),
    [
        ("optuna", "tpe", r"needs Optuna, which is not installed: .*skipjack\[optuna\]'$"),
        ("cmaes", "cmaes", r"needs cmaes for this sampler of Optuna, .*skipjack\[optuna\]'$"),
        ("scipy", "gp", r"needs scipy for this sampler of Optuna, .*skipjack\[optuna\]'$"),
        ("torch", "gp", r"needs torch for this sampler of Optuna, .*skipjack\[torch\]'$"),
    ],
)
def test_without_a_package_a_sentence_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, missing: str, sampler: str, sentence: str
) -> None:
    imported = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == missing:
            raise ImportError(name)
        return imported(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(UsageError, match=sentence):
        create(f"optuna:{sampler}", SearchContext(tiled_space()))
