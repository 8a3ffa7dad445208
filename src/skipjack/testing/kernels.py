"""Runs candidates in this process, for tests of solvers that are not expected to crash."""

from __future__ import annotations

import ctypes

from skipjack.core import Arrays, Config, Device, Problem
from skipjack.execute import Checker
from skipjack.native import Slots, llvm
from skipjack.solvers import BuildingSolver, tolerance_factor_of


def run_candidate(
    solver: BuildingSolver, problem: Problem, device: Device, config: Config, *places: Arrays
) -> None:
    """Build a candidate and run it on several sets of arrays."""
    code = solver.compile(solver.lower(problem, device, config))
    loader = llvm.Loader()
    call = llvm.c_function(loader.load(code.data, code.symbol), ctypes.c_void_p)
    slots = solver.slots(problem, device, config)
    for arrays in places:
        held = Slots(slots, arrays)
        call(held.address)


def check_candidate(
    solver: BuildingSolver, problem: Problem, device: Device, config: Config
) -> None:
    """Build a candidate and check its result, on aligned and unaligned arrays.

    Raises `AssertionError` with the reason if it is wrong.
    """
    checker = Checker(problem)
    places = checker, checker.unaligned()
    for place in places:
        place.prepare()
    run_candidate(solver, problem, device, config, *(place.arrays for place in places))
    for place in places:
        verdict = place.verdict(tolerance_factor_of(solver, problem))
        assert verdict.right, f"{problem.key} by {solver.name} with {config}: {verdict.reason}"
