"""MIOpen as a solver: the program MIOpenDriver, and problems as its commands."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from skipjack.core import Device, ParameterSpace, Problem
from skipjack.errors import ProblemError, WorkerError
from skipjack.interop import driver_line
from skipjack.operations import Convolution, get
from skipjack.settings import MIOPEN_DRIVER
from skipjack.solvers.solver import Solver

# A problem as a command of MIOpenDriver, for each mode.

ITERATIONS = 10
"""Runs of the chosen solver after the search; MIOpenDriver prints their mean without the first."""
PROBE = tuple(shlex.split("conv -n 1 -c 1 -H 4 -W 4 -k 1 -y 1 -x 1 -F 1 -t 1 -i 1 -V 0"))
"""A tiny convolution, which shows whether the program runs, its device and its version."""


class Mode(StrEnum):
    """What MIOpen does with a problem."""

    SEARCH = "search"
    """Search the parameters of every tunable solver, then time all solvers."""
    FIND = "find"
    """Time all solvers with the best known parameters."""
    KERNELS = "kernels"
    """Compile the kernels of the fastest solver only."""


def refusal_of_problem(problem: Problem) -> str:
    """Why MIOpenDriver cannot be used for a problem; empty if it can."""
    operation = get(problem.operation)
    if not isinstance(operation, Convolution):
        return "MIOpenDriver is used for convolutions only"
    try:
        driver_line(problem)
    except ProblemError as error:
        return str(error)
    return ""


def driver_arguments(problem: Problem, mode: Mode, iterations: int = ITERATIONS) -> Sequence[str]:
    """The arguments of the command, without the program's name.

    Kernels are compiled without a check, which would also compile the kernels of a reference.
    """
    check = "0" if mode is Mode.KERNELS else "1"
    times = 1 if mode is Mode.KERNELS else iterations
    search = ("-s", "1") if mode is Mode.SEARCH else ()
    return (*_problem_words(problem), *search, "-V", check, "-i", str(times))


def timing_arguments(problem: Problem, solver: str, iterations: int) -> Sequence[str]:
    """The arguments that run one solver in immediate mode, which searches and stores nothing."""
    return (*_problem_words(problem), "-S", solver, "-V", "1", "-i", str(iterations))


def _problem_words(problem: Problem) -> list[str]:
    return shlex.split(driver_line(problem))[1:]


# The path of MIOpenDriver.
#
# Its version is not read with ``--version``, which omits the build that user databases depend on.
# It is read from the names of the databases (`results.Installation`).

DRIVER_VARIABLE = MIOPEN_DRIVER.name
"""The path of the program, if it is neither on the search path nor in ROCm's folder."""
PROGRAM = "MIOpenDriver"
ROCM = Path("/opt/rocm/bin")


def find_driver(environment: Mapping[str, str] = os.environ, rocm: Path = ROCM) -> Path:
    """The path of the program; `WorkerError` says where it was looked for."""
    named = MIOPEN_DRIVER.text(environment)
    if named:
        path = Path(named).expanduser().absolute()
        if not _runs(path):
            raise WorkerError(
                f"{DRIVER_VARIABLE} names {path}, which is not an executable program; "
                f"set it to the path of {PROGRAM}"
            )
        return path
    on_path = shutil.which(PROGRAM, path=environment.get("PATH", os.defpath))
    for place in (on_path, rocm / PROGRAM):
        if place and _runs(Path(place)):
            return Path(place).absolute()
    raise WorkerError(
        f"{PROGRAM} is neither on the search path nor in {rocm}; install MIOpen, "
        f"or set {DRIVER_VARIABLE} to its path"
    )


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


# MIOpen as a solver, which searches and times its own solvers.

SOLVER_NAME = "miopen"


class MiopenSolver(Solver):
    """Convolutions on AMD's GPUs, by MIOpenDriver; see `DrivingSolver`."""

    name = SOLVER_NAME
    version = 1
    kinds = ("hip",)
    dtypes = ("f32", "f16", "bf16")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse all but convolutions; MIOpen determines which of its solvers apply."""
        return refusal_of_problem(problem)

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The empty space: MIOpen does its own tuning."""
        return ParameterSpace([])

    def arguments(self, problem: Problem) -> Sequence[str]:
        """The arguments of the command that searches."""
        return driver_arguments(problem, Mode.SEARCH)
