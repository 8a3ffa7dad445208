"""Scheduling loop nests as a game.

Importing it takes `core`, `operations` and the schedules alone: no compiler, no torch, no
gymnasium, so that many environments start in a moment.
"""

from skipjack.learn.loops.datasets import (
    DatasetRequest,
    LoopDataset,
    dataset_names,
    dataset_text,
    find_problems,
    make_dataset,
    read_dataset,
    write_dataset,
)
from skipjack.learn.loops.finish import finish
from skipjack.learn.loops.game import MARKS, GameState, LoopGame, MachineFacts, Preset, untuned
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.learn.loops.observations import MEASURED, OBSERVATIONS, check_observation, observe
from skipjack.learn.loops.policy_view import (
    GLOBAL_COLUMNS,
    POLICY_OBSERVATION,
    ROW_COLUMNS,
    PolicyView,
    policy_view,
)
from skipjack.learn.loops.problems import (
    loop_game,
    loop_solver,
    loop_space,
    refusal,
    space_game,
    space_refusal,
)
from skipjack.learn.loops.tensors import LOOP_COLUMNS, STRIDE_BINS
from skipjack.learn.loops.texts import ir_text, loop_tree, parse_actions, play

__all__ = [
    "GLOBAL_COLUMNS",
    "LOOP_COLUMNS",
    "MARKS",
    "MAX_LOOPS",
    "MEASURED",
    "OBSERVATIONS",
    "POLICY_OBSERVATION",
    "ROW_COLUMNS",
    "STRIDE_BINS",
    "DatasetRequest",
    "GameState",
    "LoopDataset",
    "LoopGame",
    "MachineFacts",
    "PolicyView",
    "Preset",
    "check_observation",
    "dataset_names",
    "dataset_text",
    "find_problems",
    "finish",
    "ir_text",
    "loop_game",
    "loop_solver",
    "loop_space",
    "loop_tree",
    "make_dataset",
    "observe",
    "parse_actions",
    "play",
    "policy_view",
    "read_dataset",
    "refusal",
    "space_game",
    "space_refusal",
    "untuned",
    "write_dataset",
]
