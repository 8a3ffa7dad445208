"""Where arrays lie while kernels are timed: at more than one place, for a place can favour one.

A load waits for an earlier store at the same place of another page, so that a kernel can be twice
as slow on arrays that happen to lie badly for it. Which places are bad differs between kernels.
Users' arrays lie anywhere, so every kernel is timed at two sets of places, in the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.execute.kernels import Kernel
from skipjack.native.memory import PAGE, aligned

Array = npt.NDArray[Any]

_STAGGER = 64
"""Bytes that each array begins further into its page than the one before, at the second places."""


def placements(contents: Mapping[str, Array]) -> list[dict[str, Array]]:
    """The same arrays at page starts, and a little further apart; they share memory.

    The first are equal to what is given; the others hold values of theirs in another order.
    """
    places: list[dict[str, Array]] = [{}, {}]
    for number, (name, array) in enumerate(contents.items()):
        shift = number * _STAGGER % PAGE // array.itemsize
        room = aligned((array.size + shift,), array.dtype, PAGE)
        room[: array.size] = array.ravel()
        room[array.size :] = np.resize(array.ravel()[:shift], shift)
        places[0][name] = room[: array.size].reshape(array.shape)
        places[1][name] = room[shift:].reshape(array.shape)
    return places


class PlacedKernel:
    """A kernel on arrays at several places; samples are taken at each."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.places = tuple(kernels)

    def at(self, place: int) -> Kernel:
        """The kernel at one of the places, counted on and on."""
        return self.places[place % len(self.places)]

    def call(self) -> None:
        """Run once."""
        self.places[0].call()

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        """Half of the samples at each of two places; a single one at the last."""
        times = []
        for number, kernel in enumerate(self.places):
            count = (samples + number) // len(self.places)
            if count:
                kernel.sample(1, 1)  # brings code and data back into the caches
                times.append(kernel.sample(calls, count))
        return np.concatenate(times)
