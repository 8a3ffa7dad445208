"""Plans: the order and the builds of grid.py for files of lists, few builds for all others."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.core import Config
from skipjack.errors import UsageError
from skipjack.search import Points, SearcherInterface
from skipjack.sweep.bench import build_part, count_builds, count_rebuilds, fewest_builds
from skipjack.sweep.configs import BaseConfig
from skipjack.sweep.files import SweepFile, read_sweep_file
from skipjack.sweep.session.forecast import is_static, make_plan

NO_BASE = BaseConfig()
EXAMPLES = Path(__file__).parents[2] / "examples" / "sweep"


def grid_file(parameters: dict[str, tuple[Any, ...]], free: tuple[str, ...] | None) -> SweepFile:
    return SweepFile(Path("grid.py"), parameters, free)


def documented_order(
    parameters: dict[str, tuple[Any, ...]], free: tuple[str, ...] | None
) -> list[dict[str, Any]]:
    """The rule in other words: what needs a build varies slowest, the last name fastest."""
    outer = [name for name in parameters if name not in (free or ())]
    inner = [name for name in parameters if name in (free or ())]
    points: list[dict[str, Any]] = [{}]
    for name in outer + inner:
        points = [{**point, name: value} for point in points for value in parameters[name]]
    return points


def documented_builds(points: list[dict[str, Any]], free: tuple[str, ...] | None) -> int:
    """A build for the first point, and whenever a value outside of `free` changed."""
    builds = 1 if points else 0
    for before, after in itertools.pairwise(points):
        changed = [k for k in after if json.dumps(before[k]) != json.dumps(after[k])]
        builds += free is None or any(name not in free for name in changed)
    return builds


VALUES = st.lists(
    st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from(["x", 1.0, None])), max_size=3
)
GRIDS = st.dictionaries(st.sampled_from("abcde"), VALUES.map(tuple), max_size=4)


@given(GRIDS, st.one_of(st.none(), st.sets(st.sampled_from("abcde"))))
def test_lists_come_in_the_documented_order(
    parameters: dict[str, tuple[Any, ...]], chosen: set[str] | None
) -> None:
    free = None if chosen is None else tuple(name for name in parameters if name in chosen)
    plan = make_plan(grid_file(parameters, free), NO_BASE)
    expected = documented_order(parameters, free)
    assert list(plan.points) == [Config.of(point) for point in expected]
    assert plan.product == plan.runs == len(expected)
    assert plan.rebuilds == documented_builds(expected, free)
    assert plan.builds <= plan.rebuilds
    for point in plan.points:
        assert list(point) == list(parameters), "names stay in their order"


def test_the_documents_example_costs_two_builds() -> None:
    plan = make_plan(read_sweep_file(EXAMPLES / "audio.py"), NO_BASE)
    assert [tuple(point.values()) for point in plan.points] == [
        *((128, 128), (256, 128), (512, 128)),
        *((128, 256), (256, 256), (512, 256)),
    ]
    assert (plan.runs, plan.builds, plan.rebuilds) == (6, 2, 2)


def test_without_the_hook_every_point_builds() -> None:
    plan = make_plan(read_sweep_file(EXAMPLES / "rnnt.json"), NO_BASE)
    assert (plan.runs, plan.rebuilds) == (6, 6)
    assert dict(plan.points[1]) == {"audio_batch_size": 128, "gpu_batch_size": 256}


def test_an_empty_no_rebuild_list_shares_builds_of_equal_neighbours() -> None:
    assert make_plan(grid_file({"a": (1, 1, 2)}, ()), NO_BASE).rebuilds == 2
    assert make_plan(grid_file({"a": (1, 1, 2)}, None), NO_BASE).rebuilds == 3


def test_refused_points_are_kept_apart_and_cost_no_build() -> None:
    file = read_sweep_file(EXAMPLES / "valid.py")
    plan = make_plan(file, NO_BASE)
    assert plan.product == 4 * 3 * 6
    assert len(plan.refused) + plan.runs == plan.product
    assert all(p["dali_pipeline_depth"] * p["audio_batch_size"] > p["audio_buffer_num_lines"]  # type: ignore[operator]
               for p in plan.refused)  # fmt: skip
    assert plan.refused and plan.builds == 1


def test_empty_lists_mean_no_run_and_no_lists_mean_one() -> None:
    assert make_plan(grid_file({"a": (1,), "b": ()}, None), NO_BASE).points == ()
    assert make_plan(grid_file({}, None), NO_BASE).points == (Config(),)
    assert make_plan(grid_file({"b": ()}, None), NO_BASE).rebuilds == 0


def test_the_listed_order_is_that_of_declaration() -> None:
    file = grid_file({"free": (1, 2), "built": (1, 2)}, ("free",))
    listed = make_plan(file, NO_BASE, order="listed")
    assert [tuple(p.values()) for p in listed.points] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert (listed.builds, listed.rebuilds) == (2, 4)
    assert make_plan(file, NO_BASE).rebuilds == 2


class Listed(SearcherInterface):
    """Yields what it was given, always the same dict."""

    def __init__(self, *pairs: tuple[int, int], is_dynamic: bool = False) -> None:
        self.pairs = pairs
        self._dynamic = is_dynamic

    @property
    def is_dynamic(self) -> bool:
        return self._dynamic

    def generate(self) -> Points:
        point: dict[str, Any] = {}
        for built, free in self.pairs:
            point.update(built=built, free=free)
            yield point


def test_points_of_a_static_search_are_put_together_by_builds() -> None:
    search = Listed((1, 1), (2, 1), (1, 2), (3, 1), (2, 2))
    file = SweepFile(Path("grid.py"), {}, ("free",), search=lambda: search)
    plan = make_plan(file, NO_BASE)
    assert [tuple(p.values()) for p in plan.points] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
    assert (plan.builds, plan.rebuilds) == (3, 3)
    listed = make_plan(file, NO_BASE, order="listed")
    assert [tuple(p.values()) for p in listed.points] == list(search.pairs)
    assert (listed.builds, listed.rebuilds) == (3, 5)


def test_a_search_that_waits_for_results_has_no_plan() -> None:
    search = Listed((1, 1), is_dynamic=True)
    with pytest.raises(UsageError, match="depends on results"):
        make_plan(SweepFile(Path("x.py"), {}, search=lambda: search), NO_BASE)
    assert not is_static(SweepFile(Path("x.py"), {}, search=lambda: search))
    assert is_static(SweepFile(Path("x.py"), {}, search=Listed))
    assert is_static(grid_file({"a": (1,)}, None))


def test_too_many_combinations_are_counted_and_not_made() -> None:
    file = grid_file({name: tuple(range(100)) for name in "abcdef"}, None)
    with pytest.raises(UsageError, match="1000000000000 combinations"):
        make_plan(file, NO_BASE)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.integers(0, 3))
def test_fewest_builds_keeps_the_points_and_uses_each_build_once(
    pairs: list[tuple[int, int]], standing: int
) -> None:
    points = [Config({"built": built, "free": free}) for built, free in pairs]

    def key(point: Config) -> str:
        return build_part(point, ("free",)).key

    ordered = fewest_builds(points, key, key(Config({"built": standing})))
    assert sorted(ordered, key=str) == sorted(points, key=str)
    assert count_rebuilds(ordered, ("free",)) == count_builds(points, ("free",))
    for part in {key(point) for point in points}:
        same = [point for point in points if key(point) == part]
        assert [point for point in ordered if key(point) == part] == same
    first = [point["built"] == standing for point in ordered]
    assert first == sorted(first, reverse=True), "the build that stands is used first"
