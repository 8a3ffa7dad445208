"""The same call in several states of this process, in interleaved blocks, and what is between them.

A state is a function that brings it about: the hook undone, the hook enabled. Each round goes
through all states, every second one backwards, so that a machine that becomes slower slows all.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

from skipjack.execute import Ratio
from skipjack.execute.statistics import log_interval, median_interval

CONFIDENCE = 0.95
States = Mapping[str, Callable[[], object]]
Record = dict[str, Any]
_SLOW_S = 0.2
"""A call that takes longer is not called untimed after each change of state."""


cpu_clock = time.thread_time
"""For calls on one thread that never wait."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long blocks are, and how many there are."""

    block_s: float = 0.1
    seconds: float = 10.0
    """For all blocks together, if there are enough of them by then."""
    fewest: int = 6
    most: int = 60
    clock: Callable[[], float] = time.perf_counter
    """`cpu_clock` where other programs use the same cores: what they take does not count."""

    def calls(self, once_s: float) -> int:
        """Of a block."""
        return max(1, int(self.block_s / once_s))


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds a call of each state, a number a round."""

    seconds: Mapping[str, Sequence[float]]

    def median_s(self, state: str) -> float:
        return median(self.seconds[state])

    def ratio(self, slower: str, faster: str) -> Ratio:
        """How many times faster the second state is, from pairs of the same rounds."""
        logs = [log(a / b) for a, b in zip(self.seconds[slower], self.seconds[faster], strict=True)]
        low, high = log_interval(logs, CONFIDENCE)
        return Ratio(exp(median(logs)), exp(low), exp(high), CONFIDENCE, len(logs))

    def more_us(self, state: str, than: str) -> Record:
        """Microseconds a call that a state takes more than another one, with an interval."""
        pairs = zip(self.seconds[state], self.seconds[than], strict=True)
        differences = [(mine - other) * 1e6 for mine, other in pairs]
        low, high = median_interval(differences, CONFIDENCE)
        return {
            "median": round(median(differences), 3),
            "low": round(low, 3),
            "high": round(high, 3),
            "pairs": len(differences),
        }


def interleave(
    states: States,
    call: Callable[[], object],
    pace: Pace,
    synchronize: Callable[[], None] = lambda: None,
) -> Rounds:
    """Time the call in every state until the time is over; it was called in each before."""
    once_s = _warm_up(states, call, pace, synchronize)
    calls = pace.calls(once_s)
    found: dict[str, list[float]] = {name: [] for name in states}
    with _no_collections():
        ends = time.monotonic() + pace.seconds
        for at in range(pace.most):
            if at >= pace.fewest and time.monotonic() > ends:
                break
            for name in tuple(states)[:: -1 if at % 2 else 1]:
                states[name]()
                if once_s < _SLOW_S:
                    call()
                found[name].append(_block(call, calls, pace.clock, synchronize))
    return Rounds(found)


def _warm_up(
    states: States, call: Callable[[], object], pace: Pace, synchronize: Callable[[], None]
) -> float:
    """Seconds of one call once every state has seen it."""
    once_s = 0.0
    for enter in states.values():
        enter()
        call()
        calls = 1
        while (once_s := _block(call, calls, pace.clock, synchronize)) * calls < 1e-3:
            calls *= 2
    return once_s


def _block(
    call: Callable[[], object],
    calls: int,
    clock: Callable[[], float],
    synchronize: Callable[[], None],
) -> float:
    turns = range(calls)
    synchronize()
    started = clock()
    for _ in turns:
        call()
    synchronize()
    return (clock() - started) / calls


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
