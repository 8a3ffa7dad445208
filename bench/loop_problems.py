"""Problems on which policies for loop nests are trained, drawn without end by a seed.

The kinds are those of `loop_suite`: products (odd, thin, transposed, with bias and activation,
batched), convolutions, reductions and broadcasts over awkward axes, maps, and nests of a plug-in
(`loop_nests`). No problem of a suite is among them: see `_could_be_held_out`.

``python bench/loop_problems.py --seed 1 --count 40`` prints some.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import loop_suite
from skipjack import operations, plugins
from skipjack.core import Problem
from skipjack.operations import parse

PLUGIN = Path(__file__).resolve().parent / "loop_nests.py"
LEAST_FLOPS, MOST_FLOPS = 40e3, 30e6
"""So that a bad schedule does not take long either."""
MOST_ELEMENTS = 1 << 21
SUITES = 100
"""Suites of as many first seeds are left out problem by problem."""
_SUITES_SIZES = frozenset((*loop_suite._ODD, *loop_suite._EVEN))
_CHANNELS = (4, 5, 6, 10, 12, 20, 28, 40, 56, 64)
_KERNELS = (12, 24, 28, 40, 56, 72, 80, 96)
_WORDS = ("relu", "gelu", "gelu_tanh", "sigmoid", "silu", "tanh")
_MAPS = (
    *("abs", "exp", "gelu", "log", "neg", "relu", "sigmoid", "silu", "sqrt", "square", "tanh"),
    *("add", "div", "maximum", "mul", "sub", "scale"),
)

Rng = np.random.Generator


def load_operations() -> None:
    """Register the plug-in's operations, here and in workers that are started from now on."""
    plugins.load((str(PLUGIN),))


def problems(seed: int) -> Iterator[Problem]:
    """One problem after another, none twice."""
    load_operations()
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    while True:
        for drawer in rng.permutation(len(_DRAWERS)):
            problem = _fitting(_DRAWERS[int(drawer)], rng, seen)
            seen.add(problem.key)
            yield problem


def _fitting(draw: Callable[[Rng], str], rng: Rng, seen: set[str]) -> Problem:
    while True:
        problem = parse(draw(rng))
        operation = operations.get(problem.operation)
        elements = sum(tensor.size for tensor in operation.inputs(problem))
        fits = LEAST_FLOPS <= operation.flops(problem) <= MOST_FLOPS and elements <= MOST_ELEMENTS
        if fits and problem.key not in seen and not _could_be_held_out(problem):
            return problem


def _could_be_held_out(problem: Problem) -> bool:
    """Whether a suite may hold it; rather too often than too seldom.

    Suites draw the sizes of products, reductions and broadcasts from two lists, the kernels of
    convolutions from a list without those here, and have operations of their own. The sizes of
    their thin products are of so many that only those of the first suites are left out by name.
    """
    if loop_suite.held_out_operation(problem) or problem.key in _held_out():
        return True
    sizes = problem.shape[1:] if problem.operation == "bmm" else problem.shape
    return all(size in _SUITES_SIZES for size in sizes)


@functools.cache
def _held_out() -> frozenset[str]:
    return frozenset(key for seed in range(SUITES) for key in loop_suite.held_out(seed))


