"""Row programs: what may stand in them, and which statistics share a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skipjack.core import (
    Accumulator,
    Call,
    ColumnSum,
    GroupResult,
    Load,
    RowProgram,
    Scalar,
    Statistic,
    Tensor,
    View,
    subexpressions,
    substituted,
)
from skipjack.core.nest import statistics_used

X = Load(0)


def program(
    *statistics: Statistic, body: Scalar = X, results: tuple[GroupResult, ...] = ()
) -> RowProgram:
    view = View(Tensor("x", (3, 4)), group=4, column=1)
    out = View(Tensor("out", (3, 4)), group=4, column=1)
    return RowProgram(3, 1, 4, (view,), out, statistics, body, results)


OF_GROUP = View(Tensor("saved", (3,)), group=1)


OF_COLUMN = View(Tensor("total", (4,)), column=1)


def summing(value: Scalar, segments: int = 1) -> RowProgram:
    plain = program()
    sums = (ColumnSum(OF_COLUMN, value),)
    return replace(plain, segments=segments, column_sums=sums)


def minus(name: str) -> Scalar:
    return Call("sub", (X, Accumulator(name)))


def test_statistics_share_a_pass_unless_one_needs_the_other() -> None:
    first, second = Statistic("a", "sum", X), Statistic("b", "max", X)
    third = Statistic("c", "sum", minus("a"))
    late = Statistic("d", "sum", X, Call("mul", (Accumulator(), Accumulator("c"))))
    free = Statistic("e", "sum", X, Call("mul", (Accumulator(), Accumulator("a"))))
    passes = program(first, second, third, late, free, body=minus("d")).passes()
    assert passes == ((first, second, free), (third, late))


def test_a_program_without_statistics_has_no_pass_but_the_last() -> None:
    assert program().passes() == ()


@pytest.mark.parametrize(
    "build",
    [
        lambda: program(body=minus("nobody")),
        lambda: program(body=minus("")),
        lambda: program(Statistic("a", "sum", minus("a"))),
        lambda: program(Statistic("a", "sum", Accumulator())),
        lambda: program(Statistic("a", "min", X)),
        lambda: program(body=Load(1)),
        lambda: View(Tensor("x", (4,)), column=2),
        lambda: program(Statistic("a", "prod", X)),
        lambda: program(results=(GroupResult(OF_GROUP, X),)),
        lambda: program(results=(GroupResult(OF_GROUP, Accumulator("nobody")),)),
        lambda: GroupResult(View(Tensor("x", (4,)), column=1), Accumulator("a")),
        lambda: ColumnSum(OF_GROUP, X),
        lambda: summing(minus("nobody")),
        lambda: summing(X, segments=2),
    ],
)
def test_what_has_no_meaning_is_refused(build: object) -> None:
    with pytest.raises(ValueError):
        build()  # type: ignore[operator]


def test_trees_are_searched_and_changed_everywhere() -> None:
    tree = Call("mul", (minus("a"), Call("exp", (minus("a"),))))
    assert statistics_used(tree) == {"a"}
    assert list(subexpressions(tree)).count(X) == 2
    changed = substituted(tree, minus("a"), X)
    assert changed == Call("mul", (X, Call("exp", (X,))))


def test_results_of_groups_are_written_after_the_output() -> None:
    total = GroupResult(OF_GROUP, Accumulator("a"))
    whole = program(Statistic("a", "sum", X), results=(total,))
    assert whole.arrays == ("x", "out", "saved")
    assert whole.views[-1] == OF_GROUP


def test_sums_over_groups_are_the_last_arrays() -> None:
    assert summing(X).arrays == ("x", "out", "total")


def test_an_array_seen_twice_is_one_array() -> None:
    x = Tensor("x", (3, 4))
    views = (View(x, group=4, column=1), View(x, group=4))
    twice = RowProgram(3, 1, 4, views, View(Tensor("out", (3, 4)), 4, 0, 1), (), X)
    assert twice.arrays == ("x", "out")
    assert [view.of_group for view in views] == [False, True]
