"""What is observed of a game: of one size for every nest, and as documented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skipjack.core import Nest
from skipjack.errors import UsageError
from skipjack.learn.loops import (
    GLOBAL_COLUMNS,
    LOOP_COLUMNS,
    MAX_LOOPS,
    OBSERVATIONS,
    ROW_COLUMNS,
    GameState,
    LoopGame,
    Preset,
    observe,
    parse_actions,
    play,
)
from skipjack.solvers.cpu.nest import Schedule, ScheduleLimits
from skipjack.testing.samples import add_nest, bias_nest, conv1d_nest, matmul_nest, sum_nest

AVX2 = ScheduleLimits(lanes=8, registers=16, max_unrolled=512)
NESTS = (
    matmul_nest(112, 208, 256),
    matmul_nest(1, 1, 1),
    add_nest(100),
    bias_nest(7, 40),
    sum_nest(20, 50, 1),
    conv1d_nest(50, 3),
)
MATMUL = NESTS[0]


def game_of(nest: Nest = MATMUL, preset: Preset = Preset.FULL) -> LoopGame:
    return LoopGame(nest, AVX2, preset=preset)


def seen(name: str, schedule: str = "m:4 m k n", cursor: int = 1, **facts: Any) -> Any:
    return observe(game_of(), GameState(Schedule.parse(schedule), cursor), name, **facts)


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize("name", ["loops_tensor", "stride_tensor", "5_prev_actions_tensor"])
def test_tensors_have_one_size_for_every_nest(name: str, preset: Preset) -> None:
    games = [game_of(nest, preset) for nest in NESTS]
    found = [observe(game, game.start(), name) for game in games]
    assert len({tensor.shape for tensor in found}) == 1
    assert all(tensor.dtype == np.float32 and np.isfinite(tensor).all() for tensor in found)


def test_runtime_and_flops_are_those_of_the_measurement() -> None:
    assert seen("runtime", seconds=0.25).tolist() == [0.25]
    assert seen("flops", seconds=0.5, flops=10**9).tolist() == [2.0]
    assert seen("runtime").tolist() == seen("flops", flops=10**9).tolist() == [0.0]


def test_the_ir_is_the_nest_the_schedule_and_the_cursor() -> None:
    assert seen("ir").splitlines() == [
        "loops m=112 n=208 k=256",
        "body c[m,n] = sum(a[m,k] * b[k,n])",
        "schedule m:4 m k n",
        "cursor 1",
    ]


def test_the_loop_tree_shows_rounds_tails_marks_and_the_cursor() -> None:
    assert seen("loop_tree", "m:5 k m n:16 n/v", 2).splitlines() == [
        "for m in 22 r 2 : L0",
        " for k in 256 : L1",
        "  for m' in 5 : L2 <--",
        "   for n in 13 : L3",
        "    for n' in 16 : L4 vectorize",
        "     c[m,n] = sum(a[m,k] * b[k,n])",
    ]


def test_a_row_of_the_loops_tensor_describes_a_loop() -> None:
    tensor = seen("loops_tensor", "m:5 k m n:16 n/v", 2)
    assert tensor.shape == (MAX_LOOPS, len(LOOP_COLUMNS))
    first = dict(zip(LOOP_COLUMNS, tensor[0].tolist(), strict=True))
    assert first["size"] == pytest.approx(np.log2(23))
    assert first["tail"] == pytest.approx(np.log2(3))
    # A moves by 5 * 256 elements, C by 5 * 208.
    assert first["stride_bin_11"] == 1.0
    assert tensor[:, 0].tolist() == [0, 0, 1] + [0] * (MAX_LOOPS - 3)
    last = dict(zip(LOOP_COLUMNS, tensor[4].tolist(), strict=True))
    assert (last["vectorize"], last["reduces"], last["stride_bin_0"]) == (1.0, 0.0, 1.0)
    assert not tensor[5:].any()


def test_the_stride_tensor_counts_accesses_by_powers_of_two() -> None:
    tensor = observe(game_of(add_nest(100)), GameState(Schedule.parse("i")), "stride_tensor")
    assert len(tensor) == 32
    assert tensor[0] == pytest.approx(np.log2(1 + 300))
    assert not tensor[1:].any()


def test_the_previous_actions_are_one_hot_and_the_newest_comes_first() -> None:
    game = game_of(preset=Preset.LOOPTUNE)
    tensor = observe(game, game.start(), "5_prev_actions_tensor", [6, 1, 2, 3, 4, 0])
    assert tensor.reshape(5, 7).argmax(axis=1).tolist() == [0, 4, 3, 2, 1]
    assert observe(game, game.start(), "5_prev_actions_tensor", [3]).sum() == 1.0


def test_the_graphs_have_loops_arrays_and_strides() -> None:
    pytest.importorskip("networkx")
    tree, graph = seen("ir_tree_networkx"), seen("ir_graph_networkx")
    assert list(tree.nodes) == ["L0", "L1", "L2", "L3", "body"]
    assert tree.nodes["L1"]["cursor"] == 1
    assert tree.nodes["L0"]["size"] == 28
    assert set(graph.nodes) - set(tree.nodes) == {"a", "b", "c"}
    assert graph.edges["L0", "a"]["stride"] == 4 * 256
    assert not graph.has_edge("L0", "b")
    assert graph == seen("ir_graph_networkx") != seen("ir_graph_networkx", cursor=0)


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize("nest", NESTS)
def test_what_policies_see_is_of_one_size_and_small(nest: Nest, preset: Preset) -> None:
    game = game_of(nest, preset)
    rng = np.random.default_rng(7)
    state, history = game.start(), []
    for _ in range(20):
        view = observe(game, state, "policy", history)
        assert view["loops"].shape == (MAX_LOOPS, len(ROW_COLUMNS))
        assert view["globals"].shape == (len(GLOBAL_COLUMNS),)
        assert view["rows"].sum() == len(state.schedule.loops)
        assert not view["loops"][view["rows"] == 0].any()
        for part in (view["loops"], view["globals"]):
            assert np.isfinite(part).all() and np.abs(part).max(initial=0) <= 3
        moves = np.flatnonzero(game.mask(state)[:-1])
        if not len(moves):
            break
        history.append(int(rng.choice(moves)))
        state = game.apply(state, history[-1])


def test_an_unknown_observation_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no observation 'loops'; choose from runtime, flops"):
        seen("loops")
    assert len(OBSERVATIONS) == 10


def test_actions_are_read_from_a_text_and_played() -> None:
    game = game_of(preset=Preset.LOOPTUNE)
    states = list(play(game, parse_actions("split_4, down,swap_down", game)))
    assert [state.schedule.text() for state in states] == ["m:4 m k n", "m:4 m k n", "m:4 k m n"]
    assert not list(play(game, parse_actions("", game)))


def test_an_illegal_action_is_named_with_its_place_and_the_reason() -> None:
    game = game_of(preset=Preset.LOOPTUNE)
    with pytest.raises(UsageError, match="action 2 of 2, 'jump', is not an action of the preset"):
        parse_actions("down,jump", game)
    with pytest.raises(UsageError, match=r"action 2 of 2, swap_down, is not legal: .* cross"):
        list(play(game, parse_actions("split_4,swap_down", game)))