def _size(rng: Rng, low: int, high: int) -> int:
    """Between two sizes, evenly in the logarithm; every third is a multiple of 8 or 16."""
    size = int(np.exp(rng.uniform(np.log(low), np.log(high))))
    multiple = (1, 1, 1, 1, 8, 16)[int(rng.integers(6))]
    return max(low, size // multiple * multiple) if multiple < size else size


def _dtype(rng: Rng) -> str:
    return ("f32", "f32", "f64")[int(rng.integers(3))]


def _word(rng: Rng, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _product(rng: Rng) -> str:
    return f"matmul:{_shape([_size(rng, 9, 420) for _ in range(3)])}:{_dtype(rng)}"


def _thin(rng: Rng) -> str:
    sizes = [_size(rng, 60, 1900) for _ in range(3)]
    sizes[int(rng.integers(3))] = int(rng.integers(1, 17))
    return f"matmul:{_shape(sizes)}:{_dtype(rng)}"


def _turned(rng: Rng) -> str:
    turns = ("ta=1", "tb=1", "ta=1/tb=1")[int(rng.integers(3))]
    return f"matmul:{_shape([_size(rng, 9, 420) for _ in range(3)])}/{turns}:{_dtype(rng)}"


def _finished(rng: Rng) -> str:
    sizes = _shape([_size(rng, 9, 420) for _ in range(3)])
    turns = ("", "", "/ta=1", "/tb=1")[int(rng.integers(4))]
    return f"matmul:{sizes}{turns}/bias=1/act={_word(rng, _WORDS)}:{_dtype(rng)}"


def _batch(rng: Rng) -> str:
    sizes = [int(rng.integers(2, 25)), *(_size(rng, 9, 160) for _ in range(3))]
    return f"bmm:{_shape(sizes)}:{_dtype(rng)}"


def _convolution(rng: Rng) -> str:
    taps = (1, 1, 3, 3, 3, 5, 7)[int(rng.integers(7))]
    stride = (1, 1, 2)[int(rng.integers(3))]
    channels, kernels = int(rng.choice(_CHANNELS)), int(rng.choice(_KERNELS))
    size = int(rng.integers(max(7, taps), 44))
    pads = f"p{taps // 2}q{taps // 2}" if taps > 1 else ""
    strides = f"u{stride}v{stride}" if stride > 1 else ""
    shape = f"n1c{channels}h{size}w{size}k{kernels}y{taps}x{taps}{pads}{strides}"
    return f"conv2d:{shape}:{_dtype(rng)}:{_word(rng, ('NHWC', 'NCHW'))}:fwd"


def _reduction(rng: Rng) -> str:
    rank = int(rng.integers(1, 4))
    low, high = {1: (40_000, 1_000_000), 2: (20, 2000), 3: (7, 300)}[rank]
    sizes = [_size(rng, low, high) for _ in range(rank)]
    reduced = [axis for axis in range(rank) if rng.random() < 0.5] or [int(rng.integers(rank))]
    name = _word(rng, ("sum", "mean", "sumsq", "norm", "max", "min", "absmax", "prod"))
    return f"{name}:{_shape(sizes)}/axis={','.join(map(str, reduced))}:{_dtype(rng)}"


def _broadcast(rng: Rng) -> str:
    sizes = [_size(rng, 7, 300) for _ in range(int(rng.integers(2, 4)))]
    second = [size if rng.random() < 0.5 else 1 for size in sizes]
    name = _word(rng, ("add", "sub", "mul", "div", "maximum", "minimum"))
    return f"{name}:{_shape(sizes)}/y={_shape(second)}:{_dtype(rng)}"


def _map(rng: Rng) -> str:
    return f"{_word(rng, _MAPS)}:{_size(rng, 40_000, 900_000)}:{_dtype(rng)}"


def _plugin(rng: Rng) -> str:
    ranges: dict[str, tuple[tuple[int, int], ...]] = {
        "stencil3": ((20, 900), (20, 900)),
        "window_sum": ((16, 200), (16, 200), (2, 7), (2, 7)),
        "line_conv": ((4, 90), (3, 40), (30, 700), (2, 9)),
        "weighted_rows": ((20, 1500), (20, 1500)),
        "triple_dot": ((10, 1500), (20, 1500)),
        "rank_one": ((20, 900), (20, 900)),
        "contraction": ((9, 120), (9, 120), (4, 40), (4, 40)),
        "min_plus": ((9, 250), (9, 250), (9, 250)),
    }
    name = _word(rng, tuple(ranges))
    sizes = [_size(rng, low, high) for low, high in ranges[name]]
    if name == "window_sum":
        sizes[3] = sizes[2]
    return f"{name}:{_shape(sizes)}:{_dtype(rng)}"


_DRAWERS: tuple[Callable[[Rng], str], ...] = (
    *(_product, _product, _thin, _thin, _turned, _turned, _turned, _finished, _finished, _batch),
    *(_convolution, _convolution, _convolution, _convolution, _convolution),
    *(_reduction, _reduction, _reduction, _reduction, _broadcast, _broadcast, _broadcast, _map),
    *(_plugin, _plugin, _plugin, _plugin),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    options = parser.parse_args(arguments)
    for problem, _ in zip(problems(options.seed), range(options.count), strict=False):
        print(problem.key)


if __name__ == "__main__":
    main()
