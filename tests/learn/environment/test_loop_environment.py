"""The environment of gymnasium: it passes the checker, never raises, and replays exactly."""

# ruff: noqa: E402
# Optional packages may be missing, so their imports are tried first.

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env

import skipjack.loops
from skipjack.core import Device, Problem
from skipjack.errors import UsageError
from skipjack.learn.environment import LoopNestEnv
from skipjack.learn.loops import OBSERVATIONS, Preset
from skipjack.learn.rates import LoopTable, TableHeader, write_table
from skipjack.solvers.cpu.nest import Schedule

CPU = Device(
    "cpu", "haswell", 1, vector_bytes=32, caches=(("L1", 1 << 15), ("L2", 1 << 18), ("L3", 1 << 23))
)
PROBLEMS = ("matmul:64x64x64", "matmul:48x80x112", "sum:64x512/axis=1", "add:64x100")


class FakeRates:
    """Times that follow from the text of a schedule; some schedules cannot be built."""

    measured = 0
    sources: dict[str, int] = {}  # noqa: RUF012 - nobody writes to it

    def __init__(self, failing: str = "") -> None:
        self.failing, self.asked = failing, 0

    def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
        self.asked += len(schedules)
        if self.failing == "raise":
            raise RuntimeError("the worker is gone")
        return [self._one(schedule) for schedule in schedules]

    def _one(self, schedule: Schedule) -> float | None:
        text = schedule.text()
        if self.failing and self.failing in text:
            return None
        return 1e-5 * (1 + sum(map(ord, text)) % 97)


def make(**options: Any) -> LoopNestEnv:
    chosen = {"rates": FakeRates(), "device": CPU, "max_gflops": 100.0, **options}
    return LoopNestEnv(chosen.pop("dataset", PROBLEMS), **chosen)


def made(**options: Any) -> Any:
    chosen = {"rates": FakeRates(), "device": CPU, "max_gflops": 100.0, "dataset": PROBLEMS}
    return gymnasium.make(skipjack.loops.ENVIRONMENT, **{**chosen, **options})


def random_episode(env: LoopNestEnv, seed: int, steps: int = 50) -> list[float]:
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    rewards = []
    for _ in range(steps):
        _, reward, over, cut, _ = env.step(rng.choice(np.flatnonzero(env.action_masks())))
        rewards.append(float(reward))
        if over or cut:
            break
    return rewards


