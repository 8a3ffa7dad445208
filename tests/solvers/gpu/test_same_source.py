"""A build is used again only where it would be built the same now."""

import pytest

from skipjack.core import Config
from skipjack.devices import describe
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.gpu.triton import TritonSolver

PROBLEM = parse("conv2d:n8c64h14w14k256y3x3p1q1:f16:NHWC:wrw")


@pytest.fixture
def solver() -> TritonSolver:
    found = find_solver("triton_conv_gather")
    assert isinstance(found, TritonSolver)
    return found


def test_what_is_compiled_may_depend_on_the_units(solver: TritonSolver) -> None:
    """The binary loads on both: only its source tells that it is another kernel."""
    large, small = describe("sm_89/128"), describe("sm_89/4")
    assert large.compat_key == small.compat_key
    space = solver.space(PROBLEM, large)
    configs = [space.default(), *space.neighbours(space.default())]
    assert not all(_same(solver, config) for config in configs), "sums are split by the units"
    own = [solver.lower(PROBLEM, large, config).digest for config in configs]
    assert all(
        solver.same_source(PROBLEM, large, config, digest, solver.compiler())
        for config, digest in zip(configs, own, strict=True)
    )


def _same(solver: TritonSolver, config: Config) -> bool:
    digest = solver.lower(PROBLEM, describe("sm_89/128"), config).digest
    return solver.same_source(PROBLEM, describe("sm_89/4"), config, digest, solver.compiler())


def test_the_compiler_is_compared_by_others(solver: TritonSolver) -> None:
    device = describe("sm_89/128")
    config = solver.space(PROBLEM, device).default()
    source = solver.lower(PROBLEM, device, config)
    assert solver.same_source(PROBLEM, device, config, source.digest, source.compiler)
    assert not solver.same_source(PROBLEM, device, config, source.digest, "another compiler")
