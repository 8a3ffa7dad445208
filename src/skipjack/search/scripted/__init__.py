"""Searchers that are generators of points, and adapters between them and other searchers.

Sweep files return `Step`, `Bisect` and the like from ``META_search_callback``. `ScriptedSearcher`
and `as_search` make a `Searcher` of them; `Named` makes one of them from a `Searcher`.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.search import (
        MissingStatError,
        Point,
        Points,
        Predicate,
        Repeat,
        Run,
        SearcherInterface,
        Stats,
        do_send,
    )
    from skipjack.search.load import Bisect, Boundary, FindUpperBound, JointLoad, QPSBisect
    from skipjack.search.scripted.adapter import Named, ScriptedSearcher, as_search
    from skipjack.search.scripted.sweep_searchers import (
        CartesianProduct,
        Composer,
        GreedyStepper,
        Overlay,
        Step,
    )

__all__ = [
    "Bisect",
    "Boundary",
    "CartesianProduct",
    "Composer",
    "FindUpperBound",
    "GreedyStepper",
    "JointLoad",
    "MissingStatError",
    "Named",
    "Overlay",
    "Point",
    "Points",
    "Predicate",
    "QPSBisect",
    "Repeat",
    "Run",
    "ScriptedSearcher",
    "SearcherInterface",
    "Stats",
    "Step",
    "as_search",
    "do_send",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.search": (
            "MissingStatError Point Points Predicate Repeat Run SearcherInterface Stats do_send"
        ),
        "skipjack.search.load": "Bisect Boundary FindUpperBound JointLoad QPSBisect",
        "adapter": "Named ScriptedSearcher as_search",
        "sweep_searchers": "CartesianProduct Composer GreedyStepper Overlay Step",
    },
)
