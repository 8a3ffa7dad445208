"""Searchers by name. A stranger's searcher is registered beside ours and tested by our kit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import cast

from skipjack.core.membership import check_members
from skipjack.core.naming import check_new_name
from skipjack.core.space import Countable, Space
from skipjack.errors import UsageError
from skipjack.search.bookkeeping import BookkeepingSearcher
from skipjack.search.exhaustive import ExhaustiveSearch
from skipjack.search.generator import GeneratorSearcher, Search
from skipjack.search.genetic import GeneticSearch
from skipjack.search.hill_climbing import hill_climbing
from skipjack.search.random_search import RandomSearch
from skipjack.search.searcher import SearchContext, Searcher
from skipjack.search.simulated_annealing import simulated_annealing

__all__ = [
    "BookkeepingSearcher",
    "GeneratorSearcher",
    "SearchContext",
    "Searcher",
    "check_name",
    "choose",
    "create",
    "names",
    "register",
]

Factory = Callable[[SearchContext], Searcher]

AUTO = "auto"
LIST_UP_TO = 64
"""Without a budget of trials, spaces up to this size are searched exhaustively."""

_FACTORIES: dict[str, Factory] = {
    "exhaustive": ExhaustiveSearch,
    "random": RandomSearch,
    "hill_climbing": partial(GeneratorSearcher, hill_climbing),
    "simulated_annealing": partial(GeneratorSearcher, simulated_annealing),
    "genetic": GeneticSearch,
}


def names() -> tuple[str, ...]:
    """All that `create` knows."""
    return (AUTO, *_FACTORIES)


def register(name: str, factory: Factory | Search) -> None:
    """Add a searcher: something that makes one from a context, or a generator function."""
    check_new_name("searcher", name, names())
    if not callable(factory):
        raise UsageError(f"searcher {name!r} must be a function or a class, not {factory!r}")
    if inspect.isgeneratorfunction(factory):
        _FACTORIES[name] = partial(GeneratorSearcher, factory)
    else:
        _FACTORIES[name] = cast(Factory, factory)


def create(name: str, context: SearchContext) -> Searcher:
    """The searcher of that name; ``auto`` goes by the shape of the space."""
    if check_name(name) == AUTO:
        name = choose(context.space, context.trials)
    made = _FACTORIES[name](context)
    check_members("searcher", made, Searcher)
    return made


def check_name(name: str) -> str:
    """The name, if there is such a searcher."""
    if name not in names():
        close = get_close_matches(name, names(), n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"no searcher {name!r}; there are {', '.join(names())}{hint}")
    return name


def choose(space: Space, trials: int | None = None) -> str:
    """Exhaustive where the budget covers the whole space, genetic otherwise."""
    limit = LIST_UP_TO if trials is None else trials
    if isinstance(space, Countable) and space.count() <= limit:
        return "exhaustive"
    return "genetic"
