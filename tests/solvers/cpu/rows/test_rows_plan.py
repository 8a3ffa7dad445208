"""The properties of a row program that its plan depends on."""

from __future__ import annotations

import pytest

from skipjack.core import (
    Accumulator,
    Call,
    Load,
    ProgramOperation,
    RowProgram,
    Statistic,
    Tensor,
    View,
)
from skipjack.operations import get, parse
from skipjack.solvers.cpu.rows.plan import chunkable, nonpositive_powers


@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
def test_a_difference_to_the_largest_is_known_not_to_be_positive(name: str) -> None:
    operation, problem = get(name), parse(f"{name}:4x8")
    assert isinstance(operation, ProgramOperation)
    (found,) = nonpositive_powers(operation.programs(problem)["plain"])
    assert found == Call("exp", (Call("sub", (Load(0), Accumulator("largest"))),))


@pytest.mark.parametrize(
    ("key", "fits"), [("softmax:4x8", True), ("logsoftmax:4x8", True), ("layernorm:4x8", False)]
)
def test_only_sums_relative_to_a_maximum_can_be_taken_in_chunks(key: str, fits: bool) -> None:
    problem = parse(key)
    operation = get(problem.operation)
    assert isinstance(operation, ProgramOperation)
    for program in operation.programs(problem).values():
        assert bool(chunkable(program)) == fits


@pytest.mark.parametrize(
    "statistic",
    [
        Statistic("m", "sum", Load(0)),
        Statistic("m", "max", Call("neg", (Load(0),))),
        Statistic("m", "max", Load(0), Call("neg", (Accumulator(),))),
    ],
)
def test_any_other_difference_may_be_positive(statistic: Statistic) -> None:
    x, out = (View(Tensor(name, (4, 8)), group=8, column=1) for name in ("x", "out"))
    body = Call("exp", (Call("sub", (Load(0), Accumulator("m"))),))
    assert not nonpositive_powers(RowProgram(4, 1, 8, (x,), out, (statistic,), body))
