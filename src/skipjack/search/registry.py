"""The registry of searchers: built-in ones, those of plug-ins, and those that users register.

The easiest way to write a searcher is a generator (`GeneratorSearcher`). Tests for searchers of
others are in `skipjack.testing.searchers`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from skipjack.core import (
    Countable,
    Pinnable,
    Problem,
    Space,
    check_members,
    check_new_name,
    did_you_mean,
)
from skipjack.errors import UsageError
from skipjack.models import operation_group
from skipjack.plugins import EntryPoints
from skipjack.search.built_in import (
    ExhaustiveSearch,
    GeneticSearch,
    HillClimbing,
    RandomSearch,
    SimulatedAnnealing,
)
from skipjack.search.generator import GeneratorSearcher, Search
from skipjack.search.searcher import (
    SearchContext,
    Searcher,
    check_defaults,
    read_parameters,
    spelled,
    split_text,
)

Factory = Callable[..., Searcher]
"""Takes a `SearchContext`; further arguments, all with defaults, are the parameters."""

AUTO = "auto"
LIST_UP_TO = 64
"""Without a budget of trials, spaces up to this size are searched exhaustively."""

POLICY = "policy"
_MODEL_LEADS = frozenset({"products", "convolutions"})
"""The groups of operations for whose spaces of settings `model` beats `genetic`."""
_FACTORIES: dict[str, Factory | Search | str] = {
    "exhaustive": ExhaustiveSearch,
    "random": RandomSearch,
    "hill_climbing": HillClimbing,
    "simulated_annealing": SimulatedAnnealing,
    "genetic": GeneticSearch,
    # ``module:class``, loaded when it is first used.
    "model": "skipjack.search.model:ModelSearch",
    POLICY: "skipjack.learn.policy.searcher:PolicySearch",
    "optuna": "skipjack.search.optuna_samplers:OptunaSearch",
}


def names() -> tuple[str, ...]:
    """The names of all searchers."""
    installed().load_all()
    return (AUTO, *_FACTORIES)


def register(name: str, factory: Factory | Search) -> None:
    """Register a searcher: a function or class that takes a context, or a generator function."""
    check_new_name("searcher", name, (AUTO, *_FACTORIES))
    if not callable(factory):
        raise UsageError(f"searcher {name!r} must be a function or a class, not {factory!r}")
    check_defaults(name, factory)
    _FACTORIES[name] = factory


def _registered(name: str) -> object | None:
    return _FACTORIES.get(name)


@functools.cache
def installed() -> EntryPoints:
    """Searchers of other distributions."""
    return EntryPoints("searcher", "skipjack.searchers", _registered, register)


def create(text: str, context: SearchContext, **parameters: object) -> Searcher:
    """The searcher of that name; ``auto`` chooses by the size of the space.

    Parameters are arguments, or part of the text: ``genetic:population=30``.
    """
    name, values = _read(text, parameters)
    if name == AUTO:
        name = choose(context.space, context.trials, context.problem)
    factory = _factory(name)
    if inspect.isgeneratorfunction(factory):
        return GeneratorSearcher(partial(factory, **values), context)
    made = cast(Factory, factory)(context, **values)
    check_members("searcher", made, Searcher)
    return made


def check_name(text: str) -> str:
    """A searcher as studies record it: its name, and parameters that differ from their defaults."""
    return spelled(*_read(text, {}))


def _read(text: str, parameters: dict[str, object]) -> tuple[str, dict[str, Any]]:
    name, given = split_text(text)
    if name != AUTO and name not in _FACTORIES:
        installed().load(name)
    if name != AUTO and name not in _FACTORIES:
        hint = did_you_mean(name, names())
        raise UsageError(f"unknown searcher {name!r}; the searchers are {', '.join(names())}{hint}")
    factory = choose if name == AUTO else _factory(name)  # auto has no parameters
    return name, read_parameters(name, factory, {**given, **parameters})


def _factory(name: str) -> Factory | Search:
    found = _FACTORIES[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        loaded: Factory = getattr(importlib.import_module(module), attribute)
        return loaded
    return found


def applicable_searcher(text: str, context: SearchContext) -> tuple[str, str]:
    """The searcher to use, as studies record it; and why it is not the one in the text.

    ``auto`` is replaced by the searcher that it chooses. A searcher that cannot search every space
    has a function ``refuses`` of a context and its parameters, which returns the reason; the usual
    searcher then replaces it.
    """
    name, values = _read(text, {})
    usual = choose(context.space, context.trials, context.problem)
    if name == AUTO:
        return (POLICY if _prefers_policy(context) else usual), ""
    refuses = getattr(_factory(name), "refuses", None)
    reason = refuses(context, **values) if refuses else ""
    return (usual, reason) if reason else (spelled(name, values), "")


def uses_prior(text: str) -> bool:
    """Whether a searcher learns from prior trials: its class has ``uses_prior = True``."""
    name, _ = split_text(text)
    return name in _FACTORIES and bool(getattr(_factory(name), "uses_prior", False))


def _prefers_policy(context: SearchContext) -> bool:
    """Whether the policy was shown to be better than the other searchers for this problem."""
    if context.problem is None or context.device is None or context.device.kind != "cpu":
        return False
    leads: Callable[[SearchContext], bool] = getattr(_factory(POLICY), "leads", lambda _: False)
    return leads(context)


def choose(space: Space, trials: int | None = None, problem: Problem | None = None) -> str:
    """Exhaustive if the budget covers the whole space, otherwise a model where it leads."""
    limit = LIST_UP_TO if trials is None else trials
    if isinstance(space, Countable) and space.count() <= limit:
        return "exhaustive"
    return "model" if _prefers_model(space, problem) else "genetic"


def _prefers_model(space: Space, problem: Problem | None) -> bool:
    """Whether `model` was shown to be better than `genetic` for spaces like this one.

    Without a problem, as in sweeps, by ``bench/results/replay.json``; else by
    ``bench/results/model_search.json``.
    """
    if not isinstance(space, Pinnable):
        return False  # schedules of loop nests, which are no settings
    return problem is None or operation_group(problem.operation) in _MODEL_LEADS
