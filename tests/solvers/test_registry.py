"""Which solver is taken for a problem, and what is said when none can be."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.operations import get, parse
from skipjack.operations import names as operations
from skipjack.solvers import registry
from skipjack.solvers.loops.nest_solver import NestSolver
from skipjack.solvers.registry import (
    building_solvers,
    find_solver,
    register,
    solver_for,
    vendors_for,
)
from skipjack.solvers.solver import BuildingSolver, NativeVendorSolver, VendorSolver

CPU = Device("cpu", "skylake-avx512", 1, vector_bytes=64)
GPU = Device("gpu", "sm_90", 132)
MATMUL = parse("matmul:64x64x64")


@pytest.fixture
def restored() -> Iterator[None]:
    """The known solvers, put back afterwards."""
    before = dict(registry._known)
    yield
    registry._known.clear()
    registry._known.update(before)


@pytest.mark.parametrize("name", registry.names())
def test_every_solver_is_of_one_kind_and_answers_to_its_name(name: str) -> None:
    solver = find_solver(name)
    assert solver.name == name
    kinds = [
        isinstance(solver, kind) for kind in (BuildingSolver, VendorSolver, NativeVendorSolver)
    ]
    assert sum(kinds) == 1


@pytest.mark.parametrize("name", operations())
def test_every_operation_can_be_built_and_compared_on_a_cpu(name: str) -> None:
    problem = parse(get(name).example)
    assert building_solvers(problem, CPU)
    known = [vendor.name for vendor in vendors_for(problem, CPU)]
    if name.startswith("conv"):
        torch = importlib.util.find_spec("torch") is not None
        assert known == (["onednn"] if torch else [])  # NumPy has no convolutions
    else:
        assert known[0] == "numpy"


def test_a_named_solver_is_taken_and_without_a_name_the_preferred_one() -> None:
    assert solver_for(MATMUL, CPU, "microkernel").name == "microkernel"
    assert solver_for(MATMUL, CPU).name == building_solvers(MATMUL, CPU)[0].name


def test_a_misspelt_solver_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean microkernel"):
        find_solver("mikrokernel")
    with pytest.raises(UsageError, match="known are"):
        find_solver("qqqq")


def test_a_solver_that_refuses_says_why() -> None:
    with pytest.raises(UsageError, match="it knows the plain matmul alone"):
        solver_for(parse("add:4"), CPU, "microkernel")
    with pytest.raises(UsageError, match="nothing to tune"):
        solver_for(MATMUL, CPU, "numpy")
    with pytest.raises(UsageError, match="no solver can build"):
        solver_for(MATMUL, GPU)


def test_a_solver_that_was_added_is_taken_by_name_or_where_no_other_can(restored: None) -> None:
    class Mine(NestSolver):
        name = "mine"

        def refuses(self, problem: Problem, device: Device) -> str:
            return ""

    register(Mine())
    assert solver_for(MATMUL, CPU).name == "nest"
    assert solver_for(MATMUL, CPU, "mine").name == "mine"
    assert solver_for(MATMUL, GPU).name == "mine"
