"""How threads share out a schedule: balanced, legal, and in long parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Nest
from skipjack.solvers.cpu.nest import Mark, Schedule, ScheduleSpace, is_legal, ranges, shared_out
from skipjack.testing import samples


def forms(text: str, nest: Nest, threads: int = 2) -> list[str]:
    return [each.text() for each in shared_out(Schedule.parse(text), nest, threads)]


def test_a_long_outermost_loop_is_shared_out_as_it_is() -> None:
    assert forms("i:64 i/v", samples.add_nest(10_000)) == ["i:64/p i/v"]
    assert forms("i j:16 j/v", samples.bias_nest(100, 64)) == ["i/p j:16 j/v"]


def test_three_rows_on_two_threads_are_cut_into_halves() -> None:
    found = forms("i j:16 j/v", samples.bias_nest(3, 10_000))
    assert found[0] == "j:5008/p i j:16 j/v"


def test_a_whole_sum_is_cut_into_pieces_with_partial_results() -> None:
    assert forms("i:64 i:16/a i/v", samples.mean_nest(8192)) == ["i:4096/p i:64 i:16/a i/v"]


def test_a_sum_of_rows_is_cut_along_long_rows_and_across_short_ones() -> None:
    assert forms("i:4 j:64 i/u j/v", samples.sum_nest(4096, 4096, 0))[0].startswith("j:2048/p ")
    assert forms("i:4 j:64 i/u j/v", samples.sum_nest(4096, 128, 0))[0].startswith("i:2048/p ")


@pytest.mark.parametrize("threads", [0, 1])
def test_one_thread_shares_nothing(threads: int) -> None:
    assert forms("i:64 i/v", samples.add_nest(10_000), threads) == []


NESTS = st.sampled_from(
    (
        samples.matmul_nest(30, 50, 70),
        samples.bias_nest(3, 500),
        samples.sum_nest(50, 60, 0),
        samples.sum_nest(3, 600, 1),
        samples.outer_sum_nest(4, 5, 600),
        samples.mean_nest(5000),
        samples.add_nest(3000),
    )
)


@settings(max_examples=60, deadline=None)
@given(NESTS, st.integers(2, 9), st.integers(0, 2**32))
def test_every_form_is_legal_and_keeps_nine_tenths_of_the_threads_busy(
    nest: Nest, threads: int, seed: int
) -> None:
    space = ScheduleSpace(nest, lanes=16)
    schedule = space.schedule(space.sample(np.random.default_rng(seed)))
    for form in shared_out(schedule, nest, threads):
        assert is_legal(form, nest)
        top = form.loops[0]
        assert top.mark is Mark.PARALLEL
        rounds = -(-ranges(form, nest)[0] // top.step)
        assert rounds / (-(-rounds // threads) * threads) >= 0.9
