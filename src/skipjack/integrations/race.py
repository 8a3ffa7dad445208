"""Which of several kernels is the fastest, with as few runs of the slow ones as possible.

All that are left are timed in turn, round after round, so that a clock that drifts is the same for
all. After each round those that are hopeless drop out, and the others get more samples. What was
timed in another sitting is not compared by its record: the leader of old runs beside newcomers, and
their times are scaled by its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import exp, log
from statistics import fmean, median
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

Sampler = Callable[[Sequence[T]], Mapping[T, float]]
"""One sample in nanoseconds of each kernel that it is given, taken in this order.

A kernel that can run no more has none, and is out."""


ROUNDS = ((2, 1.6), (3, 1.25), (5, 1.10), (10, 1.04), (20, 1.0))
"""So many samples of each kernel; then who is slower than the best by this factor drops out.

The noise of a GPU with its caches cleared is about one per cent; two samples tell a factor.
"""


def race(
    kernels: Iterable[T],
    sample: Sampler[T],
    rounds: Sequence[tuple[int, float]] = ROUNDS,
    out_of_time: Callable[[], bool] = lambda: False,
) -> dict[T, list[float]]:
    """All samples of each kernel. The one with the lowest median won.

    Kernels that are left when time runs out have had at least the first round.
    """
    left = list(kernels)
    samples: dict[T, list[float]] = {kernel: [] for kernel in left}
    for number, (count, within) in enumerate(rounds):
        if number and (len(left) < 2 or out_of_time()):
            break
        for turn in range(count):
            # Every other time backwards: nobody always follows the same neighbour.
            times_ns = sample(left if turn % 2 == 0 else left[::-1])
            for kernel, time_ns in times_ns.items():
                samples[kernel].append(time_ns)
            left = [kernel for kernel in left if kernel in times_ns]
            if not left:
                return samples
        left = _still_in(left, samples, within)
    return samples


def _still_in(left: list[T], samples: Mapping[T, list[float]], within: float) -> list[T]:
    best = min(median(samples[kernel]) for kernel in left)
    # By its best sample: one disturbed run puts nobody out.
    return [kernel for kernel in left if min(samples[kernel]) <= best * within]


def fold(sessions: Iterable[Mapping[T, float]]) -> dict[T, float]:
    """Times of several sittings on the scale of the first.

    Sittings that share kernels are brought to one scale by those; one that shares none is taken as
    it is.
    """
    known: dict[T, float] = {}
    for session in sessions:
        shared = [kernel for kernel in session if kernel in known]
        scale = exp(fmean(log(known[k] / session[k]) for k in shared)) if shared else 1.0
        for kernel, time_ns in session.items():
            known[kernel] = time_ns * scale
    return known
