"""Running candidates in this very process, for tests of solvers that are not expected to crash."""

from __future__ import annotations

import ctypes

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.operation import Arrays
from skipjack.core.problem import Problem
from skipjack.execute.verification import Checker
from skipjack.native import llvm
from skipjack.native.slots import Slots
from skipjack.solvers.solver import BuildingSolver, slack_of


def run_candidate(
    solver: BuildingSolver, problem: Problem, device: Device, config: Config, *places: Arrays
) -> None:
    """Build a candidate and run it on some sets of arrays."""
    code = solver.compile(solver.lower(problem, device, config))
    loader = llvm.Loader()
    call = llvm.native(loader.load(code.data, code.symbol), ctypes.c_void_p)
    slots = solver.slots(problem, device, config)
    for arrays in places:
        held = Slots(slots, arrays)
        call(held.address)


def check_candidate(
    solver: BuildingSolver, problem: Problem, device: Device, config: Config
) -> None:
    """Build a candidate and check its result, on aligned arrays and on others.

    Raises `AssertionError` with the reason if it is wrong.
    """
    checker = Checker(problem)
    places = checker, checker.elsewhere()
    for place in places:
        place.prepare()
    run_candidate(solver, problem, device, config, *(place.arrays for place in places))
    for place in places:
        verdict = place.verdict(slack_of(solver, problem))
        assert verdict.right, f"{problem.key} by {solver.name} with {config}: {verdict.reason}"
