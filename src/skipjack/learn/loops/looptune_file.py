"""Benchmarks of LoopTune: loop_tool's text of a product, as the problem that it is.

A line is about a variable (``v:m``), a node (``n:`` and ten fields), or the inputs and outputs.
What counts of a node is its kind, its variables and its loops: ``0;16;0,0;4;0,`` are two loops on
the first variable, of 16 rounds and, inside of them, of 4; the third number is what is left for a
last round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.core.problem import Problem
from skipjack.errors import MalformedError
from skipjack.operations import parse

_WRITE, _READ, _ADD, _MULTIPLY = 1, 2, 5, 7
_FIELDS = (11, 12)
"""With or without a colon at the end."""
_NODES = 64
_NUMBERS = re.compile(r"(?:\d{1,9},)*", re.ASCII)
_LOOPS = re.compile(r"(?:\d{1,3};\d{1,9};\d{1,9},)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Node:
    kind: int
    variables: tuple[int, ...]
    loops: tuple[tuple[int, int, int], ...]
    """Variable, full rounds, and the elements that are left, outermost first."""


def parse_benchmark(text: str, where: str) -> Problem:
    """The product of a file of LoopTune; `MalformedError` if it is anything else."""
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
            f"{where} is a product with transposed matrices; write it as a problem, "
            "as matmul:64x80x96/ta=1"
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
    """How far all loops on a variable go: each as many times as far as those inside of it."""
    extent = 1
    for rounds, left in reversed([(r, t) for each, r, t in node.loops if each == variable]):
        extent = rounds * extent + left
    return extent
