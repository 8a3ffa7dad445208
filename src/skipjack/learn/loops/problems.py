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
from skipjack.core.space import Space
from skipjack.errors import UsageError
from skipjack.learn.loops.game import LoopGame, MachineFacts, Preset
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.operations import get
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.solvers import refusal as solver_refusal
from skipjack.solvers.cpu.nest import ScheduleSpace

_NEST, _DIRECT_NEST = "nest", "direct_nest"


def loop_game(problem: Problem, device: Device, preset: Preset) -> LoopGame:
    """The game on a problem's nest; `UsageError` where there is none to play."""
    reason = refusal(problem, device)
    if reason:
        raise UsageError(f"problem {problem.key} is not a game of loops: {reason}")
    return space_game(loop_space(problem, device), problem.dtype, device, preset)


def space_game(space: ScheduleSpace, dtype: str, device: Device, preset: Preset) -> LoopGame:
    """The game whose states are the schedules of a space."""
    caches = tuple(size for _, size in device.caches)
    return LoopGame(
        space.nest,
        space.limits,
        preset=preset,
        threads=space.threads,
        streaming=space.streaming,
        machine=MachineFacts(space.threads, caches, DTYPES[dtype].bytes),
    )


def refusal(problem: Problem, device: Device) -> str:
    """Why a problem is not a game of loops on a device; empty if it is one."""
    if device.kind != "cpu":
        return _only_cpus(device)
    if problem.dtype not in CPU_DTYPES:
        return f"code for CPUs is generated in {listed(CPU_DTYPES)}, not in {problem.dtype}"
    operation = get(problem.operation)
    if isinstance(operation, ProgramOperation):
        return f"{problem.operation} is not a single loop nest; tune it with another searcher"
    reason = solver_refusal(loop_solver(problem), problem, device)
    return reason or space_refusal(loop_space(problem, device), device)


def space_refusal(space: Space, device: Device) -> str:
    """Why no game is on a space; empty if one is."""
    if device.kind != "cpu":
        return _only_cpus(device)
    if not isinstance(space, ScheduleSpace):
        return "its configs are not schedules of loops"
    count = sum(extent > 1 for _, extent in space.nest.loops)
    return (
        f"its nest has {count} loops; at most {MAX_LOOPS} are played" if count > MAX_LOOPS else ""
    )


def loop_solver(problem: Problem) -> BuildingSolver:
    """The solver whose configs are schedules of the problem's nest."""
    one = isinstance(get(problem.operation), NestOperation)
    solver = find_solver(_NEST if one else _DIRECT_NEST)
    assert isinstance(solver, BuildingSolver), "both build"
    return solver


def loop_space(problem: Problem, device: Device) -> ScheduleSpace:
    """All schedules of the problem's nest."""
    space = loop_solver(problem).space(problem, device)
    assert isinstance(space, ScheduleSpace), "the configs of both solvers are schedules"
    return space


def _only_cpus(device: Device) -> str:
    return f"loops are scheduled for CPUs, not for {device.name}"
