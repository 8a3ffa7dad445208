"""Problems in the store: added once, tagged, filtered, retired."""

from __future__ import annotations

import threading

import pytest
from crew import LABEL, ZEN, crew, load

from skipjack.errors import UsageError
from skipjack.fleet.store import (
    AddedProblems,
    NewProblem,
    ProblemFilter,
    Provenance,
    Store,
    open_store,
)
from skipjack.fleet.store.sql import statements

ON_SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Where all databases are asked the same."""

CONV = [
    NewProblem(f"conv2d:n{n}c64h8w8k64y3x3:f32:NCHW:{way}", "conv2d", way, "f32")
    for n in (1, 2)
    for way in ("fwd", "bwd", "wrw")
]
MATMUL = [
    NewProblem(f"matmul:{n}x8x8:{kind}", "matmul", "", kind)
    for n in (8, 16)
    for kind in ("f32", "f64")
]


def keys(store: Store, **wanted: object) -> set[str]:
    return {row.key for row in store.problems.find(**wanted)}  # type: ignore[arg-type]


def test_a_problem_is_imported_once_and_gets_every_tag(store: Store) -> None:
    assert store.problems.add(CONV, "resnet") == AddedProblems(6, 0, 6)
    assert store.problems.add([*CONV, *MATMUL], "resnet") == AddedProblems(4, 6, 4)
    assert store.problems.add(MATMUL, "bert") == AddedProblems(0, 4, 4)
    assert store.problems.tags() == [("bert", 4), ("resnet", 10)]
    assert keys(store, tag="bert") == {problem.key for problem in MATMUL}


@ON_SQLITE
def test_a_problem_that_is_given_twice_counts_once(store: Store) -> None:
    assert store.problems.add([MATMUL[0], MATMUL[0]], "t") == AddedProblems(1, 0, 1)


def test_keys_that_differ_in_case_or_are_very_long_are_different_problems(store: Store) -> None:
    long = "matmul:" + "9" * 5000
    given = [NewProblem(key, "matmul") for key in ("matmul:a", "matmul:A", long, long + "9")]
    assert store.problems.add(given, "t").imported == 4
    assert keys(store) == {problem.key for problem in given}


@ON_SQLITE
def test_tag_only_tags_what_is_known_and_imports_nothing(store: Store) -> None:
    store.problems.add(CONV[:2], "old")
    assert store.problems.add(CONV, "new", tag_only=True) == AddedProblems(0, 2, 2)
    assert keys(store) == {problem.key for problem in CONV[:2]}


def test_more_than_one_statement_holds_are_imported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements.chunks, "__defaults__", (3,))
    assert store.problems.add([*CONV, *MATMUL], "t") == AddedProblems(10, 0, 10)
    assert keys(store, tag="t") == {problem.key for problem in (*CONV, *MATMUL)}


def test_what_recurs_stays_so_and_empty_provenance_is_filled(store: Store) -> None:
    store.problems.add(CONV[:1], "t", source="customer A")
    store.problems.add(CONV[:2], "t", recurrent=True, source="customer B", model="resnet50")
    store.problems.add(CONV[:2], "t")
    assert keys(store, recurrent=True) == {problem.key for problem in CONV[:2]}
    with store.database.engine.connect() as connection:
        from sqlalchemy import select

        from skipjack.fleet.store.schema.tables import problem_tags as tags

        said = connection.execute(select(tags.c.source, tags.c.model).order_by(tags.c.source))
        assert [*said] == [("customer A", "resnet50"), ("customer B", "resnet50")]


@ON_SQLITE
def test_filters_leave_problems_without_a_direction_alone(store: Store) -> None:
    store.problems.add([*CONV, *MATMUL], "t")
    backward = {problem.key for problem in CONV if problem.direction == "bwd"}
    matmuls = {problem.key for problem in MATMUL}
    assert keys(store, directions=("bwd",)) == backward | matmuls
    assert keys(store, directions=("bwd",), operations=("conv2d",)) == backward
    assert keys(store, dtype="f64") == {problem.key for problem in MATMUL if problem.dtype == "f64"}


@ON_SQLITE
def test_recurrent_asks_the_tag_that_is_named(store: Store) -> None:
    store.problems.add(CONV[:1], "nightly", recurrent=True)
    store.problems.add(CONV, "resnet")
    assert keys(store, tag="resnet", recurrent=True) == set()
    assert keys(store, tag="nightly", recurrent=True) == {CONV[0].key}


@ON_SQLITE
def test_retired_problems_are_left_out_until_they_are_wanted_again(store: Store) -> None:
    store.problems.add(CONV, "t")
    assert store.problems.retire([CONV[0].key, "matmul:1x1x1:f32"]) == 1
    assert store.problems.retire([CONV[0].key]) == 0
    assert keys(store, tag="t") == {problem.key for problem in CONV[1:]}
    assert store.problems.retire([CONV[0].key], retired=False) == 1
    assert len(keys(store)) == 6


@ON_SQLITE
def test_an_unknown_tag_is_refused_with_near_ones(store: Store) -> None:
    with pytest.raises(UsageError, match="there is none yet; tag problems with skipjack import"):
        list(store.problems.find(tag="resnet"))
    store.problems.add(CONV, "resnet50")
    with pytest.raises(UsageError, match="unknown tag 'resnet': did you mean resnet50"):
        list(store.problems.find(tag="resnet"))


def test_two_imports_at_once_add_every_problem_once(store: Store, store_url: str) -> None:
    given = [NewProblem(f"matmul:{n}x8x8:f32", "matmul", "", "f32") for n in range(1, 1501)]
    start = threading.Barrier(3)
    counted: list[AddedProblems] = []

    def add(problems: list[NewProblem]) -> None:
        with open_store(store_url) as mine:
            start.wait()
            for chunk in statements.chunks(problems, 300):
                counted.append(mine.problems.add(chunk, "t"))

    orders = (given, given[::-1], given[750:] + given[:750])
    threads = [threading.Thread(target=add, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(counted, AddedProblems())
    assert total == AddedProblems(1500, 3000, 1500)
    assert len(keys(store, tag="t")) == 1500


def test_problems_are_listed_with_their_tags_and_last_measurement(store: Store) -> None:
    load(store, 3)
    one, two, three = (f"matmul:{size}x8x8" for size in (1, 2, 3))
    us = crew(store)
    us.build(b"code")
    us.tell(finished=True)
    assert store.problems.tag([one, two], Provenance("night", True, "all.txt", "bert")) == 2
    assert store.problems.tag([one], Provenance("night")) == 0, "it stays as it is"
    store.problems.retire([three])
    known = {listed.problem: listed for listed in store.problems.listed(ProblemFilter(), 9)}
    first, second, last = (known[key] for key in (one, two, three))
    assert first.tags == (Provenance("night", True, "all.txt", "bert"), Provenance("tag"))
    assert first.measured and (first.measured.machine, first.measured.device) == ("host", ZEN.name)
    assert first.measured.at.startswith("20") and second.measured is None
    assert (first.recurrent, first.retired, last.recurrent, last.retired) == (
        True,
        False,
        False,
        True,
    )
    night = {p.problem for p in store.problems.listed(ProblemFilter("night", recurrent=True), 9)}
    assert night == {one, two} and len(store.problems.listed(ProblemFilter("night"), 1)) == 1
    assert [p.problem for p in store.problems.listed(ProblemFilter(retired=True), 9)] == [three]
    assert store.problems.listed(ProblemFilter("tag", ["relu"]), 9) == []
    again, (result,) = store.problems.get(one)
    assert again == first
    assert (result.job, result.label, result.machine, result.gpu) == (1, LABEL, "host", "0")
    assert store.problems.untag([one, three], "night") == 1
    assert [p.problem for p in store.problems.listed(ProblemFilter("night"), 9)] == [two]
    with pytest.raises(UsageError, match="does not know relu:1; import it with skipjack import"):
        store.problems.tag([one, "relu:1"], Provenance("x"))
    with pytest.raises(UsageError, match="did you mean night"):
        store.problems.untag([one], "nigt")
