"""The input of policies' networks: a row of features for each loop, and global features.

Features are roughly from -1 to 1. They do not depend on names of variables or arrays, so that a
policy can play nests that it was not trained on; they include facts about the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Call, Scalar
from skipjack.learn.loops.game import GameState, LoopGame, NestFacts, Preset
from skipjack.learn.loops.legal_actions import MAX_LOOPS
from skipjack.solvers.cpu.nest import (
    Loop,
    Mark,
    Schedule,
    accumulator_vectors,
    ranges,
    unrolled_copies,
)

POLICY_OBSERVATION = 1
"""The version of the features; a policy of another version is refused."""

_OPERANDS = 3
"""Accesses with columns of their own: the output and the first two inputs."""
_CACHES = 3
_TRIED = (3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32, 48, 64, 80, 96, 112)
"""Factors for which a row has the share of full rounds after a split by them."""
_MARK_ORDER = tuple(Mark)
_ONE_HOT = {mark: tuple(float(mark is each) for each in _MARK_ORDER) for mark in _MARK_ORDER}
_REDUCTIONS = ("", "sum", "prod", "max", "min")
_ALL_ACTIONS = Preset.FULL.actions
_COSTLY = frozenset(
    ("exp", "log", "tanh", "sigmoid", "silu", "erf", "gelu", "gelu_tanh", "sqrt", "rsqrt", "div")
) | {"silu_backward", "gelu_backward", "gelu_tanh_backward"}
ROW_COLUMNS = (
    *("cursor", "below_cursor", "depth", "height"),
    *("rounds", "covered", "step", "tail", "vectors", "whole_vectors", "power_of_two"),
    *("reduces", "vectorizable", "outermost_of_variable", "innermost_of_variable"),
    *("loops_of_variable", "extent", "next_to_suffix", "in_built_suffix"),
    *(f"mark_{mark.value or 'none'}" for mark in _MARK_ORDER),
    *(
        f"{column}_{operand}"
        for operand in ("out", "in0", "in1")
        for column in ("moves", "contiguous", "stride")
    ),
    *("moved_inputs", "contiguous_inputs"),
    *("iterations_outside", "iterations_inside", "footprint"),
    *(f"footprint_to_l{level}" for level in range(1, _CACHES + 1)),
    *(f"used_by_{factor}" for factor in _TRIED),
)
GLOBAL_COLUMNS = (
    *("lanes", "registers", "max_unrolled", "threads", "streaming", "item_bytes"),
    *(f"l{level}_bytes" for level in range(1, _CACHES + 1)),
    *(f"reduction_{name or 'none'}" for name in _REDUCTIONS),
    *("loops", "variables", "reduction_variables", "iterations", "footprint"),
    *(f"footprint_to_l{level}" for level in range(1, _CACHES + 1)),
    *("inputs", "body_steps", "costly_steps", "epilogue_steps"),
    *("copies", "sums", "sums_to_registers", "sums_fit", "vectorized", "streamed", "parallel"),
    *("room_for_loops", "actions_done"),
    *(f"last_{name}" for name in _ALL_ACTIONS),
)


class PolicyView(TypedDict):
    """The arrays of the input; `rows` is 1 for each row of `loops` that is a loop."""

    loops: NDArray[np.float32]
    rows: NDArray[np.int8]
    globals: NDArray[np.float32]


def policy_view(game: LoopGame, state: GameState, history: Sequence[int] = ()) -> PolicyView:
    """The input of a policy for a state, after the actions in `history`."""
    count = len(state.schedule.loops)
    loops = np.zeros((MAX_LOOPS, len(ROW_COLUMNS)), np.float32)
    rows = np.zeros(MAX_LOOPS, np.int8)
    rows[:count] = 1
    built = game.built(state)
    if count:
        loops[:count] = _rows(game, state, built)
    numbers = _globals(game, state, built, history)
    return {"loops": loops, "rows": rows, "globals": np.array(numbers, np.float32)}


def _rows(game: LoopGame, state: GameState, built: Schedule) -> list[list[float]]:
    facts, loops = game.facts, state.schedule.loops
    count, lanes, item = len(loops), game.limits.lanes, game.machine.item_bytes
    covered = ranges(state.schedule, game.nest)
    rounds = [-(-size // loop.step) for size, loop in zip(covered, loops, strict=True)]
    suffix, built_suffix = state.schedule.suffix_start, built.suffix_start
    chains: dict[str, list[int]] = {}
    for at, loop in enumerate(loops):
        chains.setdefault(loop.variable, []).append(at)
    footprints = _footprints(facts, loops, covered)
    caches = _caches(game)
    outside, inside = 0.0, sum(log2(each) for each in rounds)
    rows = []
    for at, loop in enumerate(loops):
        size, chain = covered[at], chains[loop.variable]
        strides = facts.strides[loop.variable]
        here = footprints[at] * item
        steps = log2(rounds[at])
        row: list[float] = [
            at == state.cursor,
            (at - state.cursor) / MAX_LOOPS,
            at / MAX_LOOPS,
            (count - 1 - at) / MAX_LOOPS,
            steps / 10,
            log2(size) / 10,
            log2(loop.step) / 10,
            size % loop.step / size,
            max(-1.0, min(1.0, log2(size / lanes) / 5)),
            size % lanes == 0,
            size & (size - 1) == 0,
            loop.variable in facts.reduced,
            loop.variable in facts.vectorizable,
            at == chain[0],
            at == chain[-1],
            len(chain) / 4,
            log2(facts.extents[loop.variable]) / 10,
            at == suffix - 1,
            at >= built_suffix or at == count - 1 > built_suffix,
            *_ONE_HOT[loop.mark],
        ]
        for stride in strides[:_OPERANDS]:
            stride = abs(stride)
            row += [stride > 0, stride == 1, log2(stride * loop.step) / 20 if stride else 0.0]
        row += [0.0] * (3 * (_OPERANDS - len(strides)))
        inputs = strides[1:]
        row += [(len(inputs) - inputs.count(0)) / 4, inputs.count(1) / 4]
        row += [outside / 30, inside / 30, log2(here) / 30]
        row += [_ratio(here, cache) for cache in caches]
        row += _used(size, loop.step)
        rows.append(row)
        outside += steps
        inside -= steps
    return rows


@lru_cache(maxsize=4096)
def _used(size: int, step: int) -> tuple[float, ...]:
    """For each factor, the used share of all rounds after a split; 0 for a single round."""
    whole = -(-size // step)
    rounds = (-(-whole // factor) for factor in _TRIED)
    return tuple(
        whole / (count * factor) if count > 1 else 0.0
        for count, factor in zip(rounds, _TRIED, strict=True)
    )


def _footprints(facts: NestFacts, loops: Sequence[Loop], covered: Sequence[int]) -> list[int]:
    """Elements touched by all rounds of each loop, in one round of the loops around it."""
    sizes = dict.fromkeys(facts.extents, 1)
    found = []
    for loop, size in zip(reversed(loops), reversed(covered), strict=True):
        sizes[loop.variable] = size
        found.append(facts.elements(sizes))
    return found[::-1]


def _globals(
    game: LoopGame, state: GameState, built: Schedule, history: Sequence[int]
) -> list[float]:
    nest, limits, machine, facts = game.nest, game.limits, game.machine, game.facts
    lanes, caches = limits.lanes, _caches(game)
    footprint = facts.elements(facts.extents) * machine.item_bytes
    sums = accumulator_vectors(built, nest, lanes)
    marks = [loop.mark for loop in built.loops]
    body, epilogue = _steps(nest.body), _steps(nest.epilogue)
    last = game.actions[history[-1]] if history else ""
    return [
        log2(lanes) / 6,
        limits.registers / 32,
        log2(limits.max_unrolled) / 10,
        log2(machine.threads) / 6,
        game.streaming,
        machine.item_bytes / 8,
        *(log2(cache) / 30 for cache in caches),
        *(nest.reduction == name for name in _REDUCTIONS),
        len(state.schedule.loops) / MAX_LOOPS,
        len(facts.extents) / 8,
        len(facts.reduced) / 8,
        sum(log2(extent) for extent in facts.extents.values()) / 40,
        log2(footprint) / 40,
        *(_ratio(footprint, cache) for cache in caches),
        len(nest.inputs) / 4,
        len(body) / 8,
        sum(name in _COSTLY for name in (*body, *epilogue)) / 4,
        len(epilogue) / 8,
        log2(unrolled_copies(built, nest, lanes)) / 10,
        log2(1 + sums) / 6,
        min(2.0, sums / limits.registers),
        sums <= limits.registers - 2,
        any(mark.in_vectors for mark in marks),
        Mark.STREAM in marks,
        marks.count(Mark.PARALLEL) / 2,
        1 - len(state.schedule.loops) / MAX_LOOPS,
        min(1.0, len(history) / 32),
        *(name == last for name in _ALL_ACTIONS),
    ]


def _steps(value: Scalar) -> list[str]:
    """The functions in a scalar expression."""
    if not isinstance(value, Call):
        return []
    return [value.function, *(name for part in value.arguments for name in _steps(part))]


def _caches(game: LoopGame) -> list[int]:
    """Sizes of three cache levels; a missing level is as large as the one before it."""
    sizes = list(game.machine.caches[:_CACHES]) or [1 << 15]
    return sizes + [sizes[-1]] * (_CACHES - len(sizes))


def _ratio(footprint: int, cache: int) -> float:
    return max(-1.0, min(1.0, log2(footprint / cache) / 8))
