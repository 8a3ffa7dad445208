"""The space of schedules: everything that it proposes is in it, and its first proposals are
good."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Config, Nest, Promising, Recombining, Space
from skipjack.errors import SpaceError
from skipjack.solvers.cpu.nest import (
    Mark,
    Schedule,
    ScheduleSpace,
    accumulator_vectors,
    unrolled_copies,
)
from skipjack.testing.samples import (
    add_nest,
    bias_nest,
    conv1d_nest,
    matmul_nest,
    matmul_transposed_nest,
    mean_nest,
    outer_sum_nest,
    sum_nest,
    transpose_nest,
)

NESTS = {
    "matmul": matmul_nest(112, 208, 256),
    "small matmul": matmul_nest(3, 5, 2),
    "vector times matrix": matmul_nest(1, 100, 40),
    "transposed matmul": matmul_transposed_nest(20, 30, 100),
    "add": add_nest(1000),
    "bias": bias_nest(33, 100),
    "sum over axis 0": sum_nest(50, 70, 0),
    "sum over axis 1": sum_nest(50, 70, 1),
    "transpose": transpose_nest(20, 30),
    "conv1d": conv1d_nest(60, 5),
    "sum over axes 0 and 2": outer_sum_nest(6, 50, 70),
    "mean of all": mean_nest(3000),
}
SPACES = [
    ScheduleSpace(nest, lanes, registers, max_unrolled, threads, cache)
    for nest in NESTS.values()
    for lanes, registers, max_unrolled, threads, cache in (
        (16, 32, 512, 1, 0),
        (8, 16, 64, 4, 1),
        (1, 2, 4, 1, 0),
    )
]
spaces = st.sampled_from(SPACES)
seeds = st.integers(0, 2**32)


def space_of(name: str, threads: int = 1) -> ScheduleSpace:
    return ScheduleSpace(NESTS[name], lanes=16, threads=threads)


def config(text: str) -> Config:
    return Config(schedule=text)


def texts(configs: list[Config]) -> list[str]:
    return [str(each["schedule"]) for each in configs]


# Membership


def test_it_is_a_space_that_breeds_and_starts_well() -> None:
    space: Space = space_of("matmul")
    assert isinstance(space, Recombining)
    assert isinstance(space, Promising)


@pytest.mark.parametrize(
    "outside",
    [Config(), Config(schedule=4), Config(schedule="m n k", x=1), config("m n"), config("m n k ")],
)
def test_other_configs_and_illegal_schedules_are_outside(outside: Config) -> None:
    assert not space_of("matmul").contains(outside)


def test_unrolled_copies_count_vectors_and_tails() -> None:
    schedule = Schedule.parse("m:12 n:40 k:4 k/u m:5/u n/v")
    assert unrolled_copies(schedule, NESTS["matmul"], lanes=16) == 4 * 3 * 3


def test_accumulators_are_output_copies_and_accumulating_ones() -> None:
    matmul = Schedule.parse("m:12 n:40 k:4 k/u m/u n/v")
    assert accumulator_vectors(matmul, NESTS["matmul"], lanes=16) == 12 * 3
    rows = Schedule.parse("i:2 j:64 i/u j:16/a j/v")
    assert accumulator_vectors(rows, NESTS["sum over axis 1"], lanes=16) == 2 * 4
    assert accumulator_vectors(Schedule.parse("i/u"), add_nest(4), lanes=16) == 0


def test_the_limits_are_inclusive() -> None:
    space = ScheduleSpace(NESTS["matmul"], lanes=16, registers=4, max_unrolled=16)
    assert space.contains(config("m:4 n:32 k m/u n/v"))
    assert not space.contains(config("m:3 n:48 k m/u n/v"))
    assert space.contains(config("n:32 m k:8 k/u n/v"))
    assert not space.contains(config("n:32 m k:9 k/u n/v"))


def test_limits_below_one_are_refused() -> None:
    with pytest.raises(SpaceError):
        ScheduleSpace(NESTS["matmul"], lanes=0)


# The default


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("matmul", "m n:16 k n/v"),
        ("small matmul", "m k n/v"),
        ("transposed matmul", "m n k:16 k/v"),
        ("add", "i:64 i/v"),
        ("sum over axis 0", "i j:16 j/v"),
        ("sum over axis 1", "i j:16 j/v"),
        ("transpose", "i j"),
        ("conv1d", "o:16 r o/v"),
    ],
)
def test_the_default_is_the_natural_order_in_vectors(name: str, text: str) -> None:
    assert space_of(name).default() == config(text)


@pytest.mark.parametrize("space", SPACES)
def test_the_default_is_contained(space: ScheduleSpace) -> None:
    assert space.contains(space.default())


def test_a_nest_without_loops_has_one_schedule() -> None:
    space = ScheduleSpace(matmul_nest(1, 1, 1), lanes=8)
    rng = np.random.default_rng(0)
    only = config("")
    assert space.default() == space.sample(rng) == space.mutate(only, rng) == only
    assert space.promising(5) == [only]
    assert space.neighbours(only) == []
    assert space.contains(only)


# Everything stays inside


@settings(deadline=None)
@given(spaces, seeds)
def test_samples_and_what_is_bred_of_them_are_contained(space: ScheduleSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = space.sample(rng), space.sample(rng)
    child = space.recombine(first, second, rng)
    mutant = space.mutate(child, rng)
    assert all(map(space.contains, (first, second, child, mutant)))
    assert mutant != child


@settings(max_examples=30, deadline=None)
@given(spaces, seeds)
def test_neighbours_are_distinct_contained_and_others(space: ScheduleSpace, seed: int) -> None:
    here = space.sample(np.random.default_rng(seed))
    around = space.neighbours(here)
    assert around == space.neighbours(here)
    assert len(set(around)) == len(around) > 0
    assert here not in around
    assert all(map(space.contains, around))


@pytest.mark.parametrize("space", SPACES)
def test_promising_schedules_are_distinct_and_contained(space: ScheduleSpace) -> None:
    found = space.promising(200)
    assert len(set(found)) == len(found) > 0
    assert all(map(space.contains, found))
    assert space.promising(3) == found[:3]
    assert space.promising(0) == []


@settings(max_examples=30, deadline=None)
@given(spaces, seeds)
def test_a_child_takes_each_variable_from_a_parent(space: ScheduleSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = space.sample(rng), space.sample(rng)
    child = space.schedule(space.recombine(first, second, rng))
    for name, _ in space.nest.loops:
        steps = [
            [loop.step for loop in space.schedule(each).chain(name)] for each in (first, second)
        ]
        assert [loop.step for loop in child.chain(name)] in steps


@settings(deadline=None)
@given(spaces, seeds)
def test_a_child_of_twins_is_their_twin(space: ScheduleSpace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parent = space.sample(rng)
    assert space.recombine(parent, parent, rng) == parent


def test_a_seed_makes_draws_repeatable() -> None:
    space = space_of("matmul")
    draws = [[space.sample(np.random.default_rng(7)) for _ in range(3)] for _ in range(2)]
    assert draws[0] == draws[1]


def test_samples_vary() -> None:
    space, rng = space_of("matmul"), np.random.default_rng(0)
    assert len({space.sample(rng) for _ in range(100)}) > 80


# Neighbours


def test_a_neighbour_has_another_tile_another_order_or_another_mark() -> None:
    around = texts(space_of("matmul").neighbours(config("m:4 n:32 k m/u n/v")))
    for text in (
        "m:6 n:32 k m/u n/v",
        "m:4 n:64 k m/u n/v",
        "n:32 m:4 k m/u n/v",
        "m:4 n:32 k:4 k/u m/u n/v",
        "m n:32 k n/v",
        "m:4 n:32 k m n/v",
        "m:16 m:4 n:32 k m/u n/v",
    ):
        assert text in around


def test_the_classic_tile_is_a_few_steps_from_the_default() -> None:
    space = space_of("matmul")
    path = ["m n:16 k n/v", "m n:32 k n/v", "m:14 n:32 k m/u n/v", "n:32 m:14 k m/u n/v"]
    for here, there in pairwise(path):
        assert there in texts(space.neighbours(config(here)))


def test_parallel_loops_are_proposed_only_to_several_threads() -> None:
    for threads, expected in ((1, False), (4, True)):
        space = space_of("matmul", threads)
        rng = np.random.default_rng(0)
        proposed = [*space.neighbours(space.default()), *space.promising(20)]
        proposed += [space.sample(rng) for _ in range(20)]
        assert any("/p" in text for text in texts(proposed)) is expected
    assert space_of("matmul").contains(config("m/p n:16 k n/v"))


def test_a_second_plain_loop_on_the_only_variable_is_not_proposed() -> None:
    space = space_of("add")
    near = [space.schedule(each) for each in space.neighbours(config("i:64 i/v"))]
    assert near
    assert all(sum(loop.mark is Mark.NONE for loop in each.loops) <= 1 for each in near)
    assert space.contains(config("i:256 i:64 i/v"))


# Promising


def test_a_contraction_starts_with_large_tiles_of_different_widths() -> None:
    space = space_of("matmul")
    first = [space.schedule(each) for each in space.promising(6)]
    sizes = [accumulator_vectors(each, space.nest, 16) for each in first]
    assert min(sizes) >= 10
    assert len({each.chain("n")[0].step for each in first}) >= 4


def test_a_contraction_varies_order_unrolling_and_blocks() -> None:
    found = texts(space_of("matmul").promising(1000))
    for text in (
        "m:14 n:32 k m/u n/v",
        "n:32 m:14 k m/u n/v",
        "n:32 m:14 k:4 k/u m/u n/v",
        "k:128 n:32 m:14 k m/u n/v",
    ):
        assert text in found


def test_tiles_that_fit_the_shape_come_before_those_with_a_poor_tail() -> None:
    found = texts(ScheduleSpace(matmul_nest(60, 32, 512), lanes=16).promising(1000))
    assert found.index("n:16 m:12 k m/u n/v") < found.index("n:16 m:19 k m/u n/v")


def test_elementwise_nests_start_with_several_vectors() -> None:
    found = texts(space_of("add").promising(9))
    assert {"i:128 i/v", "i:64 i/v", "i:256 i/v"} < set(found)
    assert not {"i:32 i/v", "i:16 i/v"} & set(found)  # too few loads before a store


def test_elementwise_nests_also_try_vectors_of_half_the_size() -> None:
    found = texts(space_of("add").promising(9))
    assert {"i:32 i:8/u i/v", "i:64 i:8/u i/v"} < set(found)


def test_a_contiguous_reduction_has_several_accumulators() -> None:
    assert "i j:64 j:16/a j/v" in texts(space_of("sum over axis 1").promising(20))


def test_a_reduction_over_rows_is_unrolled_under_wide_rows() -> None:
    assert "j:64 i:4 i/u j/v" in texts(space_of("sum over axis 0").promising(20))


def test_a_short_reduction_is_unrolled_as_a_whole() -> None:
    assert "r/u" in texts(space_of("conv1d").promising(1))[0]


def test_a_sum_of_rows_starts_in_the_order_of_memory_with_some_rows_at_a_time() -> None:
    found = texts(space_of("sum over axis 0").promising(4))
    assert all(text.startswith("i:") and text.endswith("i/u j/v") for text in found)


# Stores past the caches

LARGE = ScheduleSpace(add_nest(4096), lanes=16, cache_elements=4096)


def test_stores_past_the_caches_are_proposed_only_where_the_arrays_do_not_fit() -> None:
    small = ScheduleSpace(add_nest(4096), lanes=16, cache_elements=3 * 4096)
    for space, expected in ((LARGE, True), (small, False)):
        rng = np.random.default_rng(0)
        proposed = [*space.neighbours(space.default()), *space.promising(8)]
        proposed += [space.sample(rng) for _ in range(20)]
        assert any("/s" in text for text in texts(proposed)) is expected
        assert space.contains(config("i:64 i/s"))


def test_streamed_vectors_are_whole() -> None:
    assert not LARGE.contains(config("i:24 i/s"))
    rows = ScheduleSpace(bias_nest(8, 40), lanes=16)
    assert not rows.contains(config("i j:16 j/s"))
    assert rows.contains(config("i j:8 j/s"))
    assert ScheduleSpace(bias_nest(8, 48), lanes=16).contains(config("i j:16 j/s"))


def test_streaming_is_one_step_away() -> None:
    around = texts(LARGE.neighbours(config("i:64 i/v")))
    assert "i:64 i/s" in around
    assert "i:64 i/v" in texts(LARGE.neighbours(config("i:64 i/s")))


@settings(deadline=None)
@given(seeds)
def test_what_is_bred_of_streaming_schedules_is_contained(seed: int) -> None:
    space = ScheduleSpace(bias_nest(32, 96), lanes=16, threads=4, cache_elements=1)
    rng = np.random.default_rng(seed)
    child = space.recombine(space.sample(rng), config("i j:16 j/s"), rng)
    assert space.contains(child)
    assert space.contains(space.mutate(child, rng))


# Features and digest


@settings(deadline=None)
@given(spaces, seeds)
def test_features_have_one_length_per_space(space: ScheduleSpace, seed: int) -> None:
    numbers = space.features(space.sample(np.random.default_rng(seed)))
    assert len(numbers) == len(space.features(space.default()))
    assert np.isfinite(numbers).all()


def test_features_name_step_range_mark_tail_and_place() -> None:
    numbers = ScheduleSpace(add_nest(36), lanes=16).features(config("i:16 i/v"))
    assert numbers[:3] == (0.0, 0.0, 2.0)
    assert numbers[3:8] == (0.0,) * 5
    assert numbers[8:13] == pytest.approx((4.0, np.log2(36), 0.0, 4 / 36, 0.5))
    assert numbers[13:] == (0.0, 4.0, 4.0, 0.0, 1.0)


@pytest.mark.parametrize("other", [add_nest(11), add_nest(10)])
def test_the_digest_depends_on_the_nest_and_the_limits(other: Nest) -> None:
    space = ScheduleSpace(add_nest(10), lanes=8)
    changed = ScheduleSpace(other, lanes=8, max_unrolled=511 if other == space.nest else 512)
    assert space.digest() == ScheduleSpace(add_nest(10), lanes=8).digest() != changed.digest()


def test_marks_of_two_parents_leave_one_vectorised_loop() -> None:
    space, rng = space_of("conv1d"), np.random.default_rng(0)
    first, second = config("o:16 r o/v"), config("o:4 o/u r/v")
    for _ in range(20):
        child = space.schedule(space.recombine(first, second, rng))
        assert sum(loop.mark is Mark.VECTORIZE for loop in child.loops) <= 1
