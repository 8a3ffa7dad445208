"""Searchers: they decide what to try next."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.search.built_in import GeneticSearch
    from skipjack.search.generator import Ask, Batch, Batches, GeneratorSearcher
    from skipjack.search.points import (
        MissingStatError,
        Point,
        Points,
        Predicate,
        Repeat,
        Run,
        SearcherInterface,
        Stats,
        config_of,
        do_send,
    )
    from skipjack.search.registry import (
        LIST_UP_TO,
        applicable_searcher,
        check_name,
        choose,
        create,
        installed,
        names,
        register,
        uses_prior,
    )
    from skipjack.search.searcher import (
        Bounds,
        Count,
        SearchContext,
        Searcher,
        cost,
        score_all,
    )

__all__ = [
    "LIST_UP_TO",
    "Ask",
    "Batch",
    "Batches",
    "Bounds",
    "Count",
    "GeneratorSearcher",
    "GeneticSearch",
    "MissingStatError",
    "Point",
    "Points",
    "Predicate",
    "Repeat",
    "Run",
    "SearchContext",
    "Searcher",
    "SearcherInterface",
    "Stats",
    "applicable_searcher",
    "check_name",
    "choose",
    "config_of",
    "cost",
    "create",
    "do_send",
    "installed",
    "names",
    "register",
    "score_all",
    "uses_prior",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "built_in": "GeneticSearch",
        "generator": "Ask Batch Batches GeneratorSearcher",
        "points": (
            "MissingStatError Point Points Predicate Repeat Run SearcherInterface Stats "
            "config_of do_send"
        ),
        "registry": (
            "LIST_UP_TO applicable_searcher check_name choose create installed names register "
            "uses_prior"
        ),
        "searcher": "Bounds Count SearchContext Searcher cost score_all",
    },
)
