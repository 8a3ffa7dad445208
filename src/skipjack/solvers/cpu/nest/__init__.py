"""Schedules of loop nests: what they are, which are legal, what changes them, what they cost.

All of it is pure and imports `skipjack.core` alone; code is generated elsewhere.
"""

from skipjack.solvers.cpu.nest.action_rules import ActionRules, LegalActions, legal_actions
from skipjack.solvers.cpu.nest.actions import (
    FACTORS,
    Action,
    ActionKind,
    apply,
    family,
    mark,
    merge,
    move,
    split,
    swap,
)
from skipjack.solvers.cpu.nest.features import schedule_features
from skipjack.solvers.cpu.nest.footprint import (
    ScheduleLimits,
    accumulator_vectors,
    is_aligned,
    is_streaming,
    unrolled_copies,
    vector_lanes,
)
from skipjack.solvers.cpu.nest.legality import can_vectorize, carrying_start, check, is_legal
from skipjack.solvers.cpu.nest.schedule import (
    MAX_STEP,
    Loop,
    Mark,
    Schedule,
    loop_range,
    normalize,
    ranges,
)
from skipjack.solvers.cpu.nest.space import ScheduleSpace
from skipjack.solvers.cpu.nest.threads import has_partials, is_parallel, shared_loops, shared_out

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
    "apply",
    "can_vectorize",
    "carrying_start",
    "check",
    "family",
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
