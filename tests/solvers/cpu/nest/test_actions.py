"""Actions on schedules: what each does, and that the list of legal ones is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Access, Nest, Tensor, index
from skipjack.errors import ScheduleError
from skipjack.solvers.cpu.nest import (
    Action,
    ActionKind,
    ActionRules,
    LegalActions,
    Loop,
    Mark,
    Schedule,
    ScheduleSpace,
    all_actions,
    apply,
    is_legal,
    legal_actions,
    mark,
    merge,
    move,
    normalize,
    split,
    swap,
)
from skipjack.testing.samples import (
    add_nest,
    bias_nest,
    conv1d_nest,
    matmul_nest,
    mean_nest,
    outer_sum_nest,
    sum_nest,
)

MATMUL = matmul_nest(112, 208, 256)
NESTS = (
    MATMUL,
    matmul_nest(5, 7, 1),
    add_nest(100),
    bias_nest(7, 40),
    sum_nest(20, 50, 0),
    sum_nest(20, 50, 1),
    conv1d_nest(50, 3),
    mean_nest(30),
    replace(mean_nest(30), output=Access(Tensor("y", (2,)), (index("i", 0),))),
    outer_sum_nest(6, 5, 7),
)
FACTORS = (2, 3, 16)


def after(text: str, action: Callable[..., Schedule], *arguments: int | Mark) -> str:
    return action(Schedule.parse(text), MATMUL, *arguments).text()


def refused(text: str, action: Callable[..., Schedule], *arguments: int | Mark) -> str:
    with pytest.raises(ScheduleError) as caught:
        action(Schedule.parse(text), MATMUL, *arguments)
    return str(caught.value)


def test_a_split_puts_a_longer_step_around_a_loop() -> None:
    assert after("m n k", split, 0, 12) == "m:12 m n k"
    assert after("m:4 n k m", split, 0, 3) == "m:12 m:4 n k m"


def test_a_split_of_a_marked_loop_puts_the_outer_one_above_the_suffix() -> None:
    assert after("m k n/v", split, 2, 16) == "m k n:16 n/v"
    assert after("n:32 k m/u n/v", split, 2, 4) == "n:32 k m:4 m/u n/v"
    assert after("n:64 k m/u n:16/u n/v", split, 3, 2) == "n:64 k n:32 m/u n:16/u n/v"


def test_a_split_that_would_lie_outside_of_a_longer_step_is_refused() -> None:
    assert "runs once" in refused("m n:64 k n:16/u n/v", split, 4, 4)


def test_a_split_of_a_parallel_loop_leaves_the_outer_one_parallel() -> None:
    assert after("m/p n/p k", split, 0, 8) == "m:8/p n/p m k"


def test_a_split_needs_a_factor_that_leaves_several_steps() -> None:
    assert after("m n k", split, 0, 111) == "m:111 m n k"
    for factor in (112, 1, 0, -3):
        assert "cannot be split" in refused("m n k", split, 0, factor)


def test_a_merge_removes_the_loop_or_for_the_innermost_the_next_outer_one() -> None:
    assert after("m:16 n m:4 k m", merge, 0) == "n m:4 k m"
    assert after("m:16 n m:4 k m", merge, 2) == "m:16 n k m"
    assert after("m:16 n m:4 k m", merge, 4) == "m:16 n k m"
    assert "nothing to merge" in refused("m n k", merge, 1)


def test_a_swap_exchanges_with_the_next_inner_loop() -> None:
    assert after("m n k", swap, 1) == "m k n"
    assert after("n:16 k m/u n/v", swap, 2) == "n:16 k n/v m/u"
    assert "cannot cross" in refused("m:4 m n k", swap, 0)
    assert "straight-line" in refused("m n:16 k n/v", swap, 2)
    assert "nothing to swap" in refused("m n k", swap, 2)


def test_a_moved_loop_ends_at_the_position_named() -> None:
    assert after("m n k", move, 0, 2) == "n k m"
    assert after("m n k", move, 2, 0) == "k m n"
    assert "already" in refused("m n k", move, 1, 1)
    assert "cannot cross" in refused("m:4 n m k", move, 2, 0)
    assert "no loop at position 3" in refused("m n k", move, 0, 3)


def test_a_mark_is_set_changed_and_cleared() -> None:
    assert after("m k n", mark, 2, Mark.VECTORIZE) == "m k n/v"
    assert after("m k n/v", mark, 2, Mark.UNROLL) == "m k n/u"
    assert after("m k n/v", mark, 2, Mark.NONE) == "m k n"
    assert after("m n k", mark, 2, Mark.ACCUMULATE) == "m n k/a"
    assert after("m n k", mark, 0, Mark.PARALLEL) == "m/p n k"
    assert "already" in refused("m k n/v", mark, 2, Mark.VECTORIZE)
    assert "straight-line" in refused("m k n", mark, 0, Mark.UNROLL)


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_outside_of_the_schedule_is_refused(position: int) -> None:
    for action in (Action(kind, position) for kind in ActionKind if kind is not ActionKind.MARK):
        with pytest.raises(ScheduleError, match="no loop at position"):
            apply(action, Schedule.parse("m n k"), MATMUL)


def test_an_action_takes_the_argument_of_its_kind() -> None:
    with pytest.raises(ScheduleError):
        Action(ActionKind.MARK, 0, 3)
    with pytest.raises(ScheduleError):
        Action(ActionKind.SPLIT, 0, Mark.UNROLL)


def test_actions_have_readable_texts() -> None:
    texts = [str(Action(ActionKind.SPLIT, 0, 4)), str(Action(ActionKind.MARK, 2, Mark.VECTORIZE))]
    assert texts == ["split 0 4", "mark 2 v"]


def walk(nest: Nest, rng: np.random.Generator, steps: int) -> Iterator[Schedule]:
    """Schedules along random actions, from the plain loops or from a promising schedule.

    Streaming has rules of its own, so every second chance to mark a stream is taken.
    """
    space = ScheduleSpace(nest, lanes=4, threads=2, cache_elements=1)
    starts = [normalize([Loop(name) for name, _ in nest.loops], nest)]
    starts += map(space.schedule, space.promising(20))
    schedule = starts[int(rng.integers(len(starts)))]
    for _ in range(steps):
        yield schedule
        listed = legal_actions(schedule, nest, FACTORS)
        streams = [action for action in listed if action.argument is Mark.STREAM]
        listed = streams if streams and rng.random() < 0.5 else listed
        if not listed:
            return
        schedule = apply(listed[int(rng.integers(len(listed)))], schedule, nest)


def result_of(action: Action, schedule: Schedule, nest: Nest) -> Schedule | None:
    try:
        return apply(action, schedule, nest)
    except ScheduleError:
        return None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NESTS), st.integers(0, 2**32))
def test_what_is_called_legal_is_what_can_be_applied(nest: Nest, seed: int) -> None:
    for schedule in walk(nest, np.random.default_rng(seed), steps=6):
        actions = all_actions(len(schedule.loops), FACTORS)
        results = [result_of(action, schedule, nest) for action in actions]
        made = [result for result in results if result is not None]
        assert all(is_legal(result, nest) and result != schedule for result in made)
        able = [action for action, result in zip(actions, results, strict=True) if result]
        assert legal_actions(schedule, nest, FACTORS) == able, schedule.text()


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(NESTS), st.integers(0, 2**32), st.integers(0, 12))
def test_the_mask_of_a_fixed_family_fits_schedules_of_every_length(
    nest: Nest, seed: int, loops: int
) -> None:
    rules = ActionRules(nest)
    actions = all_actions(loops, FACTORS)
    for schedule in walk(nest, np.random.default_rng(seed), steps=6):
        legal = LegalActions(schedule, rules)
        able = [result_of(action, schedule, nest) is not None for action in actions]
        assert legal.mask(loops, FACTORS) == able, schedule.text()
        assert [legal.allows(action) for action in actions] == able, schedule.text()


def test_an_action_on_a_loop_that_is_not_there_is_not_legal() -> None:
    legal = LegalActions(Schedule.parse("m n k"), ActionRules(MATMUL))
    for position in (-1, 3):
        assert not legal.allows(Action(ActionKind.MERGE, position))
        assert not legal.allows(Action(ActionKind.MARK, position, Mark.UNROLL))


def test_nothing_makes_a_stream_read_its_output_again() -> None:
    legal = {str(action) for action in legal_actions(Schedule.parse("m k n/s"), MATMUL)}
    assert not legal & {"split 2 2", "move 1 0", "swap 0"}
    assert {"split 0 2", "split 1 2", "mark 2", "mark 1 u"} <= legal
    partial = legal_actions(Schedule.parse("i/p j"), sum_nest(20, 50, 0))
    assert "mark 1 s" not in map(str, partial)


def test_the_list_of_a_plain_nest_is_known() -> None:
    plain = Schedule.parse("i")
    texts = [str(action) for action in legal_actions(plain, add_nest(10), factors=(2, 9, 10))]
    assert texts == ["split 0 2", "split 0 9", "mark 0 v", "mark 0 u", "mark 0 p", "mark 0 s"]
