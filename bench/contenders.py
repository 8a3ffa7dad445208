"""Who takes part: tuned kernels, what one would use without tuning, libraries, TVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import metaschedule
import torch_calls
from shapes import Shape
from skipjack.core import Array, Config, Problem
from skipjack.errors import SkipjackError
from skipjack.execute import draw_inputs
from skipjack.execute.cpu.kernels import Kernel, PythonKernel
from skipjack.execute.verification import judge
from skipjack.native import aligned, poison, registers_of
from skipjack.operations import get, tensors
from skipjack.solvers import NativeVendorSolver, VendorSolver, find_solver, refusal, solver_for
from skipjack.solvers.vendor.tvm import read_record
from skipjack.tuning.study import TuneResult
from stand import Stand

LIBRARIES = ("numpy", "cblas", "mkl")
PEERS = (*LIBRARIES, "tvm")
"""Whom a tuned kernel is measured against."""
UNTUNED = ("default", "recipe")
"""Skipjack's own code generator without a search: its default, and one schedule for all shapes."""
PAGE = 4096
"""Alignment of large arrays.

At some other distances in a page loads seem to overlap the stores before them: left to chance, the
time of one kernel doubles from one run to the next.
"""
_SEED = 1
_ALIKE_ELEMENTS = 1 << 20


@dataclass(slots=True)
class Field:
    """The contenders of one shape, all on the same arrays."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Who is not there, and why."""
    errors: dict[str, float] = field(default_factory=dict)
    """Largest error of each in units of the tolerance."""
    tvm: Mapping[str, Any] = field(default_factory=dict)


def make_arrays(problem: Problem, alignment: int = 64, stagger: int = 0) -> dict[str, Array]:
    """Random inputs and an output, aligned; each begins `stagger` bytes later than the one before.

    Without it large arrays begin at the same place of a page, as the allocator puts them.
    """
    inputs = draw_inputs(problem, _SEED)
    arrays = {}
    for number, tensor in enumerate(tensors(problem)):
        skipped = number * stagger // 4
        room = aligned((tensor.size + skipped,), "float32", alignment)
        arrays[tensor.name] = room[skipped:].reshape(tensor.shape)
    for name, values in inputs.items():
        arrays[name][...] = values
    return arrays


def line_up(shape: Shape, tuned: Mapping[str, TuneResult], stand: Stand, tvm_cache: Path) -> Field:
    """Load everyone and check everyone's result once."""
    problem = shape.problem
    arrays = make_arrays(problem)
    there = Field()
    for name, result in tuned.items():
        add_tuned(there, name, result, stand, arrays)
    nest = find_solver("nest").space(problem, stand.device)
    for name, config in (("default", nest.default()), ("recipe", recipe(stand))):
        there.kernels[name] = build_nest(problem, config, stand, arrays)
    for name in LIBRARIES:
        add_library(there, name, problem, stand, arrays)
    add_tvm(there, problem, stand, arrays, tvm_cache)
    check(there, problem, arrays)
    return there


def add_tuned(
    there: Field, name: str, result: TuneResult, stand: Stand, arrays: dict[str, Array]
) -> None:
    """The kernel that a tuning found."""
    code = result.code
    if code is None:
        there.skipped[name] = result.reason
    else:
        there.kernels[name] = stand.load(code.data, code.symbol, code.slots, arrays)


def recipe(stand: Stand) -> Config:
    """One good register tile for all shapes: six rows of as many vectors as registers allow."""
    vectors = 4 if registers_of(stand.device) >= 32 else 2
    columns = vectors * (stand.device.vector_bytes // 4)
    return Config(schedule=f"m:6 n:{columns} k m/u n/v")


def build_nest(problem: Problem, config: Config, stand: Stand, arrays: dict[str, Array]) -> Kernel:
    """A loop nest under the schedule of a config."""
    solver = solver_for(problem, stand.device, "nest")
    blob = solver.compile(solver.lower(problem, stand.device, config))
    slots = solver.slots(problem, stand.device, config)
    return stand.load(blob.data, blob.symbol, slots, arrays)


def add_library(
    there: Field, name: str, problem: Problem, stand: Stand, arrays: dict[str, Array]
) -> None:
    """A library's function, if it is there and can do the problem."""
    if name == "torch":
        _add_torch(there, problem, stand, arrays)
        return
    solver = find_solver(name)
    reason = refusal(solver, problem, stand.device)
    if reason:
        there.skipped[name] = reason
    elif isinstance(solver, NativeVendorSolver):
        text, slots = solver.thunk(problem)
        there.kernels[name] = stand.assemble(text, slots, arrays)
    elif isinstance(solver, VendorSolver):
        there.kernels[name] = PythonKernel(solver.bind(problem, arrays))


def add_tvm(
    there: Field, problem: Problem, stand: Stand, arrays: dict[str, Array], folder: Path
) -> None:
    """The kernel that MetaSchedule found, where the folder has one."""
    metaschedule.use_kernels(folder)
    add_library(there, "tvm", problem, stand, arrays)
    record = read_record(folder, problem)
    if "tvm" in there.kernels and record is not None:
        there.tvm = record.meta


def _add_torch(there: Field, problem: Problem, stand: Stand, arrays: dict[str, Array]) -> None:
    found = torch_calls.bind(problem, arrays, len(stand.cores))
    if isinstance(found, str):
        there.skipped["torch"] = found
        return
    there.kernels["torch"] = PythonKernel(found)


def check(there: Field, problem: Problem, arrays: dict[str, Array]) -> None:
    """Against float64, with the tolerance that Skipjack itself applies."""
    operation = get(problem.operation)
    inputs = [tensor.name for tensor in operation.inputs(problem)]
    exact = {name: arrays[name].astype(np.float64) for name in inputs}
    reference = operation.reference(problem, exact)
    unit = operation.tolerance(problem).factor * float(np.finfo(np.float32).eps)
    bound = operation.magnitude(problem, exact) * unit
    for name in there.kernels:
        verdict = judge(_result(there, name, arrays).astype(np.float64), reference, bound)
        if not verdict.right:
            raise SkipjackError(f"{name} is wrong on {problem.key}: {verdict.reason}")
        there.errors[name] = verdict.error


def check_alike(there: Field, problem: Problem, arrays: dict[str, Array], leader: str) -> None:
    """Against one of them, which the tuner has verified: where a reference would take minutes."""
    every = max(1, arrays["out"].size // _ALIKE_ELEMENTS)
    right = _result(there, leader, arrays).ravel()[::every].copy()
    room = 1e-3 * float(np.abs(right).max())
    for name in there.kernels:
        found = _result(there, name, arrays).ravel()[::every]
        if not np.allclose(found, right, rtol=1e-3, atol=room):
            raise SkipjackError(f"{name} and {leader} differ on {problem.key}")


def _result(there: Field, name: str, arrays: dict[str, Array]) -> Array:
    poison(arrays["out"])
    there.kernels[name].call()
    return arrays["out"]
