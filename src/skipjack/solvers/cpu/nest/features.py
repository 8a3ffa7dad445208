"""A schedule as numbers, as many for every schedule of a nest."""

from __future__ import annotations

from math import log2

from skipjack.core.nest import Nest
from skipjack.solvers.cpu.nest.footprint import accumulator_vectors, unrolled_copies
from skipjack.solvers.cpu.nest.schedule import Mark, Schedule, ranges

_MARK_CODES = {
    Mark.NONE: 0.0,
    Mark.PARALLEL: 1.0,
    Mark.UNROLL: 2.0,
    Mark.ACCUMULATE: 3.0,
    Mark.VECTORIZE: 4.0,
    Mark.STREAM: 5.0,
}
_LOOPS_PER_VARIABLE = 3
_FEATURES_PER_LOOP = 5


def schedule_features(schedule: Schedule, nest: Nest, lanes: int) -> tuple[float, ...]:
    """Whole-schedule numbers, then five for each of the innermost three loops per variable.

    Of the schedule: log2 of the unrolled copies, log2 of the accumulators, number of loops. Of a
    loop: log2 of step and range, mark, the tail's share of the range, and how far in it lies (1 for
    the innermost). Missing loops are zeros.
    """
    numbers = [
        log2(unrolled_copies(schedule, nest, lanes)),
        log2(max(1, accumulator_vectors(schedule, nest, lanes))),
        float(len(schedule.loops)),
    ]
    rows = _rows(schedule, nest)
    for name, _ in nest.loops:
        inner = rows.get(name, [])[-_LOOPS_PER_VARIABLE:]
        missing = _LOOPS_PER_VARIABLE - len(inner)
        numbers += [0.0] * (_FEATURES_PER_LOOP * missing)
        numbers += [number for row in inner for number in row]
    return tuple(numbers)


def _rows(schedule: Schedule, nest: Nest) -> dict[str, list[tuple[float, ...]]]:
    """The numbers of every loop, by variable, outermost first."""
    rows: dict[str, list[tuple[float, ...]]] = {}
    pairs = zip(schedule.loops, ranges(schedule, nest), strict=True)
    for at, (loop, covered) in enumerate(pairs, 1):
        row = (
            log2(loop.step),
            log2(covered),
            _MARK_CODES[loop.mark],
            covered % loop.step / covered,
            at / len(schedule.loops),
        )
        rows.setdefault(loop.variable, []).append(row)
    return rows
