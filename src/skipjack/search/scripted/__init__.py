"""Searchers that are written out as generators of points, and the adapter to all others.

`Step`, `Bisect` and the like are what sweep files return from ``META_search_callback``.
`ScriptedSearcher` and `as_search` make a searcher of the project out of each; `Named` goes the
other way.
"""

from skipjack.search.load import Bisect, Boundary, FindUpperBound, JointLoad, QPSBisect
from skipjack.search.points import (
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
from skipjack.search.scripted.adapter import Named, ScriptedSearcher, as_search
from skipjack.search.scripted.composer import Composer, Overlay
from skipjack.search.scripted.steps import CartesianProduct, GreedyStepper, Step

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
