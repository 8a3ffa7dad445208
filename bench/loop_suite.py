"""The loop nests on which the policy is judged, drawn by a seed; no policy is trained on them.

32 entries: 12 products (odd, thin, transposed, with bias and activation, float32 and float64, one
and two threads), 8 nests of convolutions, 8 reductions and broadcasts over awkward axes, and 4
operations of a plug-in (`loop_operations`). The kinds are fixed, so that every suite has each of
them; the seed draws the sizes, the activations and who gets two threads.

``python bench/loop_suite.py --seed 1`` prints a suite. Whoever draws problems for training leaves
out those in `held_out`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skipjack import operations, plugins
from skipjack.core import Problem
from skipjack.operations import parse

SEED = 20
"""Of the suite that published figures are for."""
PLUGIN = Path(__file__).resolve().parent / "loop_operations.py"
PLUGIN_OPERATIONS = ("stencil5", "batched_dot", "outer_sum", "pairwise_distance")
LEAST_FLOPS, MOST_FLOPS = 50e3, 100e6
"""So that a run takes microseconds at least and a few milliseconds at most: each problem is run
many thousand times."""
_ODD = (17, 23, 31, 37, 49, 61, 77, 91, 101, 113, 131, 149, 173, 197, 211, 239, 263, 311, 367)
_EVEN = tuple(range(24, 400, 8))
_TRIES = 10_000

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Entry:
    """A problem of the suite, and how many threads may work on it."""

    group: str
    problem: Problem
    threads: int

    @property
    def name(self) -> str:
        """Of one entry among all: the problem's key and the threads."""
        return f"{self.problem.key} x{self.threads}"


def load_operations() -> None:
    """Register the plug-in's operations, here and in workers that are started from now on."""
    plugins.load((str(PLUGIN),))


