"""Problems like those that were measured, for a heuristic to imitate its ranker on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from skipjack.core import Problem
from skipjack.errors import SkipjackError
from skipjack.operations import Convolution, Matmul, get, parse

_DOUBLINGS = 0.9
"""How far sizes are drawn from those of a measured problem."""
_STEPS = (1, 1, 4, 8, 16, 32, 64)
"""Sizes are rounded to multiples of one of these, as they often are in programs."""
_TRIES = 20


def varied(problems: Sequence[Problem], each: int) -> Iterator[Problem]:
    """Up to `each` other problems like each of these, with other sizes.

    They depend on the problem alone, so that fits which leave some out share what they compute.
    """
    known = set(problems)
    for one in problems:
        rng = np.random.default_rng(zlib.crc32(one.key.encode()))
        found = 0
        for _ in range(each * _TRIES):
            if found >= each:
                break
            with suppress(SkipjackError):
                other = _other_sizes(one, rng)
                if other is not None and other not in known:
                    known.add(other)
                    found += 1
                    yield other


def _other_sizes(problem: Problem, rng: np.random.Generator) -> Problem | None:
    operation = get(problem.operation)
    if isinstance(operation, Matmul):
        shape = tuple(_size(size, rng) for size in problem.shape)
        return replace(problem, shape=shape)
    if not isinstance(operation, Convolution):
        return None
    sizes = dict(zip(operation.letters, problem.shape, strict=True))
    depthwise = sizes["g"] == sizes["c"] > 1
    multiplier = sizes["k"] // sizes["c"]
    for letter in set("nckdhw") & set(sizes):
        sizes[letter] = _size(sizes[letter], rng)
    if "h" in sizes and rng.random() < 0.8:
        sizes["h"] = sizes["w"]
    if depthwise:
        sizes["g"] = sizes["c"]
        sizes["k"] = sizes["c"] * max(1, multiplier)
    for letter in "ck":
        sizes[letter] = -(-sizes[letter] // sizes["g"]) * sizes["g"]
    # Parsing refuses sizes that have no result.
    text = "".join(f"{letter}{sizes[letter]}" for letter in operation.letters)
    named = "".join(f"/{name}={value}" for name, value in problem.attributes)
    rest = (problem.dtype, problem.layout, problem.direction)
    return parse(":".join([problem.operation, text + named, *rest]))


def _size(size: int, rng: np.random.Generator) -> int:
    if size < 4:
        return size if rng.random() < 0.7 else int(rng.integers(1, 5))
    if rng.random() < 0.25:
        return size
    drawn = size * 2 ** float(rng.uniform(-_DOUBLINGS, _DOUBLINGS))
    step = int(rng.choice(_STEPS))
    return max(1, round(drawn / step) * step if drawn > 2 * step else round(drawn))
