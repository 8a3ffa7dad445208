"""Policies that schedule loop nests, without torch: files, playing, and a searcher."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.policy.built_in import (
        FOLDER,
        RUN_FILE,
        SHIPPED,
        EvaluationScope,
        card,
        evaluation_scope,
        evidence,
        find_policy,
        propose,
        shipped,
    )
    from skipjack.learn.policy.network import (
        FORBIDDEN,
        Policy,
        PolicyNetwork,
        log_probabilities,
        read_policy,
        read_weights,
        write_policy,
    )
    from skipjack.learn.policy.play import (
        ANALYTIC,
        MOST_ACTIONS,
        PlayedGame,
        best_schedules,
        greedy,
        planned,
        proposals,
    )

__all__ = [
    "ANALYTIC",
    "FOLDER",
    "FORBIDDEN",
    "MOST_ACTIONS",
    "RUN_FILE",
    "SHIPPED",
    "EvaluationScope",
    "PlayedGame",
    "Policy",
    "PolicyNetwork",
    "best_schedules",
    "card",
    "evaluation_scope",
    "evidence",
    "find_policy",
    "greedy",
    "log_probabilities",
    "planned",
    "proposals",
    "propose",
    "read_policy",
    "read_weights",
    "shipped",
    "write_policy",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "built_in": (
            "EvaluationScope FOLDER RUN_FILE SHIPPED card evaluation_scope evidence find_policy "
            "propose shipped"
        ),
        "network": (
            "FORBIDDEN Policy PolicyNetwork log_probabilities read_policy read_weights write_policy"
        ),
        "play": "ANALYTIC MOST_ACTIONS PlayedGame best_schedules greedy planned proposals",
    },
)
