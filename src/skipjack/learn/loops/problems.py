"""The game of a problem: its nest, and the limits of its schedules; LoopTune's benchmark files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.core import (
    CPU_DTYPES,
    DTYPES,
    Device,
    NestOperation,
    Problem,
    ProgramOperation,
    Space,
    listed,
)
from skipjack.errors import MalformedError, UsageError
from skipjack.learn.loops.game import LoopGame, MachineFacts, Preset
from skipjack.learn.loops.legal_actions import MAX_LOOPS
from skipjack.operations import get, parse
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.solvers import refusal as solver_refusal
from skipjack.solvers.cpu.nest import ScheduleSpace

# The game of a problem: its nest, and the limits of its schedules.
#
# A game is on the nest of an operation that is a single nest, or on the nest of a direct
# convolution with fixed packing. Row programs, packed products and GPU kernels are parameter
# spaces, which other searchers search.

_NEST, _DIRECT_NEST = "nest", "direct_nest"


def loop_game(problem: Problem, device: Device, preset: Preset) -> LoopGame:
    """The game on a problem's nest; `UsageError` if there is none."""
    reason = refusal(problem, device)
    if reason:
        raise UsageError(f"problem {problem.key} cannot be played: {reason}")
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
    """Why a problem cannot be played on a device; empty if it can."""
    if device.kind != "cpu":
        return _only_cpus(device)
    if problem.dtype not in CPU_DTYPES:
        return f"code for CPUs can be generated in {listed(CPU_DTYPES)}, not in {problem.dtype}"
    operation = get(problem.operation)
    if isinstance(operation, ProgramOperation):
        return f"{problem.operation} is not a single loop nest; tune it with another searcher"
    reason = solver_refusal(loop_solver(problem), problem, device)
    return reason or space_refusal(loop_space(problem, device), device)


def space_refusal(space: Space, device: Device) -> str:
    """Why a space has no game; empty if it has one."""
    if device.kind != "cpu":
        return _only_cpus(device)
    if not isinstance(space, ScheduleSpace):
        return "its configs are not schedules of loops"
    count = sum(extent > 1 for _, extent in space.nest.loops)
    return (
        f"its nest has {count} loops; at most {MAX_LOOPS} are possible" if count > MAX_LOOPS else ""
    )


def loop_solver(problem: Problem) -> BuildingSolver:
    """The solver whose configs are schedules of the problem's nest."""
    one = isinstance(get(problem.operation), NestOperation)
    solver = find_solver(_NEST if one else _DIRECT_NEST)
    assert isinstance(solver, BuildingSolver), "both solvers build"
    return solver


def loop_space(problem: Problem, device: Device) -> ScheduleSpace:
    """All schedules of the problem's nest."""
    space = loop_solver(problem).space(problem, device)
    assert isinstance(space, ScheduleSpace), "the configs of both solvers are schedules"
    return space


def _only_cpus(device: Device) -> str:
    return f"loops can be scheduled for CPUs, not for {device.name}"


# Benchmark files of LoopTune: loop_tool's text of a product.
#
# A line describes a variable (``v:m``), a node (``n:`` and ten fields), or the inputs and outputs.
# The kind, the variables and the loops of a node are used: ``0;16;0,0;4;0,`` is a loop of 16 rounds
# on the first variable, and inside it one of 4; the third number is the size of a last, partial
# round.

_WRITE, _READ, _ADD, _MULTIPLY = 1, 2, 5, 7
_FIELDS = (11, 12)
"""The number of fields, without or with a colon at the end."""
_NODES = 64
_NUMBERS = re.compile(r"(?:\d{1,9},)*", re.ASCII)
_LOOPS = re.compile(r"(?:\d{1,3};\d{1,9};\d{1,9},)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Node:
    kind: int
    variables: tuple[int, ...]
    loops: tuple[tuple[int, int, int], ...]
    """Variable, full rounds, and the size of a partial round; outermost first."""


def parse_benchmark(text: str, where: str) -> Problem:
    """The product in a file of LoopTune; `MalformedError` if it is anything else."""
    lines = [line.strip() for line in text.splitlines()]
    nodes = [_node(line, where) for line in lines[: _NODES + 1] if line.startswith("n:")]
    operands = [node for node in nodes if node.kind == _READ]
    kinds = sorted(node.kind for node in nodes)
    if kinds != sorted((_READ, _READ, _MULTIPLY, _ADD, _WRITE)):
        raise MalformedError(f"{where} is not a product of two matrices in LoopTune's format")
    (product,) = (node for node in nodes if node.kind == _MULTIPLY)
    (result,) = (node for node in nodes if node.kind == _WRITE)
    (rows, inner), (inner_too, columns) = (_pair(node, where) for node in operands)
    if inner != inner_too or _pair(result, where) != (rows, columns):
        raise MalformedError(
            f"{where} is a product with transposed matrices; give it as a problem, "
            "such as matmul:64x80x96/ta=1"
        )
    sizes = "x".join(str(_extent(product, each)) for each in (rows, columns, inner))
    return parse(f"matmul:{sizes}")


def _node(line: str, where: str) -> _Node:
    fields = line.split(":")
    if len(fields) not in _FIELDS or not fields[1].isdecimal() or len(fields[1]) > 3:
        raise MalformedError(f"{where}: {line[:40]!r} is not a node in LoopTune's format")
    _, kind, _, variables, _, _, _, loops, *_ = fields
    if not (_NUMBERS.fullmatch(variables) and _LOOPS.fullmatch(loops)):
        raise MalformedError(f"{where}: {line[:40]!r} is not a node in LoopTune's format")
    nest = [tuple(map(int, each.split(";"))) for each in loops.split(",")[:-1]]
    return _Node(
        int(kind),
        tuple(map(int, variables.split(",")[:-1])),
        tuple((variable, rounds, left) for variable, rounds, left in nest),
    )


def _pair(node: _Node, where: str) -> tuple[int, int]:
    if len(node.variables) != 2:
        raise MalformedError(f"{where} is not a product of two matrices in LoopTune's format")
    return node.variables[0], node.variables[1]


def _extent(node: _Node, variable: int) -> int:
    """The extent of a variable from all loops on it."""
    extent = 1
    for rounds, left in reversed([(r, t) for each, r, t in node.loops if each == variable]):
        extent = rounds * extent + left
    return extent
