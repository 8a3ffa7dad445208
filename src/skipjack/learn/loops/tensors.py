"""Games as arrays of one size for every nest: `loops_tensor` and `stride_tensor`.

Both are about strides: by how many elements an access moves from one round of a loop to the next.
A stride s is counted in bin ceil(log2 s): 1 is in bin 0, 2 in 1, 3 and 4 in 2, and so on; what is
beyond the last bin is counted there, and what does not move is not counted.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from skipjack.learn.loops.game import MARKS, GameState, LoopGame
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.solvers.cpu.nest import Loop, Schedule, ranges

STRIDE_BINS = 32
LOOP_BINS = 16
LOOP_COLUMNS = (
    *("cursor", "size", "tail", "reduces"),
    *MARKS,
    *(f"stride_bin_{number}" for number in range(LOOP_BINS)),
)
"""What a row of `loops_tensor` has."""
_MARKS = tuple(MARKS.values())


def loops_tensor(game: LoopGame, state: GameState) -> NDArray[np.float32]:
    """A row for each loop, outermost first, and zeros below them.

    `cursor`, `reduces` and the marks are 0 or 1. `size` is log2 of 1 and the full rounds of the
    loop, `tail` of 1 and the elements that the last round has left. The bins have the shares of
    the accesses that move by such strides; they add up to 1 where any moves.
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
    """How often accesses move by strides of each bin in all loops, as log2 of 1 and the number."""
    counts = [0] * STRIDE_BINS
    outside = 1
    for loop, covered in zip(schedule.loops, ranges(schedule, game.nest), strict=True):
        outside *= -(-covered // loop.step)
        for stride in _strides(game, loop):
            counts[_bin(stride, STRIDE_BINS)] += outside
    return np.array([log2(1 + count) for count in counts], np.float32)


def _strides(game: LoopGame, loop: Loop) -> list[int]:
    """From round to round, of the accesses that move."""
    return [abs(stride) * loop.step for stride in game.facts.strides[loop.variable] if stride]


def _bin(stride: int, bins: int) -> int:
    return min((stride - 1).bit_length(), bins - 1)
