"""Random inputs in a GPU's memory: some are drawn, and repeated there until the arrays are full.

Drawing and sending hundreds of millions of numbers would take longer than a tuning. A repetition
after a number of elements that no sensible tile divides shows wrong indices as well.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.execute.gpu.arrays import Array, DeviceArrays
from skipjack.execute.verification import draw, storage_of
from skipjack.gpu.driver import Gpu
from skipjack.operations import get

DRAWN = 1_048_583
"""Elements of an input that are drawn, at most; a prime number."""


class Inputs:
    """The inputs of a problem, the same for the same seed.

    `whole`: all of them are -1, 0 or 1, so that sums are exact in whatever order they are made.
    """

    def __init__(self, problem: Problem, seed: int = 0, *, whole: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self._shapes = {
            tensor.name: tensor.shape for tensor in get(problem.operation).inputs(problem)
        }
        self._drawn = {
            tensor.name: _drawn(problem, tensor, rng, whole)
            for tensor in get(problem.operation).inputs(problem)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of a call."""
        return tuple(self._drawn)

    def write(self, gpu: Gpu, arrays: DeviceArrays) -> None:
        """Fill the arrays: what is there already is doubled until they are full."""
        for name, drawn in self._drawn.items():
            start, size = arrays.addresses[name], arrays.sizes[name]
            gpu.upload(start, drawn.view(np.uint8))
            there = drawn.nbytes
            while there < size:
                more = min(there, size - there)
                gpu.copy(start + there, start, more)
                there += more
        gpu.synchronize()

    @cached_property
    def on_host(self) -> dict[str, Array]:
        """The same arrays in the host's memory."""
        return {name: np.resize(drawn, self._shapes[name]) for name, drawn in self._drawn.items()}


def _drawn(problem: Problem, tensor: Tensor, rng: np.random.Generator, whole: bool) -> Array:
    count = min(tensor.size, DRAWN)
    if not whole:
        return draw(problem, tensor, (count,), rng)
    return rng.integers(-1, 2, count).astype(storage_of(problem, tensor))
