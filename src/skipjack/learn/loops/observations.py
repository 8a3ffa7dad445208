"""What can be observed of a game, by name.

=========================  =====================================================================
name                       what it is
=========================  =====================================================================
``runtime``                seconds of one run, 0 where the schedule cannot be built
``flops``                  10^9 floating-point operations in a second, 0 likewise
``ir``                     a text of the nest, its schedule and the cursor, one to one
``loop_tree``              the loops as a text for people
``ir_tree_networkx``       the loops as a graph of networkx
``ir_graph_networkx``      the same with the arrays, and how loops move in them
``loops_tensor``           a row of numbers for each loop
``stride_tensor``          how often memory is accessed with strides of each power of 2
``5_prev_actions_tensor``  the five last actions, the newest first, one-hot
``policy``                 what the networks of policies see (`policy_view`)
=========================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import UsageError
from skipjack.learn.loops.game import GameState, LoopGame
from skipjack.learn.loops.policy_view import policy_view
from skipjack.learn.loops.tensors import loops_tensor, stride_tensor
from skipjack.learn.loops.texts import ir_text, loop_tree

MEASURED = ("runtime", "flops")
"""Observations that need a measurement."""
OBSERVATIONS = (
    *MEASURED,
    *("ir", "loop_tree", "ir_tree_networkx", "ir_graph_networkx"),
    *("loops_tensor", "stride_tensor", "5_prev_actions_tensor", "policy"),
)
PREVIOUS = 5


def observe(
    game: LoopGame,
    state: GameState,
    name: str,
    history: Sequence[int] = (),
    *,
    seconds: float | None = None,
    flops: int = 0,
) -> Any:
    """The observation of this name after the actions in `history`.

    Those in `MEASURED` are made of the `seconds` of a run and the `flops` that it has.
    """
    check_observation(name)
    match name:
        case "runtime":
            return np.array([seconds or 0.0], np.float32)
        case "flops":
            return np.array([flops / seconds / 1e9 if seconds else 0.0], np.float32)
        case "ir":
            return ir_text(game, state)
        case "loop_tree":
            return loop_tree(game.nest, state.schedule, state.cursor)
        case "loops_tensor":
            return loops_tensor(game, state)
        case "stride_tensor":
            return stride_tensor(game, state.schedule)
        case "5_prev_actions_tensor":
            return previous_actions(game, history)
        case "policy":
            return policy_view(game, state, history)
    from skipjack.learn.loops.graphs import tree_graph, whole_graph

    return tree_graph(game, state) if name == "ir_tree_networkx" else whole_graph(game, state)


def previous_actions(game: LoopGame, history: Sequence[int]) -> NDArray[np.float32]:
    """One-hot rows of the five last actions, the newest first, in one row after the other."""
    tensor = np.zeros((PREVIOUS, len(game.actions)), np.float32)
    for row, action in enumerate(history[: -PREVIOUS - 1 : -1]):
        tensor[row, action] = 1.0
    return tensor.ravel()


def check_observation(name: str) -> None:
    """`UsageError` if there is no observation of this name."""
    if name not in OBSERVATIONS:
        raise UsageError(f"there is no observation {name!r}; choose from {', '.join(OBSERVATIONS)}")
