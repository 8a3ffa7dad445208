"""CartesianProduct: the order of points is the order of fewest builds."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import UsageError
from skipjack.search.scripted import CartesianProduct

GRID = {"audio_batch_size": [128, 256, 512], "gpu_batch_size": [128, 256]}


def test_the_last_name_varies_fastest() -> None:
    points = [tuple(point.values()) for point in CartesianProduct(GRID).generate()]
    assert points == [(128, 128), (128, 256), (256, 128), (256, 256), (512, 128), (512, 256)]


def test_names_that_need_no_build_come_last() -> None:
    product = CartesianProduct(GRID, ["audio_batch_size"])
    points = [*product.generate()]
    assert [point["gpu_batch_size"] for point in points] == [128] * 3 + [256] * 3
    assert [point["audio_batch_size"] for point in points] == [128, 256, 512] * 2
    assert [*points[0]] == ["gpu_batch_size", "audio_batch_size"]


def test_both_groups_keep_their_order() -> None:
    grid: dict[str, list[int]] = {name: [1] for name in "abcdef"}
    assert CartesianProduct(grid, ["d", "a", "x"]).names == tuple("bcefad")


def test_no_parameters_are_one_empty_point_and_an_empty_list_is_none() -> None:
    assert [*CartesianProduct({}).generate()] == [{}]
    assert [*CartesianProduct({"a": [1, 2], "b": []}).generate()] == []


@pytest.mark.parametrize("values", ["128", 128, None, {"x": 1}, {1}])
def test_what_is_no_list_is_refused_by_name(values: Any) -> None:
    with pytest.raises(UsageError, match=f"needs a list of values for 'a', not {values!r}"):
        CartesianProduct({"a": values})


def test_tuples_ranges_and_arrays_are_lists_of_plain_numbers() -> None:
    product = CartesianProduct({"a": (1,), "b": range(1), "c": np.arange(1)})
    assert repr([*product.generate()]) == "[{'a': 1, 'b': 0, 'c': 0}]"


def test_points_are_dicts_of_their_own() -> None:
    first, second, *_ = CartesianProduct(GRID).generate()
    assert first is not second
    assert first == {"audio_batch_size": 128, "gpu_batch_size": 128}


sizes = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@given(sizes, st.sets(st.integers(0, 3)))
def test_each_build_is_needed_once(sizes: Sequence[int], late: set[int]) -> None:
    grid = {f"p{at}": list(range(size)) for at, size in enumerate(sizes)}
    no_rebuild = [name for at, name in enumerate(grid) if at in late]
    points = [*CartesianProduct(grid, no_rebuild).generate()]
    builds = [tuple(v for name, v in point.items() if name not in no_rebuild) for point in points]
    assert 1 + sum(a != b for a, b in pairwise(builds)) == len(set(builds))
