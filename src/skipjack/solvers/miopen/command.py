"""A problem as a command of MIOpenDriver, for each thing that it is asked to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum

from skipjack.core.problem import Problem
from skipjack.errors import ProblemError
from skipjack.interop.driver_writer import driver_line
from skipjack.operations import get
from skipjack.operations.convolution import Convolution

ITERATIONS = 10
"""Of what was chosen, after the search; MIOpenDriver says their mean without the first."""
PROBE = tuple(shlex.split("conv -n 1 -c 1 -H 4 -W 4 -k 1 -y 1 -x 1 -F 1 -t 1 -i 1 -V 0"))
"""A convolution that takes no time: whether the program runs, on what, and in which version."""


class Mode(StrEnum):
    """What MIOpen is to do with a problem."""

    SEARCH = "search"
    """Search the parameters of every solver that has some, then time all solvers."""
    FIND = "find"
    """Time all solvers with the best parameters that are known."""
    KERNELS = "kernels"
    """Compile the kernels of the fastest solver, and no others."""


def refuses(problem: Problem) -> str:
    """Why MIOpen is not driven for a problem; empty if it is."""
    operation = get(problem.operation)
    if not isinstance(operation, Convolution):
        return "MIOpen is driven for convolutions alone"
    try:
        driver_line(problem)
    except ProblemError as error:
        return str(error)
    return ""


def arguments(problem: Problem, mode: Mode, iterations: int = ITERATIONS) -> Sequence[str]:
    """The words behind the program's name.

    Kernels are compiled without a check: it would run, and so leave, the kernels of a reference.
    """
    check = "0" if mode is Mode.KERNELS else "1"
    times = 1 if mode is Mode.KERNELS else iterations
    search = ("-s", "1") if mode is Mode.SEARCH else ()
    return (*_problem_words(problem), *search, "-V", check, "-i", str(times))


def timing_arguments(problem: Problem, solver: str, iterations: int) -> Sequence[str]:
    """Those that run one solver in the immediate mode, which searches and stores nothing."""
    return (*_problem_words(problem), "-S", solver, "-V", "1", "-i", str(iterations))


def _problem_words(problem: Problem) -> list[str]:
    return shlex.split(driver_line(problem))[1:]
