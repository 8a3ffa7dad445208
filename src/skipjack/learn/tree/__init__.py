"""Searches of the game's tree, with a common budget and a record of every step.

Times come from `skipjack.learn.rates`: measured, replayed from a table, or estimated.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.tree.guided import mcts, policy_prior
    from skipjack.learn.tree.lookahead import recipe_actions
    from skipjack.learn.tree.methods import METHODS, POLICIES, Method, all_methods, method_of
    from skipjack.learn.tree.paths import (
        GamePath,
        Prior,
        RunningSearch,
        TreeContext,
        TreeSearch,
        legal,
        play,
        successors,
    )
    from skipjack.learn.tree.search_run import (
        MeasuringCosts,
        SearchBudget,
        SearchRun,
        SearchStep,
        run_search,
    )

__all__ = [
    "METHODS",
    "POLICIES",
    "GamePath",
    "MeasuringCosts",
    "Method",
    "Prior",
    "RunningSearch",
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "guided": "mcts policy_prior",
        "lookahead": "recipe_actions",
        "methods": "METHODS Method POLICIES all_methods method_of",
        "paths": "GamePath Prior RunningSearch TreeContext TreeSearch legal play successors",
        "search_run": "MeasuringCosts SearchBudget SearchRun SearchStep run_search",
    },
)
