"""Which problems are near, and what they suggest."""

import pytest

from skipjack.core.config import Config
from skipjack.core.parameter import Parameter
from skipjack.core.parameters import ParameterSpace
from skipjack.ledger import Winner
from skipjack.operations import parse
from skipjack.tuning.seeds import distance, nearest_winners, starting_points

CONV = "conv2d:n1c64h28w28k64y3x3p1q1"


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        ("matmul:64x64x64", "matmul:64x64x64", 0.0),
        ("matmul:64x64x64", "matmul:128x64x32", 2.0),
        ("matmul:64x64x64", "matmul:64x64x64:f64", 1.0),
        (CONV, "conv2d:n1c64h28w28k64y3x3", 2.0),
        (CONV, f"{CONV}:wrw", float("inf")),
        ("matmul:64x64x64", "add:64", float("inf")),
    ],
)
def test_distance_counts_doublings(one: str, other: str, far: float) -> None:
    assert distance(parse(one), parse(other)) == distance(parse(other), parse(one)) == far


def test_winners_of_the_same_solver_come_nearest_first() -> None:
    winners = [
        Winner("add:512:f32", "nest", Config(n=3)),
        Winner("add:128:f32", "nest", Config(n=1)),
        Winner("add:64:f32", "nest", Config(n=0)),
        Winner("add:64:f64", "rows", Config(n=9)),
        Winner("vanished:64:f32", "nest", Config(n=9)),
    ]
    assert [c["n"] for c in nearest_winners(parse("add:64"), "nest", winners)] == [1, 3]


def test_what_another_model_of_the_name_found_comes_first() -> None:
    space = ParameterSpace([Parameter("n", tuple(range(8)))])
    own = [Winner("add:128:f32", "nest", Config(n=1)), Winner("add:64:f32", "nest", Config(n=2))]
    others = [
        Winner("add:64:f32", "nest", Config(n=5)),
        Winner("add:64:f32", "rows", Config(n=6)),
        Winner("add:32:f32", "nest", Config(n=7)),
    ]
    found = starting_points(parse("add:64"), space, "nest", own, others)
    assert [config["n"] for config in found][:2] == [5, 1]