def suite(seed: int = SEED) -> tuple[Entry, ...]:
    """The 32 entries; the same for the same seed, and no problem twice."""
    load_operations()
    rng = np.random.default_rng(seed)
    entries: list[Entry] = []
    for group, drawers in _GROUPS.items():
        second = set(rng.permutation(len(drawers))[: len(drawers) // 2].tolist())
        for at, draw in enumerate(drawers):
            taken = {entry.problem.key for entry in entries}
            problem = _new(draw, taken, rng)
            entries.append(Entry(group, problem, 2 if at in second else 1))
    return tuple(entries)


def held_out(seed: int = SEED) -> set[str]:
    """The keys of the suite's problems, which nobody may train on."""
    return {entry.problem.key for entry in suite(seed)}


def held_out_operation(problem: Problem) -> bool:
    """Whether a problem's operation is one of the plug-in: these are in no training set at all."""
    return problem.operation in PLUGIN_OPERATIONS


def _new(draw: Callable[[Rng], str], taken: set[str], rng: Rng) -> Problem:
    """A problem that is not in the suite yet and neither tiny nor long."""
    for _ in range(_TRIES):
        problem = parse(draw(rng))
        flops = operations.get(problem.operation).flops(problem)
        if problem.key not in taken and LEAST_FLOPS <= flops <= MOST_FLOPS:
            return problem
    raise AssertionError(f"{draw(rng)}: no problem of this kind has a fitting size")


def _one(rng: Rng, values: Sequence[int]) -> int:
    return int(values[int(rng.integers(len(values)))])


def _word(rng: Rng, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _odd_product(dtype: str) -> Callable[[Rng], str]:
    return lambda rng: f"matmul:{_one(rng, _ODD)}x{_one(rng, _ODD)}x{_one(rng, _ODD)}:{dtype}"


def _thin_product(which: str, dtype: str) -> Callable[[Rng], str]:
    """One with few rows, few columns, or a short reduction."""

    def draw(rng: Rng) -> str:
        thin, wide = int(rng.integers(1, 13)), rng.integers(200, 1400, 2)
        sizes = {"m": (thin, *wide), "n": (wide[0], thin, wide[1]), "k": (*wide, thin)}[which]
        return f"matmul:{'x'.join(map(str, sizes))}:{dtype}"

    return draw


def _turned_product(attributes: str, dtype: str) -> Callable[[Rng], str]:
    def draw(rng: Rng) -> str:
        m, n, k = (_one(rng, _EVEN + _ODD) for _ in range(3))
        return f"matmul:{m}x{n}x{k}/{attributes}:{dtype}"

    return draw


def _finished_product(dtype: str) -> Callable[[Rng], str]:
    def draw(rng: Rng) -> str:
        m, n, k = (_one(rng, _EVEN + _ODD) for _ in range(3))
        act = _word(rng, ("relu", "gelu", "gelu_tanh", "sigmoid", "silu", "tanh"))
        return f"matmul:{m}x{n}x{k}/bias=1/act={act}:{dtype}"

    return draw


def _batch(rng: Rng) -> str:
    b, m, n, k = _one(rng, range(2, 17)), *(_one(rng, _ODD[:12]) for _ in range(3))
    return f"bmm:{b}x{m}x{n}x{k}:f32"


def _convolution(filters: int, stride: int, layout: str, dtype: str) -> Callable[[Rng], str]:
    def draw(rng: Rng) -> str:
        channels, kernels = _one(rng, (3, 8, 13, 16, 24, 32, 48)), _one(rng, (16, 20, 32, 48, 64))
        size = int(rng.integers(9, 40))
        pads = f"p{filters // 2}q{filters // 2}" if filters > 1 else ""
        strides = f"u{stride}v{stride}" if stride > 1 else ""
        shape = f"n1c{channels}h{size}w{size}k{kernels}y{filters}x{filters}{pads}{strides}"
        return f"conv2d:{shape}:{dtype}:{layout}:fwd"

    return draw


def _shape_of(sizes: Sequence[int]) -> str:
    return "x".join(str(int(size)) for size in sizes)


def _reduction(names: Sequence[str], axes: str, dtype: str) -> Callable[[Rng], str]:
    """Of three axes, of which those in the text are reduced."""

    def draw(rng: Rng) -> str:
        shape = _shape_of((_one(rng, _ODD[:10]), _one(rng, _ODD), _one(rng, _ODD)))
        return f"{_word(rng, names)}:{shape}/axis={axes}:{dtype}"

    return draw


def _broadcast(kept: tuple[bool, bool, bool], dtype: str) -> Callable[[Rng], str]:
    """Two operands, the second with one element along some of the axes."""

    def draw(rng: Rng) -> str:
        sizes = (_one(rng, _ODD[:10]), _one(rng, _ODD), _one(rng, _ODD))
        second = [size if keep else 1 for size, keep in zip(sizes, kept, strict=True)]
        name = _word(rng, ("add", "sub", "mul", "div", "maximum", "minimum"))
        return f"{name}:{_shape_of(sizes)}/y={_shape_of(second)}:{dtype}"

    return draw


def _plugin(name: str, *ranges: tuple[int, int]) -> Callable[[Rng], str]:
    def draw(rng: Rng) -> str:
        shape = _shape_of([int(rng.integers(low, high)) for low, high in ranges])
        return f"{name}:{shape}:{_word(rng, ('f32', 'f64'))}"

    return draw


_SUMS, _EXTREMES = ("sum", "mean", "sumsq", "norm"), ("max", "min", "absmax")
_GROUPS: dict[str, tuple[Callable[[Rng], str], ...]] = {
    "products": (
        *(_odd_product("f32"), _odd_product("f32"), _odd_product("f64")),
        *(_thin_product("m", "f32"), _thin_product("n", "f32"), _thin_product("k", "f64")),
        *(_turned_product("ta=1", "f32"), _turned_product("tb=1", "f32")),
        _turned_product("ta=1/tb=1", "f64"),
        *(_finished_product("f32"), _finished_product("f64")),
        _batch,
    ),
    "convolutions": (
        *(_convolution(1, 1, "NHWC", "f32"), _convolution(1, 2, "NCHW", "f32")),
        *(_convolution(3, 1, "NHWC", "f32"), _convolution(3, 1, "NCHW", "f32")),
        *(_convolution(3, 2, "NHWC", "f32"), _convolution(3, 1, "NHWC", "f64")),
        *(_convolution(5, 1, "NHWC", "f32"), _convolution(7, 2, "NCHW", "f32")),
    ),
    "vectors": (
        *(_reduction(_SUMS, "0,2", "f32"), _reduction(_SUMS, "1", "f32")),
        *(_reduction(_EXTREMES, "0", "f32"), _reduction(_EXTREMES, "1,2", "f64")),
        *(_broadcast((False, True, False), "f32"), _broadcast((True, False, True), "f32")),
        *(_broadcast((True, True, False), "f64"), _broadcast((False, False, True), "f32")),
    ),
    "plug-in": (
        _plugin("stencil5", (60, 700), (60, 900)),
        _plugin("batched_dot", (20, 900), (30, 900)),
        _plugin("outer_sum", (60, 900), (60, 900)),
        _plugin("pairwise_distance", (30, 300), (30, 300), (3, 200)),
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    for entry in suite(options.seed):
        print(f"{entry.group:13}{entry.threads}  {entry.problem.key}")


if __name__ == "__main__":
    main()
