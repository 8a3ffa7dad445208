"""Which problems are similar, and which configs they suggest."""

import pytest

from skipjack.bank import BankEntry, distance
from skipjack.core import Config, Parameter, ParameterSpace
from skipjack.ledger import BankedConfig
from skipjack.operations import parse
from skipjack.tuning.study.solver_search import nearest_winners, starting_points, strongest

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
        BankedConfig("add:512:f32", "nest", Config(n=3)),
        BankedConfig("add:128:f32", "nest", Config(n=1)),
        BankedConfig("add:64:f32", "nest", Config(n=0)),
        BankedConfig("add:64:f64", "rows", Config(n=9)),
        BankedConfig("vanished:64:f32", "nest", Config(n=9)),
    ]
    assert [c["n"] for c in nearest_winners(parse("add:64"), "nest", winners, 4)] == [1, 3]


def test_what_another_model_of_the_name_found_comes_first() -> None:
    space = ParameterSpace([Parameter("n", tuple(range(8)))])
    own = [
        BankedConfig("add:128:f32", "nest", Config(n=1)),
        BankedConfig("add:64:f32", "nest", Config(n=2)),
    ]
    others = [
        BankedConfig("add:64:f32", "nest", Config(n=5)),
        BankedConfig("add:64:f32", "rows", Config(n=6)),
        BankedConfig("add:32:f32", "nest", Config(n=7)),
    ]
    found = starting_points(parse("add:64"), space, "nest", own, others)
    assert [config["n"] for config in found][:2] == [5, 1]


def banked(n: int, gain: float, created: str = "") -> BankedConfig:
    speedup = {"default": {"ratio": gain, "low": gain, "high": gain}}
    evidence = {"baseline": {"name": "default", **speedup["default"]}}
    entry = BankEntry(
        *("add:64:f32", "cpu:a", "a/1", "nest", 1, {"n": n}, 9.0, 9.0, None, "", speedup, evidence),
        created=f"{created or 2026}-01-01T00:00:00.000000Z",
    )
    return BankedConfig(entry.problem, entry.solver, Config(n=n), entry.line)


def test_of_several_the_one_with_the_strongest_evidence_counts_whatever_the_clocks_said() -> None:
    good, weak = banked(1, 6.0, "1990"), banked(2, 2.0, "2090")
    only = BankedConfig("add:8:f32", "nest", Config(n=3))
    assert strongest([good, weak, only]) == strongest([weak, good, only]) == [good, only]


def test_of_several_that_cannot_be_read_the_last_counts() -> None:
    first, last = (BankedConfig("add:8:f32", "nest", Config(n=n), "{") for n in (1, 2))
    assert strongest([first, last]) == [last]
    good = banked(1, 6.0)
    odd = good._replace(config=Config(n=9), record="[]")
    assert strongest([odd, good]) == strongest([good, odd]) == [good]
