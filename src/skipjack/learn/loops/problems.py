"""From problems to games: which nest is played, and within which limits.

A game is on the nest of an operation that is a single one, or on the nest of a direct convolution
between its copies, whose packing is fixed. Row programs, packed products and kernels of GPUs are
parameter spaces, which other searchers are for.
"""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.core.dtypes import CPU_DTYPES, DTYPES, listed
from skipjack.core.operation import NestOperation, ProgramOperation
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops.game import LoopGame, MachineFacts, Preset
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.operations import get
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.solvers import refusal as solver_refusal
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

_NEST, _DIRECT_NEST = "nest", "direct_nest"


def loop_game(
    problem: Problem, device: Device, preset: Preset, *, start: Schedule | None = None
) -> LoopGame:
    """The game on a problem's nest; `UsageError` where there is none to play."""
    reason = refusal(problem, device)
    if reason:
        raise UsageError(f"problem {problem.key} is not a game of loops: {reason}")
    space = _space(problem, device)
    caches = tuple(size for _, size in device.caches)
    return LoopGame(
        space.nest,
        space.limits,
        preset=preset,
        threads=space.threads,
        streaming=space.streaming,
        start=start,
        machine=MachineFacts(device.units, caches, DTYPES[problem.dtype].bytes),
    )


def refusal(problem: Problem, device: Device) -> str:
    """Why a problem is not a game of loops on a device; empty if it is one."""
    if device.kind != "cpu":
        return f"schedules of loops are for CPUs, not for {device.name}"
    if problem.dtype not in CPU_DTYPES:
        return f"code for CPUs is generated in {listed(CPU_DTYPES)}, not in {problem.dtype}"
    operation = get(problem.operation)
    if isinstance(operation, ProgramOperation):
        return f"{problem.operation} is not a single loop nest; tune it with another searcher"
    reason = solver_refusal(loop_solver(problem), problem, device)
    if reason:
        return reason
    count = sum(extent > 1 for _, extent in _space(problem, device).nest.loops)
    return f"it has {count} loops, at most {MAX_LOOPS} are played" if count > MAX_LOOPS else ""


def loop_solver(problem: Problem) -> BuildingSolver:
    """The solver whose configs are schedules of the problem's nest."""
    one = isinstance(get(problem.operation), NestOperation)
    solver = find_solver(_NEST if one else _DIRECT_NEST)
    assert isinstance(solver, BuildingSolver), "both build"
    return solver


def _space(problem: Problem, device: Device) -> ScheduleSpace:
    space = loop_solver(problem).space(problem, device)
    assert isinstance(space, ScheduleSpace), "the configs of both solvers are schedules"
    return space
