"""The game on loop nests: what actions do, and that masks equal exact legality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Access, Nest, Tensor, index
from skipjack.errors import ScheduleError
from skipjack.learn.loops import MAX_LOOPS, GameState, LoopGame, Preset, finish, untuned
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits, ScheduleSpace
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
    matmul_nest(1, 1, 1),
    add_nest(100),
    add_nest(4096),
    bias_nest(7, 40),
    bias_nest(7, 4096),
    sum_nest(20, 50, 0),
    sum_nest(20, 512, 1),
    conv1d_nest(50, 3),
    mean_nest(30),
    outer_sum_nest(6, 5, 7),
    replace(mean_nest(30), output=Access(Tensor("y", (2,)), (index("i", 0),))),
)
AVX2 = ScheduleLimits(lanes=8, registers=16, max_unrolled=512)
AVX512 = ScheduleLimits(lanes=16, registers=32, max_unrolled=512)
SMALL = ScheduleLimits(lanes=4, registers=4, max_unrolled=24)


def full(nest: Nest = MATMUL, start: str = "", **options: int) -> LoopGame:
    """A game with all actions."""
    chosen = Schedule.parse(start) if start else None
    streaming, threads = bool(options.get("streaming")), options.get("threads", 1)
    return LoopGame(
        nest, AVX2, preset=Preset.FULL, threads=threads, streaming=streaming, start=chosen
    )


def played(game: LoopGame, actions: str) -> tuple[str, int]:
    """The schedule's text and the cursor after some actions."""
    state = game.start()
    for name in actions.split():
        state = game.apply(state, game.number(name))
    return state.schedule.text(), state.cursor


def is_legal(game: LoopGame, state: GameState, action: int) -> bool:
    """By trying it."""
    try:
        after = game.apply(state, action)
    except ScheduleError:
        return False
    assert game.limits.admit(after.schedule, game.nest)
    assert len(after.schedule.loops) <= MAX_LOOPS
    assert 0 <= after.cursor < max(1, len(after.schedule.loops))
    return True


def test_the_presets_have_the_actions_of_the_document_and_all() -> None:
    assert Preset.LOOPTUNE.actions == (
        *("up", "down", "swap_up", "swap_down"),
        *("split_4", "split_8", "split_16"),
    )
    assert Preset.FULL.actions == (
        *("up", "down", "swap_up", "swap_down"),
        *(f"split_{factor}" for factor in (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 28, 32)),
        *(f"split_{factor}" for factor in (40, 48, 56, 64, 80, 96, 112, 128, 256, 512, 1024)),
        *("merge", "unroll", "vectorize", "accumulate", "parallel", "stream", "stop"),
    )


def test_a_game_starts_with_the_best_loop_to_vectorise_innermost() -> None:
    assert played(full(), "") == ("m k n", 0)
    turned = replace(MATMUL, loops=(("n", 208), ("m", 112), ("k", 256)))
    assert untuned(turned).text() == "m k n"
    assert untuned(matmul_nest(1, 1, 1)).text() == ""


def test_the_cursor_moves_and_goes_with_a_loop_that_is_swapped() -> None:
    assert played(full(), "down down up") == ("m k n", 1)
    assert played(full(), "swap_down") == ("k m n", 1)
    assert played(full(), "down swap_up") == ("k m n", 0)


def test_a_split_leaves_the_cursor_on_the_new_outer_loop() -> None:
    assert played(full(), "split_4") == ("m:4 m k n", 0)
    assert played(full(start="m k n/v"), "down down split_16") == ("m k n:16 n/v", 2)
    assert played(full(start="m:16 n:8 k m/u n/v"), "down down down split_4") == (
        "m:16 n:8 k m:4 m/u n/v",
        3,
    )


def test_after_a_merge_the_cursor_is_on_the_loop_that_covers_the_range() -> None:
    start = "m:16 k m:4 n m"
    assert played(full(start=start), "merge") == ("k m:4 n m", 1)
    assert played(full(start=start), "down down merge") == ("m:16 k n m", 3)
    assert played(full(start=start), "down down down down merge") == ("m:16 k n m", 3)


def test_a_mark_is_set_changed_and_taken_off() -> None:
    assert played(full(), "down down vectorize")[0] == "m k n/v"
    assert played(full(), "down down vectorize vectorize")[0] == "m k n"
    assert played(full(), "down down split_8 down vectorize")[0] == "m k n:8 n/v"


def test_a_swap_that_would_only_move_the_cursor_is_illegal() -> None:
    game = full(start="m:4 m k n")
    assert not game.mask(game.start())[game.number("swap_down")]
    with pytest.raises(ScheduleError, match="cannot cross another loop on m"):
        game.apply(game.start(), game.number("swap_down"))


