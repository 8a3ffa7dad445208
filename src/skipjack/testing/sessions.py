"""A run session without a device: kernels of known cost, noise and drift, all from one seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from skipjack.core.trial import Status
from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block

_SENTINEL_NS = 1000.0
_SLOW_NS = 2e6
"""Calls that take longer are sampled once a block, as in a real session."""


@dataclass
class NullSession:
    """Times kernels as `RunSession.time` does, by drawing from what is known about them.

    `noise` is the relative spread of a sample, `drift` that of the machine's speed, which all
    kernels of a round share. A round is disturbed with probability `disturbance`: everything in it
    takes half as long again, and its blocks say so.

    With `interrupted_every_ns` something else wants the core that often on average, and then has it
    for `interruption_ns`: the longer a sample, the more often it is hit. What was hit is noticed
    with probability `noticed` and then timed again, `tries` times at most for each sample of a
    block, as a run worker does.
    """

    costs_ns: Mapping[int, float]
    rng: np.random.Generator
    noise: float = 0.01
    drift: float = 0.0
    disturbance: float = 0.0
    samples: int = 4
    failing: frozenset[int] = frozenset()
    interrupted_every_ns: float = float("inf")
    interruption_ns: float = 3e6
    noticed: float = 1.0
    tries: int = 3
    rounds: int = field(default=0, init=False)
    """How many rounds were timed so far."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels."""
        failures = [
            Failure(kernel, Status.CRASH, "this session has a hole here")
            for kernel in kernels
            if kernel in self.failing
        ]
        there = [kernel for kernel in kernels if kernel not in self.failing]
        timed: list[Block] = []
        for round_ in range(blocks):
            timed += self._round(there, round_)
        return timed, failures

    def _round(self, kernels: Sequence[int], round_: int) -> list[Block]:
        self.rounds += 1
        disturbed = bool(self.rng.random() < self.disturbance)
        speed = float(np.exp(self.rng.normal(0.0, self.drift))) * (1.5 if disturbed else 1.0)
        sentinel = (_SENTINEL_NS, _SENTINEL_NS * (1.5 if disturbed else 1.0))
        return [self._block(kernel, round_, speed, sentinel, disturbed) for kernel in kernels]

    def _block(
        self, kernel: int, round_: int, speed: float, sentinel: tuple[float, ...], disturbed: bool
    ) -> Block:
        usual_ns = self.costs_ns[kernel] * speed
        wanted = 1 if self.costs_ns[kernel] > _SLOW_NS else self.samples
        if self.interrupted_every_ns == float("inf"):
            times = usual_ns * np.exp(self.rng.normal(0.0, self.noise, wanted))
            return Block(kernel, round_, 1, tuple(times.tolist()), sentinel, disturbed)
        size = wanted * self.tries
        times = usual_ns * np.exp(self.rng.normal(0.0, self.noise, size))
        hits = self.rng.poisson(times / self.interrupted_every_ns)
        seen = (hits > 0) & (self.rng.random(size) < self.noticed)
        times = times + hits * self.interruption_ns
        quiet = tuple(times[~seen][:wanted].tolist())
        kept = quiet or tuple(times[:wanted].tolist())
        dropped = int(seen.sum()) if quiet else 0
        return Block(kernel, round_, 1, kept, sentinel, disturbed or not quiet, dropped)
