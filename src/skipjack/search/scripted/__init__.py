"""Searchers that are written out as generators of points, and the adapter to all others.

`Step`, `Bisect` and the like are what sweep files return from ``META_search_callback``.
`ScriptedSearcher` and `as_search` make a searcher of the project out of each; `Named` goes the
other way.
"""

from skipjack.search.scripted.adapter import ScriptedSearcher, as_search
from skipjack.search.scripted.bisect import Bisect
from skipjack.search.scripted.boundary import Boundary
from skipjack.search.scripted.cartesian_product import CartesianProduct
from skipjack.search.scripted.composer import Composer
from skipjack.search.scripted.contract import (
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
from skipjack.search.scripted.from_searcher import FromSearcher, Named
from skipjack.search.scripted.greedy_stepper import GreedyStepper
from skipjack.search.scripted.joint_load import JointLoad
from skipjack.search.scripted.overlay import Overlay
from skipjack.search.scripted.qps_bisect import QPSBisect
from skipjack.search.scripted.step import Step
from skipjack.search.scripted.upper_bound import FindUpperBound

__all__ = [
    "Bisect",
    "Boundary",
    "CartesianProduct",
    "Composer",
    "FindUpperBound",
    "FromSearcher",
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
