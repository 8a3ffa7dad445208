"""What a solver does not refuse it can do, on any instruction set: asked about random problems."""

import numpy as np
import pytest

from skipjack.native import describe
from skipjack.operations import parse
from skipjack.testing.solver_sweep import DEVICES, faults, main, random_problem


@pytest.mark.parametrize("name", DEVICES)
def test_random_problems_have_spaces_and_sources(name: str) -> None:
    rng = np.random.default_rng(20)
    device = describe(name)
    problems = (random_problem(rng) for _ in range(25))
    assert [str(fault) for problem in problems for fault in faults(problem, device, rng)] == []


@pytest.mark.long
def test_thousands_of_random_problems() -> None:
    assert main(["--problems", "2000", "--seed", "3"]) == 0


@pytest.mark.parametrize(
    "key",
    [
        "conv2d:n4c24h14w14k24y5x5p2q2g24:f32:NHWC:wrw",
        "conv_transpose2d:n2c2h7w2k2y7x3p1v3j3g2:f64:NCHW:wrw",
        "conv2d:n1c3h57w28k3y11x2p3q3g3:f32:NCHW:wrw",
    ],
)
@pytest.mark.parametrize("name", DEVICES)
def test_taps_that_do_not_fit_the_registers_are_taken_one_by_one(name: str, key: str) -> None:
    assert not list(faults(parse(key), describe(name), np.random.default_rng(0)))
