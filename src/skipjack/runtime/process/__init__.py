"""What holds for the whole process: the tuning policy, and the program that it is a rank of."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.process.policy import (
        ALL_CLASSES,
        CLEAN,
        DYNAMIC_HYBRID,
        EXHAUSTIVE,
        FLEET,
        INCREMENTAL,
        NORMAL,
        POLICY_ARGUMENTS,
        RECORD,
        REFRESH,
        TuningPolicy,
        current_policy,
        in_force,
        logs_commands,
        make_policy,
        mode_of_decorated,
        on_miss,
        policy_variables,
        set_tuning_policy,
        tuning_policy,
    )
    from skipjack.runtime.process.program import (
        generation,
        next_generation,
        ranked_program,
        warn_once,
    )

__all__ = [
    "ALL_CLASSES",
    "CLEAN",
    "DYNAMIC_HYBRID",
    "EXHAUSTIVE",
    "FLEET",
    "INCREMENTAL",
    "NORMAL",
    "POLICY_ARGUMENTS",
    "RECORD",
    "REFRESH",
    "TuningPolicy",
    "current_policy",
    "generation",
    "in_force",
    "logs_commands",
    "make_policy",
    "mode_of_decorated",
    "next_generation",
    "on_miss",
    "policy_variables",
    "ranked_program",
    "set_tuning_policy",
    "tuning_policy",
    "warn_once",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "policy": (
            "ALL_CLASSES CLEAN DYNAMIC_HYBRID EXHAUSTIVE FLEET INCREMENTAL NORMAL "
            "POLICY_ARGUMENTS RECORD REFRESH TuningPolicy current_policy in_force logs_commands "
            "make_policy mode_of_decorated on_miss policy_variables set_tuning_policy "
            "tuning_policy"
        ),
        "program": "generation next_generation ranked_program warn_once",
    },
)