@pytest.mark.parametrize("preset", Preset)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_the_checker_passes(name: str, preset: Preset) -> None:
    if "networkx" in name:
        pytest.importorskip("networkx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(made(observation=name, preset=preset, render_mode="ansi").unwrapped)


def test_several_observations_are_a_dictionary_and_the_mask_can_be_one_of_them() -> None:
    both = ("loops_tensor", "5_prev_actions_tensor")
    env = made(observation=both, action_mask=True)
    seen, _ = env.reset(seed=1)
    assert seen.keys() == {*both, "action_mask"}
    assert seen in env.observation_space
    single, _ = made(observation="stride_tensor", action_mask=True).reset(seed=1)
    assert single.keys() == {"observations", "action_mask"}
    view, _ = made(observation="policy", action_mask=True).reset(seed=1)
    assert view.keys() == {"loops", "rows", "globals", "action_mask"}


def test_the_mask_is_the_same_in_all_three_conventions() -> None:
    env = make(action_mask=True, preset="full")
    seen, info = env.reset(seed=3)
    for _ in range(20):
        mask = env.action_masks()
        assert mask.dtype == np.bool_
        assert info["action_mask"].dtype == seen["action_mask"].dtype == np.int8
        assert mask.tolist() == info["action_mask"].astype(bool).tolist()
        assert mask.tolist() == seen["action_mask"].astype(bool).tolist()
        action = env.action_space.sample(info["action_mask"])
        seen, _, over, _, info = env.step(action)
        assert not info["illegal"]
        if over:
            break


def test_importing_the_door_again_leaves_one_environment() -> None:
    import importlib

    importlib.reload(skipjack.loops)
    assert made().spec.id == "skipjack/LoopNest-v0"


@pytest.mark.parametrize("action", [-1, 7, 10**30, 2.0, None, "down", np.array([1, 2])])
def test_what_is_no_action_changes_nothing(action: Any) -> None:
    env = make(illegal_reward=-0.5)
    env.reset(seed=0)
    before = env.state
    _, reward, over, cut, info = env.step(action)
    assert (env.state, reward, over, cut) == (before, -0.5, False, False)
    assert "is not an action" in info["illegal"]


def test_an_illegal_action_changes_nothing_and_counts_as_a_step() -> None:
    env = make(episode_steps=2)
    env.reset(seed=0)
    before = env.state
    _, reward, _, cut, info = env.step(0)
    assert env.state == before
    assert (reward, cut) == (0.0, False)
    assert "outermost" in info["illegal"]
    assert env.step(0)[3]


def test_an_episode_is_terminated_by_stop_and_truncated_by_its_length() -> None:
    env = make(preset="full")
    env.reset(seed=0)
    _, _, over, cut, info = env.step(env.game.number("stop"))
    assert (over, cut) == (True, False)
    assert not info["action_mask"].any()
    assert "ended" in env.step(1)[4]["illegal"]
    env = make(episode_steps=3)
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_nest_without_legal_actions_ends_at_once() -> None:
    env = make(dataset=["matmul:1x1x1"])
    env.reset(seed=0)
    assert env.step(0)[2]


@pytest.mark.parametrize("failing", ["raise", "m", "v"])
def test_a_schedule_that_cannot_be_measured_has_no_rate_and_raises_nothing(failing: str) -> None:
    for reward in ("flops_gain", "log_speedup", "final"):
        env = make(rates=FakeRates(failing), reward=reward, observation=("runtime", "flops"))
        assert np.isfinite(random_episode(env, 4)).all()


def test_rewards_of_an_episode_add_up_to_its_gain() -> None:
    env = make(dataset=["matmul:64x64x64"], reward="flops_gain")
    env.reset(seed=0)
    first = env.gflops
    total = sum(random_episode(env, 5))
    assert total == pytest.approx((env.gflops - first) / 100.0)
    logs, final = (
        make(dataset=["matmul:64x64x64"], reward=reward) for reward in ("log_speedup", "final")
    )
    logs.reset()
    start = logs.gflops
    assert sum(random_episode(logs, 5)) == pytest.approx(log2(logs.gflops / start))
    rewards = random_episode(final, 5)
    assert rewards[-1] == pytest.approx(log2(logs.gflops / start))
    assert not any(rewards[:-1])


def test_only_new_schedules_are_measured() -> None:
    rates = FakeRates()
    env = make(rates=rates, dataset=["matmul:64x64x64"])
    env.reset(seed=0)
    for name in ("down", "up", "down"):
        env.step(env.game.number(name))
    assert rates.asked == 0
    env.step(env.game.number("split_4"))
    assert rates.asked == 2
    quiet = FakeRates()
    random_episode(make(rates=quiet, reward="final"), 1, steps=5)
    assert quiet.asked == 0


def test_a_recorded_episode_replays_exactly() -> None:
    first = make(preset="full", episode_steps=20)
    rewards = random_episode(first, 11)
    record = first.record()
    again = make(preset="full", episode_steps=20)
    again.reset(options={"problem": record.problem})
    for name, reward in zip(record.actions, record.rewards, strict=True):
        assert again.step(again.game.number(name))[1] == reward
    assert again.record() == record
    assert list(record.rewards) == rewards


def test_a_table_of_what_was_measured_gives_the_same_rewards(tmp_path: Path) -> None:
    header = TableHeader(CPU, "llvm", "protocol", "0")
    first = make(dataset=["matmul:64x64x64"], preset="full", episode_steps=20)
    random_episode(first, 11)
    record = first.record()
    table = LoopTable(header)
    times = {each.text(): seconds for each, seconds in first.measurements().items()}
    table.add(record.problem, "nest", {k: v and v * 1e9 for k, v in times.items()})
    write_table(tmp_path / "table.jsonl", table)
    again = LoopNestEnv(
        ["matmul:64x64x64"], preset="full", episode_steps=20, rates=f"exactly:{tmp_path}"
    )
    assert again.device == CPU
    assert again.peaks["f32"] == pytest.approx(2 * 64**3 / min(t for t in times.values() if t))
    rewards = []
    for replay in (again, again):
        replay.reset(options={"problem": record.problem})
        for name in record.actions:
            replay.step(replay.game.number(name))
        rewards.append(replay.record().rewards)
    assert rewards[0] == rewards[1]
    scale = 100e9 / again.peaks["f32"]
    assert rewards[0] == pytest.approx([reward * scale for reward in record.rewards], rel=1e-3)


def test_the_seed_decides_the_problems() -> None:
    def drawn(seed: int) -> list[str]:
        env = make()
        first = env.reset(seed=seed)[1]["problem"]
        return [first, *(env.reset()[1]["problem"] for _ in range(12))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) == len(PROBLEMS)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_environments_run_side_by_side(kind: str) -> None:
    vector = gymnasium.make_vec(
        skipjack.loops.ENVIRONMENT,
        num_envs=2,
        vectorization_mode=kind,
        dataset=PROBLEMS,
        rates=FakeRates(),
        device=CPU,
        max_gflops=100.0,
        preset="full",
        episode_steps=4,
    )
    try:
        seen, info = vector.reset(seed=5)
        assert seen.shape == (2, *vector.single_observation_space.shape)
        for _ in range(12):
            actions = [
                vector.single_action_space.sample(mask) if mask.any() else 0
                for mask in info["action_mask"]
            ]
            seen, rewards, _, _, info = vector.step(np.array(actions))
            assert np.isfinite(rewards).all()
    finally:
        vector.close()


@pytest.mark.parametrize("name", ["runtime", "flops"])
def test_the_checker_has_nothing_to_remark_on_measured_observations(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(observation=name), skip_render_check=True)


def test_graphs_are_observed_side_by_side_without_shared_memory() -> None:
    vector = gymnasium.make_vec(
        "skipjack/LoopNest-v0",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"shared_memory": False},
        **{"dataset": PROBLEMS[0], "observation": "ir_tree_networkx", "rates": "model"},
        max_gflops=100.0,
    )
    try:
        seen, _ = vector.reset(seed=1)
        assert [graph.number_of_nodes() for graph in seen] == [4, 4]
    finally:
        vector.close()


