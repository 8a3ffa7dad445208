"""Searches of the game's tree: all with the same budget, all with a record of every step.

Times come from `skipjack.learn.rates`: measured, replayed from a table, or estimated.
"""

from skipjack.learn.tree.guided import policy_prior
from skipjack.learn.tree.mcts import mcts
from skipjack.learn.tree.methods import METHODS, POLICIES, Method, all_methods, method_of
from skipjack.learn.tree.paths import (
    Asking,
    GamePath,
    Prior,
    TreeContext,
    TreeSearch,
    legal,
    play,
    successors,
)
from skipjack.learn.tree.recipe import recipe_actions
from skipjack.learn.tree.result import SearchRun, SearchStep
from skipjack.learn.tree.running import MeasuringCosts, SearchBudget, run_search

__all__ = [
    "METHODS",
    "POLICIES",
    "Asking",
    "GamePath",
    "MeasuringCosts",
    "Method",
    "Prior",
    "SearchBudget",
    "SearchRun",
    "SearchStep",
    "TreeContext",
    "TreeSearch",
    "all_methods",
    "legal",
    "mcts",
    "method_of",
    "play",
    "policy_prior",
    "recipe_actions",
    "run_search",
    "successors",
]
