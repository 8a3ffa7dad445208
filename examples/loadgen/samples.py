"""The data set: rows of word numbers, the same for everybody who knows the seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from shape import ENCODER, Shape

COUNT = 1024
"""Samples in the data set; LoadGen picks from them."""

Tokens = NDArray[np.int64]


def make_samples(count: int = COUNT, seed: int = 1, shape: Shape = ENCODER) -> Tokens:
    """The first samples of the data set."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, shape.words, (count, shape.tokens), dtype=np.int64)
