"""Searchers: who decides what to try next. All are asked and told (`Searcher`).

The easy way to write one is a generator (`GeneratorSearcher`). A stranger's searcher is registered
beside ours and tested by our kit, `skipjack.testing.searchers`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from skipjack.core.membership import check_members
from skipjack.core.naming import check_new_name, did_you_mean
from skipjack.core.space import Countable, Space
from skipjack.entry_points import EntryPoints
from skipjack.errors import UsageError
from skipjack.search.exhaustive import ExhaustiveSearch
from skipjack.search.generator import Ask, Batch, Batches, GeneratorSearcher, Search
from skipjack.search.genetic import GeneticSearch
from skipjack.search.hill_climbing import HillClimbing
from skipjack.search.parameters import (
    Bounds,
    Count,
    check_defaults,
    read_parameters,
    spelled,
    split_text,
)
from skipjack.search.random_search import RandomSearch
from skipjack.search.ranking import cost
from skipjack.search.searcher import SearchContext, Searcher
from skipjack.search.simulated_annealing import SimulatedAnnealing

__all__ = [
    "Ask",
    "Batch",
    "Batches",
    "Bounds",
    "Count",
    "GeneratorSearcher",
    "GeneticSearch",
    "SearchContext",
    "Searcher",
    "check_name",
    "choose",
    "cost",
    "create",
    "fitting",
    "installed",
    "names",
    "register",
]

Factory = Callable[..., Searcher]
"""Takes a `SearchContext`; further arguments, all with defaults, are the searcher's parameters."""

AUTO = "auto"
LIST_UP_TO = 64
"""Without a budget of trials, spaces up to this size are searched exhaustively."""

POLICY = "policy"
_FACTORIES: dict[str, Factory | Search | str] = {
    "exhaustive": ExhaustiveSearch,
    "random": RandomSearch,
    "hill_climbing": HillClimbing,
    "simulated_annealing": SimulatedAnnealing,
    "genetic": GeneticSearch,
    # ``module:class`` of a package that knows more than spaces, loaded when it is asked for.
    POLICY: "skipjack.learn.policy.searcher:PolicySearch",
}


def names() -> tuple[str, ...]:
    """All that `create` knows."""
    installed().load_all()
    return (AUTO, *_FACTORIES)


def register(name: str, factory: Factory | Search) -> None:
    """Add a searcher: something that makes one from a context, or a generator function."""
    check_new_name("searcher", name, (AUTO, *_FACTORIES))
    if not callable(factory):
        raise UsageError(f"searcher {name!r} must be a function or a class, not {factory!r}")
    check_defaults(name, factory)
    _FACTORIES[name] = factory


def _held(name: str) -> object | None:
    return _FACTORIES.get(name)


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions."""
    return EntryPoints("searcher", "skipjack.searchers", _held, register)


def create(text: str, context: SearchContext, **parameters: object) -> Searcher:
    """The searcher of that name; ``auto`` goes by the shape of the space.

    Parameters are given as arguments or in the text: ``genetic:population=30``.
    """
    name, values = _read(text, parameters)
    if name == AUTO:
        name = choose(context.space, context.trials)
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
        raise UsageError(f"no searcher {name!r}; there are {', '.join(names())}{hint}")
    factory = choose if name == AUTO else _factory(name)  # auto has no parameters
    return name, read_parameters(name, factory, {**given, **parameters})


def _factory(name: str) -> Factory | Search:
    found = _FACTORIES[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        loaded: Factory = getattr(importlib.import_module(module), attribute)
        return loaded
    return found


def fitting(text: str, context: SearchContext) -> tuple[str, str]:
    """Which searcher is for the context: as studies record it, and why not the one in the text.

    ``auto`` becomes the one that it chooses. A searcher that is not for every space says so: it has
    a function ``refuses`` of a context and of its parameters. The usual one takes its place.
    """
    name, values = _read(text, {})
    usual = choose(context.space, context.trials)
    if name == AUTO:
        return (POLICY if _leads(context) else usual), ""
    refuses = getattr(_factory(name), "refuses", None)
    reason = refuses(context, **values) if refuses else ""
    return (usual, reason) if reason else (spelled(name, values), "")


def _leads(context: SearchContext) -> bool:
    """Whether the policy was shown to do better than the others on what the context is of."""
    if context.problem is None or context.device is None or context.device.kind != "cpu":
        return False
    leads: Callable[[SearchContext], bool] = getattr(_factory(POLICY), "leads", lambda _: False)
    return leads(context)


def choose(space: Space, trials: int | None = None) -> str:
    """Exhaustive where the budget covers the whole space, genetic otherwise."""
    limit = LIST_UP_TO if trials is None else trials
    if isinstance(space, Countable) and space.count() <= limit:
        return "exhaustive"
    return "genetic"
