"""Who takes part: tuned kernels, what one would use without tuning, libraries, TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import metaschedule
from shapes import Shape
from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.errors import SkipjackError
from skipjack.execute.kernels import Kernel, PythonKernel
from skipjack.execute.verification import draw_inputs, judge
from skipjack.native.cpu import registers_of
from skipjack.native.memory import aligned, poison
from skipjack.operations import get, tensors
from skipjack.solvers import find_solver
from skipjack.solvers.registry import solver_for
from skipjack.solvers.solver import NativeVendorSolver, VendorSolver
from skipjack.tuning.result import TuneResult
from stand import Stand

LIBRARIES = ("numpy", "cblas", "mkl")
PEERS = (*LIBRARIES, "tvm")
"""Whom a tuned kernel is measured against."""
UNTUNED = ("default", "recipe")
"""Skipjack's own code generator without a search: its default, and one schedule for all shapes."""
_SEED = 1


@dataclass(slots=True)
class Field:
    """The contenders of one shape, all on the same arrays."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Who is not there, and why."""
    errors: dict[str, float] = field(default_factory=dict)
    """Largest error of each in units of the tolerance."""
    tvm: Mapping[str, Any] = field(default_factory=dict)
    keep: list[object] = field(default_factory=list)


def make_arrays(problem: Problem) -> dict[str, np.ndarray[Any, Any]]:
    """Random inputs and an output, each aligned to 64 bytes."""
    inputs = draw_inputs(problem, _SEED)
    arrays = {tensor.name: aligned(tensor.shape, "float32") for tensor in tensors(problem)}
    for name, values in inputs.items():
        arrays[name][...] = values
    return arrays


def line_up(shape: Shape, tuned: Mapping[str, TuneResult], stand: Stand, tvm_cache: Path) -> Field:
    """Load everyone and check everyone's result once."""
    problem = shape.problem
    arrays = make_arrays(problem)
    there = Field()
    for name, result in tuned.items():
        code = result.code
        if code is None:
            there.skipped[name] = result.reason
            continue
        there.kernels[name] = stand.load(code.data, code.symbol, code.slots, arrays)
    nest = find_solver("nest").space(problem, stand.device)
    for name, config in (("default", nest.default()), ("recipe", recipe(stand))):
        there.kernels[name] = _built(problem, config, stand, arrays)
    for name in LIBRARIES:
        _add_library(there, name, problem, stand, arrays)
    found = metaschedule.find(shape, tvm_cache, stand, arrays)
    if isinstance(found, str):
        there.skipped["tvm"] = found
    else:
        there.kernels["tvm"], there.tvm = found.kernel, found.meta
        there.keep.append(found.call)
    _check(there, problem, arrays)
    return there


def recipe(stand: Stand) -> Config:
    """One good register tile for all shapes: six rows of as many vectors as registers allow."""
    vectors = 4 if registers_of(stand.device) >= 32 else 2
    columns = vectors * (stand.device.vector_bytes // 4)
    return Config(schedule=f"m:6 n:{columns} k m/u n/v")


def _built(
    problem: Problem, config: Config, stand: Stand, arrays: dict[str, np.ndarray[Any, Any]]
) -> Kernel:
    solver = solver_for(problem, stand.device, "nest")
    blob = solver.compile(solver.lower(problem, stand.device, config))
    slots = solver.slots(problem, stand.device, config)
    return stand.load(blob.data, blob.symbol, slots, arrays)


def _add_library(
    there: Field,
    name: str,
    problem: Problem,
    stand: Stand,
    arrays: dict[str, np.ndarray[Any, Any]],
) -> None:
    solver = find_solver(name)
    reason = solver.refuses(problem, stand.device)
    if reason:
        there.skipped[name] = reason
    elif isinstance(solver, NativeVendorSolver):
        text, slots = solver.thunk(problem)
        there.kernels[name] = stand.assemble(text, slots, arrays)
    elif isinstance(solver, VendorSolver):
        there.kernels[name] = PythonKernel(solver.bind(problem, arrays))


def _check(there: Field, problem: Problem, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Against float64, with the tolerance that Skipjack itself applies."""
    operation = get(problem.operation)
    exact = {name: array.astype(np.float64) for name, array in arrays.items() if name != "out"}
    reference = operation.reference(problem, exact)
    unit = operation.tolerance(problem).factor * float(np.finfo(np.float32).eps)
    bound = operation.magnitude(problem, exact) * unit
    for name, kernel in there.kernels.items():
        poison(arrays["out"])
        kernel.call()
        verdict = judge(arrays["out"].astype(np.float64), reference, bound)
        if not verdict.right:
            raise SkipjackError(f"{name} is wrong on {problem.key}: {verdict.reason}")
        there.errors[name] = verdict.error
