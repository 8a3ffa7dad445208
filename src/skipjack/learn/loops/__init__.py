"""Scheduling loop nests as a game.

Importing it loads neither a compiler nor torch nor gymnasium, so that many environments start fast.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
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
    from skipjack.learn.loops.game import (
        MARKS,
        GameState,
        LoopGame,
        MachineFacts,
        Preset,
        finish,
        untuned,
    )
    from skipjack.learn.loops.legal_actions import MAX_LOOPS
    from skipjack.learn.loops.observations import (
        LOOP_COLUMNS,
        MEASURED,
        OBSERVATIONS,
        STRIDE_BINS,
        check_observation,
        ir_text,
        loop_tree,
        observe,
        parse_actions,
        play,
    )
    from skipjack.learn.loops.policy_observation import (
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "datasets": (
            "DatasetRequest LoopDataset dataset_names dataset_text find_problems make_dataset "
            "read_dataset write_dataset"
        ),
        "game": "GameState LoopGame MARKS MachineFacts Preset finish untuned",
        "legal_actions": "MAX_LOOPS",
        "observations": (
            "LOOP_COLUMNS MEASURED OBSERVATIONS STRIDE_BINS check_observation ir_text loop_tree "
            "observe parse_actions play"
        ),
        "policy_observation": (
            "GLOBAL_COLUMNS POLICY_OBSERVATION PolicyView ROW_COLUMNS policy_view"
        ),
        "problems": "loop_game loop_solver loop_space refusal space_game space_refusal",
    },
)