def test_what_is_beyond_the_machine_is_illegal() -> None:
    one, two = full(), full(threads=2)
    assert not one.mask(one.start())[one.number("parallel")]
    assert two.mask(two.start())[two.number("parallel")]
    wide = full(matmul_nest(64, 1024, 64), "m k n")
    last = GameState(wide.start().schedule, 2)
    assert not wide.mask(last)[wide.number("vectorize")]  # 128 vectors of sums
    with pytest.raises(ScheduleError, match="exceeds the machine's limits"):
        wide.apply(last, wide.number("vectorize"))


def test_after_stop_nothing_is_legal() -> None:
    game = full()
    ended = game.apply(game.start(), game.number("stop"))
    assert ended.stopped
    assert not game.mask(ended).any()
    with pytest.raises(ScheduleError, match="ended"):
        game.apply(ended, 0)


def test_a_nest_whose_loops_all_run_once_can_only_be_stopped() -> None:
    game = full(matmul_nest(1, 1, 1))
    mask = game.mask(game.start())
    assert mask.nonzero()[0].tolist() == [game.number("stop")]
    assert not LoopGame(matmul_nest(1, 1, 1), AVX2, preset=Preset.LOOPTUNE).mask(game.start()).any()


def test_an_unknown_action_is_refused_with_those_there_are() -> None:
    with pytest.raises(ScheduleError, match="no action 'split_9'"):
        full().number("split_9")


def test_a_looptune_game_does_not_start_with_marks() -> None:
    with pytest.raises(ScheduleError, match="must not have marks"):
        LoopGame(MATMUL, AVX2, preset=Preset.LOOPTUNE, start=Schedule.parse("m k n/v"))


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    nest=st.sampled_from(NESTS),
    limits=st.sampled_from((AVX2, AVX512, SMALL)),
    threads=st.sampled_from((1, 2)),
    streaming=st.booleans(),
    preset=st.sampled_from(tuple(Preset)),
    sampled=st.booleans(),
)
def test_masks_equal_exact_legality(
    seed: int,
    nest: Nest,
    limits: ScheduleLimits,
    threads: int,
    streaming: bool,
    preset: Preset,
    sampled: bool,
) -> None:
    rng = np.random.default_rng(seed)
    start = None
    if sampled and preset is Preset.FULL:
        space = ScheduleSpace(
            nest,
            limits.lanes,
            limits.registers,
            limits.max_unrolled,
            threads,
            cache_elements=int(streaming),
        )
        start = space.schedule(space.sample(rng))
        streaming = space.streaming
        if len(start.loops) > MAX_LOOPS or not limits.allow(start, nest):
            start = None
    game = LoopGame(nest, limits, preset=preset, threads=threads, streaming=streaming, start=start)
    state = game.start()
    if state.schedule.loops:
        state = replace(state, cursor=int(rng.integers(len(state.schedule.loops))))
    for _ in range(25):
        mask = game.mask(state)
        exact = [is_legal(game, state, action) for action in range(len(game.actions))]
        assert mask.tolist() == exact, state
        moves = np.flatnonzero(mask[: len(mask) - (preset is Preset.FULL)])
        if not len(moves):
            break
        state = game.apply(state, int(rng.choice(moves)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    nest=st.sampled_from(NESTS),
    limits=st.sampled_from((AVX2, AVX512, SMALL)),
)
def test_what_looptune_builds_keeps_within_the_limits(
    seed: int, nest: Nest, limits: ScheduleLimits
) -> None:
    rng = np.random.default_rng(seed)
    game = LoopGame(nest, limits, preset=Preset.LOOPTUNE)
    state = game.start()
    for _ in range(12):
        assert limits.admit(game.built(state), nest), state
        moves = np.flatnonzero(game.mask(state))
        if not len(moves):
            break
        state = game.apply(state, int(rng.choice(moves)))


@pytest.mark.parametrize(
    ("text", "limits", "built"),
    [
        ("m k n", AVX2, "m k n:64 n/v"),
        ("m:4 n:16 k m n", AVX2, "m:4 n:16 k m/u n/v"),
        ("m:4 n:16 k:4 k m n", AVX2, "m:4 n:16 k:4 k/u m/u n/v"),
        ("m n:16 k:4 k n", AVX2, "m n:16 k:4 k/a n/v"),
        ("m:16 n:32 k m n", AVX2, "m:16 n:32 k m n/v"),
        ("m:8 n:32 k m n", AVX512, "m:8 n:32 k m/u n/v"),
        ("m n k", AVX2, "m n k:8 k/u"),
    ],
)
def test_finish_marks_from_the_innermost_loop_outwards(
    text: str, limits: ScheduleLimits, built: str
) -> None:
    assert finish(Schedule.parse(text), MATMUL, limits).text() == built


def test_finish_gives_sums_in_vectors_several_accumulators() -> None:
    nest = sum_nest(20, 4096, 1)
    assert finish(Schedule.parse("i j:32 j:8 j"), nest, AVX2).text() == "i j:32 j:8/a j/v"
