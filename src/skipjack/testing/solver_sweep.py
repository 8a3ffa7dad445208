"""Tests all solvers on many random problems: what a solver does not refuse, it must support.

``python -m skipjack.testing.solver_sweep --problems 5000 --seed 1 [--plugin my_solver.py]`` prints
each fault with the problem that shows it. No kernel is compiled or run: spaces, configs, slots and
generated text are created, as in `tune` and `find` before anything is built.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from skipjack import plugins
from skipjack.core import Device, Problem, Promising
from skipjack.errors import ProblemError
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import BuildingSolver, RacingSolver, Solver, all_solvers, supports_device

DEVICES = ("nehalem/1", "haswell/1", "haswell/3", "skylake-avx512/1", "neoverse-n1/2")
"""Vectors of 16, 32 and 64 bytes, 16 and 32 registers, one thread and several."""
_SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 64, 100, 128, 255, 256, 1000)
_UNARY = ("relu", "gelu", "exp", "tanh", "sigmoid")
_BINARY = ("add", "maximum", "bias", "relu_backward", "gelu_backward")
_REDUCTIONS = ("sum", "max", "mean")
_ROWS = (
    *("softmax", "logsoftmax", "layernorm", "rmsnorm"),
    *("softmax_backward", "logsoftmax_backward", "layernorm_backward"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a solver, and the problem that shows it."""

    problem: str
    device: str
    solver: str
    what: str

    def __str__(self) -> str:
        return f"{self.solver} on {self.device}: {self.problem}: {self.what}"


def random_problem(rng: np.random.Generator) -> Problem:
    """A problem of any family of operations on CPUs; half of them are convolutions."""
    while True:
        text = _convolution(rng) if rng.random() < 0.5 else _other(rng)
        try:
            return parse(f"{text}:{_one_of(rng, ('f32', 'f64'))}")
        except ProblemError:
            continue  # a filter larger than its image, for one


def faults(problem: Problem, device: Device, rng: np.random.Generator) -> Iterator[Fault]:
    """The faults of all solvers for a problem."""
    able = 0
    for solver in all_solvers():
        if not _is_for(solver, problem, device):
            continue
        try:
            if solver.refuses(problem, device):
                continue
            able += 1
            wrong = _wrong(solver, problem, device, rng)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            yield Fault(problem.key, device.name, solver.name, wrong)
    if not able:
        yield Fault(problem.key, device.name, "none", "no solver can do it")


def _is_for(solver: Solver, problem: Problem, device: Device) -> TypeGuard[BuildingSolver]:
    building = isinstance(solver, BuildingSolver)
    return building and supports_device(solver, device) and problem.dtype in solver.dtypes


def _wrong(
    solver: BuildingSolver, problem: Problem, device: Device, rng: np.random.Generator
) -> str:
    if isinstance(solver, RacingSolver) and not solver.promise(problem, device) >= 0.0:
        return "its promise is negative"
    space = solver.space(problem, device)
    configs = [space.default(), space.sample(rng)]
    if isinstance(space, Promising):
        configs += space.promising(3)
    for config in configs:
        if not space.contains(config):
            return f"{config} is not in its own space"
    for config in configs[:2]:
        solver.slots(problem, device, config)
        if not solver.lower(problem, device, config).text:
            return f"{config} has no source"
    return ""


def _convolution(rng: np.random.Generator) -> str:
    flat = rng.random() < 0.8
    name = f"conv{'_transpose' if rng.random() < 0.15 else ''}{2 if flat else 3}d"
    groups, c, k = _channels(rng)
    sides = "hw" if flat else "dhw"
    image = "".join(f"{side}{_one_of(rng, (1, 2, 4, 7, 9, 14, 28, 57))}" for side in sides)
    filters = "".join(f"{tap}{_taps(rng)}" for tap in ("yx" if flat else "zyx"))
    pads = "".join(f"{pad}{rng.integers(0, 4)}" for pad in ("pq" if flat else "opq"))
    strides = "".join(f"{step}{_mostly_one(rng, 4)}" for step in ("uv" if flat else "tuv"))
    dilations = "".join(f"{gap}{_mostly_one(rng, 3)}" for gap in ("lj" if flat else "ilj"))
    layout = _one_of(rng, ("NHWC", "NCHW") if flat else ("NDHWC", "NCDHW"))
    shape = f"n{_one_of(rng, (1, 2, 4, 16))}c{c}{image}k{k}{filters}{pads}{strides}{dilations}"
    return f"{name}:{shape}g{groups}:{layout}:{_one_of(rng, ('fwd', 'bwd', 'wrw'))}"


def _channels(rng: np.random.Generator) -> tuple[int, int, int]:
    """Groups, channels of the image and of the result: plain, grouped or depthwise."""
    kind = rng.random()
    if kind < 0.5:
        return 1, int(_one_of(rng, _SIZES)), int(_one_of(rng, _SIZES))
    groups = int(_one_of(rng, (2, 3, 8, 24, 32)))
    if kind < 0.75:
        return groups, groups * int(rng.integers(1, 9)), groups * int(rng.integers(1, 9))
    return groups, groups, groups * int(_one_of(rng, (1, 1, 2)))


def _taps(rng: np.random.Generator) -> int:
    return int(_one_of(rng, (1, 1, 2, 3, 3, 3, 4, 5, 7, 11)))


def _mostly_one(rng: np.random.Generator, most: int) -> int:
    return 1 if rng.random() < 0.6 else int(rng.integers(1, most + 1))


def _other(rng: np.random.Generator) -> str:
    def size() -> str:
        return _one_of(rng, _SIZES)

    kind = int(rng.integers(6))
    if kind == 0:
        flags = "".join(f"/{flag}=1" for flag in ("ta", "tb", "bias") if rng.random() < 0.3)
        return f"matmul:{size()}x{size()}x{size()}{flags}"
    if kind == 1:
        return f"bmm:{rng.integers(1, 5)}x{size()}x{size()}x{size()}"
    if kind == 2:
        return f"{_one_of(rng, (*_UNARY, *_BINARY))}:{size()}x{size()}"
    if kind == 3:
        axes = _one_of(rng, ("0", "1", "2", "0,1", "0,2", "1,2", "0,1,2"))
        return f"{_one_of(rng, _REDUCTIONS)}:{size()}x{rng.integers(1, 40)}x{size()}/axis={axes}"
    if kind == 4:
        return f"{_one_of(rng, _ROWS)}:{size()}x{size()}"
    mode = _one_of(rng, ("train", "infer", "backward"))
    return f"batchnorm:n{rng.integers(1, 9)}c{size()}h{rng.integers(1, 30)}w7/mode={mode}"


def _one_of(rng: np.random.Generator, values: Sequence[object]) -> str:
    return str(values[int(rng.integers(len(values)))])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep, print faults as they are found, and their number."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plugin", action="append", default=[], help="a module or .py file")
    chosen = parser.parse_args(arguments)
    plugins.load(tuple(chosen.plugin))
    rng = np.random.default_rng(chosen.seed)
    devices = [describe(name) for name in DEVICES]
    count = 0
    for _ in range(chosen.problems):
        problem = random_problem(rng)
        for fault in faults(problem, devices[int(rng.integers(len(devices)))], rng):
            count += 1
            print(fault, flush=True)
    print(f"{chosen.problems} problems, {count} faults", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