def test_an_environment_is_copied_with_its_episode() -> None:
    env = make(rates="model", device=None, preset="full")
    env.reset(seed=1)
    env.step(1)
    other = pickle.loads(pickle.dumps(env))
    actions = [int(np.flatnonzero(env.action_masks())[-2]), env.game.number("stop")]
    assert [env.step(a)[1] for a in actions] == [other.step(a)[1] for a in actions]
    assert env.record() == other.record()


def test_the_door_loads_no_engine_and_no_compiler() -> None:
    """Many environments start at once, each in a process of its own."""
    heavy = ("torch", "sqlalchemy", "llvmlite", "networkx", "matplotlib", "typer", "rich")
    parts = ("tuning", "ledger", "bank", "execute", "fleet", "report", "cli")
    words = [*heavy, *(f"skipjack.{part}" for part in parts)]
    program = f"import skipjack.loops, sys; print([w for w in {words!r} if w in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_operations_of_plug_ins_are_played_in_every_process() -> None:
    """Plug-ins are named by the settings, which processes that are spawned have as well."""
    program = (
        "import gymnasium, skipjack.loops\n"
        "if __name__ == '__main__':\n"
        "    v = gymnasium.make_vec('skipjack/LoopNest-v0', num_envs=1, max_gflops=1.0,\n"
        "        vectorization_mode='async', vector_kwargs={'context': 'spawn'},\n"
        "        dataset='stencil5:32x32', rates='model')\n"
        "    print(v.reset(seed=1)[1]['problem'][0])\n"
        "    v.close()\n"
    )
    plugin = str(Path(__file__).parents[3] / "bench" / "loop_operations.py")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SKIPJACK_PLUGINS": plugin},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "stencil5:32x32:f32", done.stderr


def test_rendering_shows_the_loops() -> None:
    env = made(render_mode="ansi", dataset=["matmul:64x64x64"])
    env.reset(seed=0)
    assert env.render().splitlines()[0] == "for m in 64 : L0 <--"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "pixels"}, "no observation 'pixels'"),
        ({"reward": "gain"}, "no reward 'gain'; choose from flops_gain"),
        ({"preset": "all"}, "no preset 'all'; choose from looptune, full"),
        ({"dataset": "nowhere"}, "unknown dataset 'nowhere'"),
        ({"observation": ()}, "the list of observations is empty; choose from runtime"),
        ({"dataset": []}, "the split train of the dataset is empty"),
        ({"dataset": 3}, "dataset is 3; give a name"),
        ({"rates": "exactly:"}, "have no path"),
        ({"dataset": ["softmax:4x4"]}, "cannot be played"),
        ({"render_mode": "human"}, "no render mode 'human'"),
        ({"max_gflops": 0.0}, "max_gflops is 0.0"),
        ({"max_gflops": float("inf")}, "max_gflops is inf"),
        ({"episode_steps": -1}, "episode_steps is -1; it must be"),
        ({"episode_steps": 0}, "episode_steps is 0; it must be"),
        ({"episode_steps": 1.5}, "episode_steps is 1.5; it must be"),
        ({"illegal_reward": float("nan")}, "illegal_reward is nan"),
        ({"rates": None}, "rates is None; give a string"),
        ({"threads": 0}, "threads is 0"),
        ({"split": "dev", "dataset": "matmul:8x8x8"}, "unknown split 'dev'"),
        ({"dataset": ["matmul:8x8x8", "matmul:8x8x8:bf16"]}, "not in bf16"),
        ({"dataset": ["matmul:8x8x8", 5]}, "dataset contains 5; give problems"),
        ({"threads": "2"}, "threads is '2'; it must be a whole number"),
        ({"device": 5}, "device is 5; give a name"),
        ({"max_gflops": "fast"}, "max_gflops is 'fast'"),
        ({"episode_steps": "ten"}, "episode_steps is 'ten'; it must be a whole number"),
        ({"episode_steps": float("nan")}, "episode_steps is nan; it must be a whole number"),
        ({"illegal_reward": None}, "illegal_reward is None; it must be a finite number"),
        ({"observation": 5}, "observation is 5; give a name, or a list of names"),
        ({"observation": ["runtime", 5]}, "give a name, or a list of names"),
        ({"preset": ["full"]}, "there is no preset"),
        ({"rates": 5}, "rates is 5"),
        ({"render_mode": 5}, "no render mode 5"),
    ],
)
def test_a_bad_option_is_refused_with_those_there_are(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(**options)
