"""The suite on which the policy is judged: drawn by a seed, and left out of every training set."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import loop_suite
from skipjack import operations
from skipjack.core import NestOperation
from skipjack.native import detect
from skipjack.solvers.cpu.nest_code.solver import NestSolver


@pytest.mark.parametrize("seed", [loop_suite.SEED, 1, 2, 3])
def test_every_suite_has_every_kind(seed: int) -> None:
    entries = loop_suite.suite(seed)
    groups = Counter(entry.group for entry in entries)
    assert groups == {"products": 12, "convolutions": 8, "vectors": 8, "plug-in": 4}
    assert len({entry.problem.key for entry in entries}) == 32
    assert Counter(entry.threads for entry in entries) == {1: 16, 2: 16}
    products = [entry.problem for entry in entries if entry.group == "products"]
    attributes = {name for problem in products for name, _ in problem.attributes}
    assert attributes == {"ta", "tb", "bias", "act"}
    assert {problem.dtype for problem in products} == {"f32", "f64"}
    assert sum(min(problem.shape) <= 12 for problem in products) >= 3
    plugged = [entry.problem.operation for entry in entries if entry.group == "plug-in"]
    assert tuple(plugged) == loop_suite.PLUGIN_OPERATIONS


def test_a_suite_is_the_same_for_the_same_seed() -> None:
    assert loop_suite.suite(5) == loop_suite.suite(5)
    assert loop_suite.held_out(5) != loop_suite.held_out(6)
    assert loop_suite.held_out(5) == {entry.problem.key for entry in loop_suite.suite(5)}


def test_the_published_suite_stays_what_it_is() -> None:
    """Figures are for these problems: a change of the script must not exchange them."""
    names = [entry.name for entry in loop_suite.suite()]
    assert names[0] == "matmul:173x367x311:f32 x2"
    assert names[-1] == "pairwise_distance:135x132x199:f64 x1"


@pytest.mark.parametrize("name", loop_suite.PLUGIN_OPERATIONS)
def test_an_operation_of_the_plugin_is_what_its_nest_says(name: str) -> None:
    loop_suite.load_operations()
    operation = operations.get(name)
    assert isinstance(operation, NestOperation)
    shape = "13x9x7" if name == "pairwise_distance" else "13x9"
    problem = operations.parse(f"{name}:{shape}", "f64")
    nest, rng = operation.nest(problem), np.random.default_rng(0)
    arrays = {x.name: rng.uniform(-1, 1, x.shape) for x in operation.inputs(problem)}
    exact = operation.reference(problem, arrays)
    assert exact.shape == operation.output(problem).shape
    assert [access.tensor.name for access in nest.inputs[:1]] == ["x"]
    assert np.all(operation.magnitude(problem, arrays) >= np.abs(exact) - 1e-12)
    assert NestSolver().space(problem, detect()).promising(3)
