"""Scripted searchers, asked and told: order, memory, repeats, resuming, and kernels."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack import search
from skipjack.core import Config, Parameter, ParameterSpace, Status, Trial
from skipjack.errors import ForeignError, UsageError
from skipjack.search import Points, Repeat, Run, SearchContext, Searcher, SearcherInterface
from skipjack.search.generator import MAX_IDLE
from skipjack.search.load import Bisect
from skipjack.search.registry import _FACTORIES
from skipjack.search.scripted import (
    CartesianProduct,
    Composer,
    GreedyStepper,
    ScriptedSearcher,
    Step,
    adapter,
    as_search,
)
from skipjack.testing.searchers import SearcherConformance, drive
from skipjack.testing.spaces import CostSurface, tiled_space, tiny_space


class Scripted(SearcherInterface):
    """Yields what it was given, and keeps what it is sent."""

    def __init__(self, *points: Any, is_dynamic: bool = True) -> None:
        self._points = points
        self._dynamic = is_dynamic
        self.sent: list[Run | None] = []

    @property
    def is_dynamic(self) -> bool:
        return self._dynamic

    def generate(self) -> Points:
        for point in self._points:
            self.sent.append((yield point))

    @property
    def heard(self) -> list[Any]:
        return [run["value"] if run is not None and run.ok else None for run in self.sent]


def told(searcher: Searcher, value: float, **settings: Any) -> None:
    searcher.tell(Trial(Config.of(settings), value=value))


def keys(configs: list[Config]) -> list[Mapping[str, Any]]:
    return [dict(config) for config in configs]


def test_a_dynamic_search_waits_for_each_result() -> None:
    script = Scripted({"x": 1}, {"x": 2})
    searcher = ScriptedSearcher(script)
    assert keys(searcher.ask(5)) == [{"x": 1}]
    assert searcher.ask(5) == []
    assert not searcher.done
    told(searcher, 10.0, x=1)
    assert keys(searcher.ask(5)) == [{"x": 2}]
    told(searcher, 20.0, x=2)
    assert searcher.ask(5) == []
    assert searcher.done
    assert script.heard == [10.0, 20.0]


def test_a_static_search_hands_out_as_many_points_as_are_asked_for() -> None:
    searcher = ScriptedSearcher(CartesianProduct({"a": [1, 2], "b": [1, 2, 3]}))
    assert len(searcher.ask(4)) == 4
    assert keys(searcher.ask(4)) == [{"a": 2, "b": 2}, {"a": 2, "b": 3}]
    assert searcher.done


def test_a_point_that_is_known_is_not_run_again() -> None:
    script = Scripted({"x": 1}, {"x": 2}, {"x": 1}, {"x": 3})
    searcher = ScriptedSearcher(script)
    asked = [dict(t.config) for t in drive(searcher, lambda c: Trial(c, value=float(c["x"])))]
    assert asked == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert script.heard == [1.0, 2.0, 1.0, 3.0]


def test_the_same_static_point_is_asked_once_though_no_result_is_there_yet() -> None:
    searcher = ScriptedSearcher(Scripted({"x": 1}, {"x": 1}, {"x": 2}, is_dynamic=False))
    assert keys(searcher.ask(9)) == [{"x": 1}, {"x": 2}]


def test_one_and_one_point_zero_are_different_points() -> None:
    searcher = ScriptedSearcher(Scripted({"x": 1}, {"x": 1.0}, {"x": True}, is_dynamic=False))
    assert len(searcher.ask(9)) == 3


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_a_repeat_is_asked_again(is_dynamic: bool) -> None:
    points = ({"x": 1}, Repeat(x=1), Repeat(x=1), {"x": 1})
    searcher = ScriptedSearcher(Scripted(*points, is_dynamic=is_dynamic))
    assert len(drive(searcher, lambda config: Trial(config, value=1.0))) == 3
    assert searcher.done


def test_several_results_of_one_point_answer_its_repeats_in_order() -> None:
    """What a session was told is told again in the next one, and leads to the same place."""
    points = ({"x": 1}, Repeat(x=1), {"x": 2}, {"x": 1}, Repeat(x=1), Repeat(x=1))
    first, second = Scripted(*points), Scripted(*points)
    results = iter(range(100))
    trials = drive(ScriptedSearcher(first), lambda c: Trial(c, value=float(next(results))), 4)
    assert [trial.value for trial in trials] == [0.0, 1.0, 2.0, 3.0]
    resumed = ScriptedSearcher(second)
    for trial in trials:
        resumed.tell(trial)
    assert keys(resumed.ask(9)) == [{"x": 1}]
    assert second.heard == [*first.heard, 3.0] == [0.0, 1.0, 2.0, 1.0, 3.0]


steps = st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12)


@given(steps, st.integers(0, 12), st.booleans())
def test_an_interrupted_search_and_an_undisturbed_one_are_the_same(
    steps: list[tuple[int, bool]], cut: int, is_dynamic: bool
) -> None:
    points = [Repeat(x=x) if repeats else {"x": x} for x, repeats in steps]

    def run(told: list[Trial], limit: int) -> tuple[list[Trial], list[Any]]:
        script = Scripted(*points, is_dynamic=is_dynamic)
        searcher = ScriptedSearcher(script)
        for trial in told:
            searcher.tell(trial)
        results = iter(range(len(told), 99))
        more = drive(searcher, lambda c: Trial(c, value=float(next(results))), limit, batch=1)
        return told + more, script.heard

    whole = run([], 99)
    begun, _ = run([], cut)
    assert run(begun, 99) == whole
    assert len(whole[0]) == sum(
        repeats or all(x != before for before, _ in steps[:at])
        for at, (x, repeats) in enumerate(steps)
    )


def test_a_dynamic_search_retraces_its_way() -> None:
    def bisect() -> Bisect:
        return Bisect("q", 500, 2500, 100, lambda run: run["value"] <= 1700)

    def evaluate(config: Config) -> Trial:
        return Trial(config, value=float(config["q"]))

    trials = drive(ScriptedSearcher(bisect()), evaluate)
    assert [trial.value for trial in trials] == [1500, 2000, 1700, 1800]
    resumed = ScriptedSearcher(bisect())
    for trial in trials[:3]:
        resumed.tell(trial)
    told(resumed, 1.0, q=7)  # of no use, and no harm
    assert keys(resumed.ask(1)) == [{"q": 1800}]


@pytest.mark.parametrize(
    ("forbidden", "order"),
    [(2000, [1500, 2000, 1700, 1800]), (1500, [1500, 1000, 1200, 1300, 1400])],
)
def test_a_forbidden_point_counts_as_bad_for_itself(forbidden: int, order: list[int]) -> None:
    def evaluate(config: Config) -> Trial:
        if config["q"] == forbidden:
            return Trial(config, Status.INFEASIBLE)
        return Trial(config, value=float(config["q"]))

    bisect = Bisect("q", 500, 2500, 100, lambda run: run["value"] <= 1700)
    trials = drive(ScriptedSearcher(bisect), evaluate)
    assert [trial.config["q"] for trial in trials] == order
    assert bisect.get_best() == {"q": max(q for q in order if q <= 1700 and q != forbidden)}


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_going_in_circles_ends(is_dynamic: bool) -> None:
    class Circles(Scripted):
        def generate(self) -> Points:
            while True:
                self.sent.append((yield {"x": 1}))

    script = Circles(is_dynamic=is_dynamic)
    searcher = ScriptedSearcher(script)
    assert len(drive(searcher, lambda config: Trial(config, value=1.0))) == 1
    assert searcher.done
    assert len(script.sent) <= MAX_IDLE + 1


def test_coming_back_often_is_no_circle_while_there_is_something_new() -> None:
    points = [{"x": x} for new in (1, 2, 3) for x in [new, *[1] * (MAX_IDLE - 1)]]
    searcher = ScriptedSearcher(Scripted(*points))
    assert len(drive(searcher, lambda config: Trial(config, value=1.0))) == 3


def test_a_long_way_through_known_points_is_no_circle() -> None:
    count = 3 * MAX_IDLE
    searcher = ScriptedSearcher(Step("x", 0, count + 1, lambda x: x + 1))
    for x in range(count):
        told(searcher, 1.0, x=x)
    assert keys(searcher.ask(5)) == [{"x": count}]


def test_a_point_outside_of_the_space_is_answered_as_infeasible() -> None:
    script = Scripted({"rows": 4}, {"rows": 4, "columns": 2}, {"columns": 4}, {"rows": 3})
    searcher = ScriptedSearcher(script, tiny_space())
    trials = drive(searcher, lambda config: Trial(config, value=1.0))
    assert keys([t.config for t in trials]) == [
        {"rows": 4, "columns": 1},
        {"rows": 1, "columns": 4},
    ]
    statuses = [run.status for run in script.sent if run is not None]
    assert statuses == [Status.OK, Status.INFEASIBLE, Status.OK, Status.INFEASIBLE]


def test_an_endless_search_outside_of_the_space_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MAX_REFUSED", 100)

    class Outside(Scripted):
        def generate(self) -> Points:
            while True:
                self.sent.append((yield {"rows": 3}))

    for searcher in (
        ScriptedSearcher(Outside(), tiny_space()),
        as_search(Outside)(SearchContext(tiny_space(), known=(Trial(tiny_space().default()),))),
    ):
        assert searcher.ask(1) == []
        assert searcher.done


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        (
            {"cells": 1},
            "Scripted yielded cells=1, but there is no such parameter; the parameters are rows",
        ),
        ({"rows": 2.0}, "yielded rows=2.0, but values of rows are of type int, not float"),
        ({"rows": True}, "yielded rows=True, but values of rows are of type int, not bool"),
        ([("rows", 2)], "which is not a dict of parameters"),
    ],
)
def test_what_cannot_be_in_the_space_is_refused(point: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        ScriptedSearcher(Scripted(point), tiny_space()).ask(1)


def test_whole_numbers_fit_where_floats_are_meant_and_numbers_of_numpy_anywhere() -> None:
    space = ParameterSpace([Parameter("x", (0.5, 1.0, 2.0)), Parameter("n", (1, 2))])
    searcher = ScriptedSearcher(Scripted({"x": 2, "n": np.int64(2)}), space)
    assert keys(searcher.ask(1)) == [{"x": 2.0, "n": 2}]


def test_a_value_that_cannot_be_written_down_is_refused() -> None:
    with pytest.raises(UsageError, match=r"searcher Scripted yielded .* cannot be stored"):
        ScriptedSearcher(Scripted({"x": object()})).ask(1)


def test_what_a_searcher_raises_is_blamed_on_it() -> None:
    class Broken(Scripted):
        def generate(self) -> Points:
            run = yield {"x": 1}
            assert run is not None
            yield {"x": run["nothing"]}

    searcher = ScriptedSearcher(Broken())
    searcher.ask(1)
    told(searcher, 1.0, x=1)
    with pytest.raises(ForeignError, match="searcher Broken raised MissingStatError: the run has"):
        searcher.ask(1)


def test_generate_must_be_a_generator_function() -> None:
    class Listed(Scripted):
        def generate(self) -> Any:
            return [{"x": 1}]

    with pytest.raises(UsageError, match="generate of searcher Listed must be a generator func"):
        ScriptedSearcher(Listed()).ask(1)


# Kernels


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(_FACTORIES)
    yield
    _FACTORIES.clear()
    _FACTORIES.update(before)


SPACE = ParameterSpace(
    [Parameter("tile", (8, 16, 32, 64, 128)), Parameter("unroll", (1, 2, 3, 4))],
    ["tile * unroll <= 256"],
)


def faster(best: Run, new: Run) -> bool:
    verdict: bool = new["time_ns"] < best["time_ns"]
    return verdict


def unrolled_most(run: Run) -> bool:
    verdict: bool = run["time_ns"] < 1e9
    return verdict


def doubled(x: int) -> int:
    return 2 * x


def one_more(x: int) -> int:
    return x + 1


MAKERS: dict[str, Callable[[], SearcherInterface]] = {
    "stepped": lambda: GreedyStepper(
        [Step("tile", 8, 256, doubled), Step("unroll", 1, 5, one_more)], faster
    ),
    "composed": lambda: Composer(
        [Bisect("unroll", 1, 5, 1, unrolled_most), Step("tile", 8, 256, doubled)], timeout=12
    ),
    "crossed": lambda: CartesianProduct({"tile": [64, 128], "unroll": [1, 2, 3, 4]}),
}


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("name", MAKERS)
def test_scripted_searchers_tune_kernels(name: str) -> None:
    search.register(name, as_search(MAKERS[name]))
    surface = CostSurface(SPACE, seed=3)
    searcher = search.create(name, SearchContext(SPACE, trials=30))
    trials = drive(searcher, surface.trial)
    assert searcher.done
    assert trials[0].config == SPACE.default()
    assert all(SPACE.contains(trial.config) for trial in trials)
    assert min(t.value or 0.0 for t in trials) < surface.value(SPACE.default())


@pytest.mark.usefixtures("registry")
def test_a_greedy_search_of_a_kernel_goes_the_way_of_its_script() -> None:
    search.register("stepped", as_search(MAKERS["stepped"]))
    costs = {8: 5.0, 16: 4.0, 32: 3.0, 64: 6.0, 128: 7.0}

    def evaluate(config: Config) -> Trial:
        cost = costs[int(config["tile"])] + abs(2 - float(config["unroll"]))
        return Trial(config, value=cost, metrics={"time_ns": cost})

    trials = drive(search.create("stepped", SearchContext(SPACE)), evaluate)
    assert [tuple(trial.config.values()) for trial in trials] == [
        *((8, 1), (16, 1), (32, 1), (64, 1)),
        *((32, 2), (32, 3)),
    ]


@pytest.mark.usefixtures("registry")
def test_the_budget_is_kept() -> None:
    search.register("crossed", as_search(MAKERS["crossed"]))
    searcher = search.create("crossed", SearchContext(SPACE, trials=3))
    assert len(drive(searcher, CostSurface(SPACE).trial)) == 3
    assert searcher.done


class TestAProductIsASearcherLikeAnyOther(SearcherConformance):
    def create(self, context: SearchContext) -> Searcher:
        grid = {p.name: p.values for p in context.space.parameters}  # type: ignore[attr-defined]
        return as_search(lambda: CartesianProduct(grid))(context)

    def space(self) -> ParameterSpace:
        return tiled_space()
