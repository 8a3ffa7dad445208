"""Schedules: text, normal form, legality, and that every iteration runs exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Access, Accumulator, Call, Constant, Load, Nest, Tensor
from skipjack.errors import ScheduleError
from skipjack.solvers.cpu.nest import (
    Loop,
    Mark,
    Schedule,
    apply,
    can_vectorize,
    check,
    is_legal,
    legal_actions,
    loop_range,
    normalize,
)
from skipjack.testing.samples import (
    add_nest,
    bias_nest,
    conv1d_nest,
    matmul_nest,
    sum_nest,
    transpose_nest,
)

MATMUL = matmul_nest(112, 208, 256)
SMALL = (
    matmul_nest(5, 7, 3),
    matmul_nest(1, 6, 4),
    add_nest(13),
    bias_nest(4, 9),
    sum_nest(5, 6, 0),
    sum_nest(5, 6, 1),
    conv1d_nest(9, 3),
)

loops = st.builds(
    Loop, st.sampled_from(["m", "n", "k"]), st.integers(1, 300), st.sampled_from(list(Mark))
)
schedules = st.lists(loops, max_size=7).map(lambda each: Schedule(tuple(each)))


def visited(schedule: Schedule, nest: Nest) -> Iterator[tuple[int, ...]]:
    """Run the loops and return the indices of every iteration, or nothing if the body gets
    several."""
    names = [name for name, _ in nest.loops]

    def run(position: int, box: dict[str, tuple[int, int]]) -> Iterator[tuple[int, ...]]:
        if position == len(schedule.loops):
            if all(length == 1 for _, length in box.values()):
                yield tuple(box[name][0] for name in names)
            return
        loop = schedule.loops[position]
        start, length = box[loop.variable]
        for offset in range(0, length, loop.step):
            part = (start + offset, min(loop.step, length - offset))
            yield from run(position + 1, {**box, loop.variable: part})

    return run(0, {name: (0, extent) for name, extent in nest.loops})


def walk(nest: Nest, seed: int, steps: int) -> Schedule:
    """A legal schedule some random actions away from the plain one."""
    rng = np.random.default_rng(seed)
    schedule = normalize([Loop(name) for name, _ in nest.loops], nest)
    for _ in range(steps):
        actions = legal_actions(schedule, nest, factors=(2, 3, 4))
        schedule = apply(actions[int(rng.integers(len(actions)))], schedule, nest)
    return schedule


def fault(text: str, nest: Nest = MATMUL) -> str:
    with pytest.raises(ScheduleError) as caught:
        check(Schedule.parse(text), nest)
    return str(caught.value)


# Text


def test_the_text_leaves_out_steps_of_one_and_missing_marks() -> None:
    schedule = Schedule((Loop("m", 4), Loop("k"), Loop("m", 1, Mark.UNROLL)))
    assert schedule.text() == str(schedule) == "m:4 k m/u"


@settings(deadline=None)
@given(schedules)
def test_a_schedule_is_parsed_back_from_its_text(schedule: Schedule) -> None:
    assert Schedule.parse(schedule.text()) == schedule


@settings(deadline=None)
@given(st.text(alphabet="mn01 :/vux-", max_size=9))
def test_what_parses_is_its_own_canonical_text(text: str) -> None:
    try:
        schedule = Schedule.parse(text)
    except ScheduleError:
        return
    assert schedule.text() == text


@pytest.mark.parametrize(
    "text", ["m:", "m:0", "m:1", "m:04", "m/x", "m/", "m:4/u/v", " m", "m  n", "m\n", "4", "m:-2"]
)
def test_other_spellings_are_refused_with_one_line(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Schedule.parse(text)
    assert "\n" not in str(caught.value)


def test_a_loop_needs_a_name_and_a_positive_step() -> None:
    for name, step in (("", 1), ("m n", 1), ("m", 0), ("m", 10**18)):
        with pytest.raises(ScheduleError):
            Loop(name, step)


# Ranges


def test_a_range_is_the_step_of_the_next_outer_loop_or_the_extent() -> None:
    schedule = Schedule.parse("m:12 n:32 k m/u n/v")
    assert [loop_range(schedule, at, MATMUL) for at in range(5)] == [112, 208, 256, 12, 32]


# Normal form


def test_loops_that_run_once_are_dropped() -> None:
    tight = normalize(Schedule.parse("m:200 n:208 m:4 k m:8 m/u n/v").loops, MATMUL)
    assert tight.text() == "m:4 k m/u n/v"


@settings(deadline=None)
@given(schedules)
def test_normal_form_is_idempotent(schedule: Schedule) -> None:
    nest = matmul_nest(64, 100, 1)
    once = normalize(schedule.loops, nest)
    assert normalize(once.loops, nest) == once


@settings(deadline=None)
@given(st.lists(st.builds(Loop, st.sampled_from("mnk"), st.integers(1, 9)), max_size=5))
def test_normal_form_visits_in_the_same_order(outer: list[Loop]) -> None:
    nest = matmul_nest(5, 7, 3)
    loose = Schedule((*outer, Loop("m"), Loop("n"), Loop("k")))
    tight = normalize(loose.loops, nest)
    assert is_legal(tight, nest)
    assert list(visited(tight, nest)) == list(visited(loose, nest))


# Legality


@pytest.mark.parametrize(
    ("text", "nest"),
    [
        ("m:12 n:32 k m/u n/v", MATMUL),
        ("m:4 n:64 k:4 k/u m/u n/v", MATMUL),
        ("k:128 m:4/u k/a m/u n/v", MATMUL),
        ("m/p n:16/p k n/v", MATMUL),
        ("m:4 n:16 k m:2/u n/v m/u", MATMUL),
        ("m:4 n:16 k m/u n/s", MATMUL),
        ("k:64/p m n:16 k n/v", MATMUL),
        ("i:64/p i/s", add_nest(1000)),
        ("j:32/p i j:16 j/v", sum_nest(10, 100, 1)),
        ("i j:64 j:16/a j/v", sum_nest(10, 100, 1)),
        ("j:64 i:4 i/u j/v", sum_nest(10, 100, 0)),
        ("i:16 i/v", add_nest(100)),
        ("o:32 r/u o/v", conv1d_nest(100, 5)),
        ("o:4 o/u r/v", conv1d_nest(100, 5)),
        ("n k", matmul_nest(1, 8, 8)),
        ("", matmul_nest(1, 1, 1)),
    ],
)
def test_legal_schedules_pass(text: str, nest: Nest) -> None:
    check(Schedule.parse(text), nest)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("m n", "k has no loop"),
        ("m n k z", "no variable z"),
        ("m:4 n k", "innermost loop on m has a step of 4"),
        ("m:4 m:4 m n k", "runs once"),
        ("m:112 n k m", "runs once"),
        ("m:4 m:8 m n k", "runs once"),
        ("m/u n k", "straight-line"),
        ("m n/p k", "not parallel"),
        ("n k/p m", "not parallel"),
        ("k/p m/p n", "not the only parallel loop"),
        ("m/p k/p n", "not the only parallel loop"),
        ("k m n/s", "reads the output again"),
        ("m k n:16/s n", "straight-line"),
        ("k m n/a", "nothing to accumulate"),
        ("n k m/v", "cannot be vectorised"),
        ("m n k/v", "cannot be vectorised"),
        ("m k n:16/v n/u", "must have a step of 1"),
    ],
)
def test_illegal_schedules_are_refused_with_a_reason(text: str, reason: str) -> None:
    assert reason in fault(text)
    assert not is_legal(Schedule.parse(text), MATMUL)


def test_a_reduced_variable_cannot_be_stored_past_the_caches() -> None:
    assert "it reduces" in fault("i j:16 j/s", sum_nest(10, 100, 1))


def test_partial_results_need_an_output_of_which_each_element_is_written() -> None:
    nest = sum_nest(10, 100, 1)
    wider = replace(nest, output=Access(Tensor("y", (20,)), nest.output.indices))
    check(Schedule.parse("j:10/p i j"), nest)
    assert "does not write all of its output" in fault("j:10/p i j", wider)


def test_partial_results_go_through_an_epilogue_that_reads_nothing() -> None:
    nest = sum_nest(10, 100, 1)
    halved = replace(nest, epilogue=Call("mul", (Accumulator(), Constant(0.5))))
    check(Schedule.parse("j:10/p i j"), halved)
    reading = replace(nest, epilogue=Call("add", (Accumulator(), Load(0))))
    assert "reads arrays" in fault("j:10/p i j", reading)


def test_a_variable_that_runs_once_has_no_loop() -> None:
    assert "runs once" in fault("m n k", matmul_nest(1, 8, 8))


def test_only_one_loop_is_vectorised() -> None:
    assert "both vectorised" in fault("o:4 o/v r/v", conv1d_nest(100, 5))


def test_what_can_be_vectorised_is_contiguous() -> None:
    assert [name for name in "mnk" if can_vectorize(name, MATMUL)] == ["n"]
    assert [name for name in "ij" if can_vectorize(name, bias_nest(4, 8))] == ["j"]
    assert [name for name in "ij" if can_vectorize(name, sum_nest(4, 8, 0))] == ["j"]
    assert [name for name in "ij" if can_vectorize(name, sum_nest(4, 8, 1))] == ["j"]
    assert [name for name in "or" if can_vectorize(name, conv1d_nest(9, 3))] == ["o", "r"]
    assert [name for name in "ij" if can_vectorize(name, transpose_nest(4, 8))] == []


# Meaning


def visits_all_once(schedule: Schedule, nest: Nest) -> bool:
    everything = product(*(range(extent) for _, extent in nest.loops))
    return Counter(visited(schedule, nest)) == Counter(everything)


@settings(deadline=None)
@given(st.sampled_from(SMALL), st.integers(0, 2**32), st.integers(0, 8))
def test_a_legal_schedule_visits_every_iteration_once(nest: Nest, seed: int, steps: int) -> None:
    assert visits_all_once(walk(nest, seed, steps), nest)


def test_plain_schedules_are_legal_exactly_if_they_visit_all_and_no_loop_is_idle() -> None:
    nest = bias_nest(4, 3)
    words = [Loop(name, step) for name in "ij" for step in (1, 2, 3, 4)]
    legal = 0
    for length in range(5):
        for chosen in product(words, repeat=length):
            schedule = Schedule(chosen)
            idle = normalize(chosen, nest) != schedule
            assert is_legal(schedule, nest) == (visits_all_once(schedule, nest) and not idle)
            legal += is_legal(schedule, nest)
    assert legal > 20


@settings(deadline=None)
@given(st.sampled_from(SMALL), st.integers(0, 2**32), st.integers(0, 8))
def test_a_legal_schedule_is_in_normal_form(nest: Nest, seed: int, steps: int) -> None:
    schedule = walk(nest, seed, steps)
    assert normalize(schedule.loops, nest) == schedule
