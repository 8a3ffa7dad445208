"""Observations of a game by name: tensors, texts and graphs; and games played from texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Access, Accumulator, Affine, Call, Constant, Load, Nest, Scalar
from skipjack.errors import ScheduleError, UsageError
from skipjack.learn.loops.game import MARKS, GameState, LoopGame
from skipjack.learn.loops.legal_actions import MAX_LOOPS
from skipjack.learn.loops.policy_observation import policy_view
from skipjack.solvers.cpu.nest import Loop, Schedule, ranges

# Observations that are arrays: `loops_tensor` and `stride_tensor`.
#
# Both count strides: the elements by which an access moves from one round of a loop to the next. A
# stride s is in bin ceil(log2 s): 1 is in bin 0, 2 in 1, 3 and 4 in 2, and so on. Larger strides
# are in the last bin; accesses that do not move are not counted.

STRIDE_BINS = 32
LOOP_BINS = 16
LOOP_COLUMNS = (
    *("cursor", "size", "tail", "reduces"),
    *MARKS,
    *(f"stride_bin_{number}" for number in range(LOOP_BINS)),
)
"""The columns of `loops_tensor`."""
_MARKS = tuple(MARKS.values())


def loops_tensor(game: LoopGame, state: GameState) -> NDArray[np.float32]:
    """A row for each loop, outermost first, and zeros below them.

    `cursor`, `reduces` and the marks are 0 or 1. `size` is log2(1 + full rounds of the loop),
    `tail` is log2(1 + elements of a partial round). The bins have the shares of the accesses with
    such strides; they add up to 1 if any access moves.
    """
    tensor = np.zeros((MAX_LOOPS, len(LOOP_COLUMNS)), np.float32)
    facts = game.facts
    covered = ranges(state.schedule, game.nest)
    for at, loop in enumerate(state.schedule.loops):
        rounds, tail = divmod(covered[at], loop.step)
        row = [0.0] * len(LOOP_COLUMNS)
        row[0], row[1], row[2] = float(at == state.cursor), log2(1 + rounds), log2(1 + tail)
        row[3] = float(loop.variable in facts.reduced)
        if loop.mark:
            row[4 + _MARKS.index(loop.mark)] = 1.0
        bins = [_bin(stride, LOOP_BINS) for stride in _strides(game, loop)]
        for number in bins:
            row[4 + len(_MARKS) + number] += 1.0 / len(bins)
        tensor[at] = row
    return tensor


def stride_tensor(game: LoopGame, schedule: Schedule) -> NDArray[np.float32]:
    """How often accesses move by strides of each bin in all loops, as log2(1 + count)."""
    counts = [0] * STRIDE_BINS
    outside = 1
    for loop, covered in zip(schedule.loops, ranges(schedule, game.nest), strict=True):
        outside *= -(-covered // loop.step)
        for stride in _strides(game, loop):
            counts[_bin(stride, STRIDE_BINS)] += outside
    return np.array([log2(1 + count) for count in counts], np.float32)


def _strides(game: LoopGame, loop: Loop) -> list[int]:
    """The strides from round to round, of accesses that move."""
    return [abs(stride) * loop.step for stride in game.facts.strides[loop.variable] if stride]


def _bin(stride: int, bins: int) -> int:
    return min((stride - 1).bit_length(), bins - 1)


# Observations that are texts, and lists of actions as text.

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_MARK_NAMES = {mark: name for name, mark in MARKS.items()}


def ir_text(game: LoopGame, state: GameState) -> str:
    """Four lines: extents, the computation, the schedule, and the cursor."""
    extents = " ".join(f"{name}={extent}" for name, extent in game.nest.loops)
    return "\n".join(
        [
            f"loops {extents}",
            f"body {body_text(game.nest)}",
            f"schedule {state.schedule}",
            f"cursor {state.cursor}",
        ]
    )


def loop_tree(nest: Nest, schedule: Schedule, cursor: int | None = None) -> str:
    """A line for each loop, indented by its depth, and the computation at the end.

    ``for m' in 4 r 2 : L1 vectorize <--``: the second loop on m has 4 full rounds and one of 2
    elements, is vectorised, and has the cursor.
    """
    lines = []
    seen: dict[str, int] = {}
    for at, (loop, covered) in enumerate(zip(schedule.loops, ranges(schedule, nest), strict=True)):
        primes = "'" * seen.get(loop.variable, 0)
        seen[loop.variable] = len(primes) + 1
        rounds, tail = divmod(covered, loop.step)
        left = f" r {tail}" if tail else ""
        mark = f" {_MARK_NAMES[loop.mark]}" if loop.mark else ""
        here = " <--" if at == cursor else ""
        lines.append(f"{' ' * at}for {loop.variable}{primes} in {rounds}{left} : L{at}{mark}{here}")
    lines.append(f"{' ' * len(schedule.loops)}{body_text(nest)}")
    return "\n".join(lines)


def body_text(nest: Nest) -> str:
    """The computation as an assignment: ``out[m,n] = sum(a[m,k] * b[k,n])``."""
    names = [_access_text(access) for access in nest.inputs]
    value = _scalar_text(nest.body, names, "")
    if nest.reduction:
        value = f"{nest.reduction}({value})"
    return f"{_access_text(nest.output)} = {_scalar_text(nest.epilogue, names, value)}"


def _access_text(access: Access) -> str:
    return f"{access.tensor.name}[{','.join(map(_affine_text, access.indices))}]"


def _affine_text(at: Affine) -> str:
    parts = [name if factor == 1 else f"{factor}*{name}" for name, factor in at.terms if factor]
    if at.constant or not parts:
        parts.append(str(at.constant))
    return "+".join(parts).replace("+-", "-")


def _scalar_text(value: Scalar, names: Sequence[str], accumulated: str) -> str:
    match value:
        case Load():
            return names[value.operand]
        case Constant():
            return f"{value.value:g}"
        case Accumulator():
            return accumulated
        case Call():
            inner = [_scalar_text(each, names, accumulated) for each in value.arguments]
            if value.function in _SIGNS:
                return f" {_SIGNS[value.function]} ".join(
                    f"({text})" if isinstance(each, Call) and len(each.arguments) > 1 else text
                    for each, text in zip(value.arguments, inner, strict=True)
                )
            return f"{value.function}({', '.join(inner)})"


def parse_actions(text: str, game: LoopGame) -> tuple[int, ...]:
    """Parse names of actions, separated by commas."""
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    found = []
    for place, name in enumerate(names, 1):
        if name not in game.actions:
            raise UsageError(
                f"action {place} of {len(names)}, {name!r}, is not an action of the preset "
                f"{game.preset}; choose from {', '.join(game.actions)}"
            )
        found.append(game.actions.index(name))
    return tuple(found)


def play(game: LoopGame, actions: Sequence[int]) -> Iterator[GameState]:
    """The states after each of the actions; `UsageError` if one is illegal."""
    state = game.start()
    for place, action in enumerate(actions, 1):
        try:
            state = game.apply(state, action)
        except ScheduleError as error:
            raise UsageError(
                f"action {place} of {len(actions)}, {game.actions[action]}, is not legal: {error}"
            ) from error
        yield state


# Observations of a game, by name.
#
# =========================  =====================================================================
# name                       what it is
# =========================  =====================================================================
# ``runtime``                seconds of one run, 0 if the schedule cannot be built
# ``flops``                  10^9 floating-point operations in a second, 0 likewise
# ``ir``                     the nest, its schedule and the cursor as an unambiguous text
# ``loop_tree``              the loops as a readable text
# ``ir_tree_networkx``       the loops as a graph of networkx
# ``ir_graph_networkx``      the same with the arrays, and how loops move in them
# ``loops_tensor``           a row of numbers for each loop
# ``stride_tensor``          how often memory is accessed with strides of each power of 2
# ``5_prev_actions_tensor``  the five last actions, the newest first, one-hot
# ``policy``                 the input of policies' networks (`policy_view`)
# =========================  =====================================================================

MEASURED = ("runtime", "flops")
"""Observations that need the time of the schedule."""
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

    Those in `MEASURED` are computed from the `seconds` of a run and its `flops`.
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
    """The last five actions, the newest first, one-hot and concatenated."""
    tensor = np.zeros((PREVIOUS, len(game.actions)), np.float32)
    for row, action in enumerate(history[: -PREVIOUS - 1 : -1]):
        tensor[row, action] = 1.0
    return tensor.ravel()


def check_observation(name: str) -> None:
    """`UsageError` if there is no observation of this name."""
    if name not in OBSERVATIONS:
        raise UsageError(f"there is no observation {name!r}; choose from {', '.join(OBSERVATIONS)}")
