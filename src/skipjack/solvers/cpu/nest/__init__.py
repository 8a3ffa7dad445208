"""Schedules of loop nests: what they are, which are legal, what changes them.

`schedule` defines a schedule and checks it; `actions` changes one loop at a time and lists the
legal changes; `footprint` measures registers, code size and threads of a schedule. `register_tile`
and `initial_schedules` propose good schedules before any measurement, `composition` draws
schedules at random and crosses two of them, and `space` is the search space made of all this.
Nothing here generates code: see `skipjack.solvers.cpu.nest_code`.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.nest.actions import (
        FACTORS,
        Action,
        ActionKind,
        ActionRules,
        LegalActions,
        all_actions,
        apply,
        legal_actions,
        mark,
        merge,
        move,
        split,
        swap,
    )
    from skipjack.solvers.cpu.nest.footprint import (
        ScheduleLimits,
        accumulator_vectors,
        has_partials,
        is_aligned,
        is_parallel,
        is_streaming,
        schedule_features,
        shared_loops,
        shared_out,
        unrolled_copies,
        vector_lanes,
    )
    from skipjack.solvers.cpu.nest.schedule import (
        MAX_STEP,
        Loop,
        Mark,
        Schedule,
        can_vectorize,
        carrying_start,
        check,
        is_legal,
        loop_range,
        normalize,
        ranges,
    )
    from skipjack.solvers.cpu.nest.space import ScheduleSpace

__all__ = [
    "FACTORS",
    "MAX_STEP",
    "Action",
    "ActionKind",
    "ActionRules",
    "LegalActions",
    "Loop",
    "Mark",
    "Schedule",
    "ScheduleLimits",
    "ScheduleSpace",
    "accumulator_vectors",
    "all_actions",
    "apply",
    "can_vectorize",
    "carrying_start",
    "check",
    "has_partials",
    "is_aligned",
    "is_legal",
    "is_parallel",
    "is_streaming",
    "legal_actions",
    "loop_range",
    "mark",
    "merge",
    "move",
    "normalize",
    "ranges",
    "schedule_features",
    "shared_loops",
    "shared_out",
    "split",
    "swap",
    "unrolled_copies",
    "vector_lanes",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "actions": (
            "Action ActionKind ActionRules FACTORS LegalActions all_actions apply legal_actions "
            "mark merge move split swap"
        ),
        "footprint": (
            "ScheduleLimits accumulator_vectors has_partials is_aligned is_parallel "
            "is_streaming schedule_features shared_loops shared_out unrolled_copies "
            "vector_lanes"
        ),
        "schedule": (
            "Loop MAX_STEP Mark Schedule can_vectorize carrying_start check is_legal loop_range "
            "normalize ranges"
        ),
        "space": "ScheduleSpace",
    },
)
