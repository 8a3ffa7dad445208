"""From problems to games: which nest is played, and within which limits.

A game is on the nest of an operation that is a single one. Row programs, packed products and
kernels of GPUs are parameter spaces, which other searchers are for.
"""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.core.dtypes import CPU_DTYPES, DTYPES, listed
from skipjack.core.nest import Nest
from skipjack.core.operation import NestOperation
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops.game import LoopGame, MachineFacts, Preset
from skipjack.learn.loops.legal import MAX_LOOPS
from skipjack.native.cpu import registers_of
from skipjack.operations import get
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace


def loop_game(
    problem: Problem, device: Device, preset: Preset, *, start: Schedule | None = None
) -> LoopGame:
    """The game on a problem's nest; `UsageError` where there is none to play."""
    reason = refusal(problem, device)
    if reason:
        raise UsageError(f"problem {problem.key} is not a game of loops: {reason}")
    item = DTYPES[problem.dtype].bytes
    caches = tuple(size for _, size in device.caches)
    nest, lanes = _nest(problem), device.vector_bytes // item
    space = ScheduleSpace(
        nest,
        lanes,
        registers_of(device),
        threads=device.units,
        cache_elements=max(caches, default=0) // item,
    )
    return LoopGame(
        nest,
        space.limits,
        preset=preset,
        threads=device.units,
        streaming=space.streaming,
        start=start,
        machine=MachineFacts(device.units, caches, item),
    )


def refusal(problem: Problem, device: Device) -> str:
    """Why a problem is not a game of loops on a device; empty if it is one."""
    if device.kind != "cpu":
        return f"schedules of loops are for CPUs, not for {device.name}"
    if problem.dtype not in CPU_DTYPES:
        return f"code for CPUs is generated in {listed(CPU_DTYPES)}, not in {problem.dtype}"
    if not isinstance(get(problem.operation), NestOperation):
        return f"{problem.operation} is not a single loop nest; tune it with another searcher"
    count = sum(extent > 1 for _, extent in _nest(problem).loops)
    return f"it has {count} loops, at most {MAX_LOOPS} are played" if count > MAX_LOOPS else ""


def _nest(problem: Problem) -> Nest:
    operation = get(problem.operation)
    assert isinstance(operation, NestOperation), "refused before"
    return operation.nest(problem)
