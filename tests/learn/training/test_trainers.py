"""PPO and DQN of our own find a planted optimum, keep to legal actions, and can be resumed."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from planted import BEST_SPEED_UP, planted_player, sizes_for  # noqa: E402  (torch may be missing)

from skipjack.core import Problem  # noqa: E402
from skipjack.learn.policy import PolicyNetwork  # noqa: E402
from skipjack.learn.training import (  # noqa: E402
    DQN,
    PPO,
    DQNOptions,
    Episode,
    EpisodeRequest,
    InProcessCollector,
    NetworkSizes,
    Player,
    PPOOptions,
    Trainer,
    packed,
    unpacked,
)
from skipjack.solvers.cpu.nest import Schedule  # noqa: E402

PPO_OPTIONS = PPOOptions(episodes=32, learning_rate=3e-3, batch=64, entropy=0.04)
DQN_OPTIONS = DQNOptions(
    episodes=16, updates=16, batch=64, learning_rate=3e-3, explore_iterations=10, target_updates=20
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trainer_of(name: str, player: Player, seed: int = 0) -> Trainer:
    sizes = NetworkSizes(**sizes_for(player))
    if name == "ppo":
        return PPO(sizes, seed, PPO_OPTIONS)
    return DQN(sizes, seed, player, DQN_OPTIONS)


def greedy_speed_up(trainer: Trainer, player: Player) -> float:
    network = PolicyNetwork(trainer.arrays())
    (episode,) = player.play(network, [0], np.random.default_rng(0), greedy=True)
    return episode.speed_up


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_a_planted_optimum_is_learned(name: str) -> None:
    player = planted_player()
    trainer, collector = trainer_of(name, player), InProcessCollector(player, 0)
    assert greedy_speed_up(trainer, player) < BEST_SPEED_UP
    for _ in range(40):
        trainer.iterate(collector)
        if greedy_speed_up(trainer, player) == BEST_SPEED_UP:
            break
    assert greedy_speed_up(trainer, player) == BEST_SPEED_UP


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_a_resumed_training_equals_one_that_was_not_interrupted(name: str) -> None:
    player = planted_player()
    through = trainer_of(name, player)
    for _ in range(4):
        through.iterate(InProcessCollector(player, 0))

    first = trainer_of(name, player)
    for _ in range(2):
        first.iterate(InProcessCollector(player, 0))
    torch.manual_seed(99)
    again = trainer_of(name, planted_player(), seed=0)
    again.restore(first.state())
    for _ in range(2):
        again.iterate(InProcessCollector(planted_player(), 0))

    assert (again.iteration, again.steps) == (through.iteration, through.steps)
    mine, other = again.arrays(), through.arrays()
    assert all(np.array_equal(mine[key], other[key]) for key in other)


def test_another_seed_is_another_training() -> None:
    player = planted_player()
    mine, other = trainer_of("ppo", player, 1).arrays(), trainer_of("ppo", player, 2).arrays()
    assert not np.array_equal(mine["trunk.weight"], other["trunk.weight"])


@pytest.mark.parametrize("explore", [0.0, 0.5])
def test_illegal_actions_are_never_taken(explore: float) -> None:
    player = planted_player(steps=12)
    network = PolicyNetwork(trainer_of("ppo", player).arrays())
    rng = np.random.default_rng(3)
    for episode in player.play(network, [0] * 20, rng, explore=explore):
        assert episode.views.mask[np.arange(len(episode)), episode.actions].all()


def test_rewards_add_up_to_the_logarithm_of_the_speed_up() -> None:
    player = planted_player()
    network = PolicyNetwork(trainer_of("ppo", player).arrays())
    episodes = player.play(network, [0] * 20, np.random.default_rng(0))
    assert len({episode.speed_up for episode in episodes}) > 1
    for episode in episodes:
        (last,) = player.rates.seconds(player.problems[0], [Schedule.parse(episode.schedule)])
        assert last == pytest.approx(1 / episode.speed_up)
        assert np.exp(episode.rewards.sum()) == pytest.approx(episode.speed_up)


def test_episodes_travel_as_plain_arrays() -> None:
    player = planted_player()
    arrays = trainer_of("ppo", player).arrays()
    episodes = InProcessCollector(player, 0).collect(EpisodeRequest(arrays, 5, 1))
    for mine, other in zip(episodes, unpacked(packed(episodes)), strict=True):
        assert same(mine, other)


def same(mine: Episode, other: Episode) -> bool:
    return (
        (mine.problem, mine.schedule, mine.speed_up)
        == (other.problem, other.schedule, other.speed_up)
        and np.array_equal(mine.actions, other.actions)
        and np.array_equal(mine.rewards, other.rewards)
        and np.array_equal(mine.views.rows, other.views.rows)
        and np.array_equal(mine.views.mask, other.views.mask)
    )


def test_speed_ups_are_over_a_proposal_where_the_untuned_nest_has_no_time() -> None:
    player = planted_player()
    untuned = player.games[0].built(player.games[0].start())
    asked: list[Schedule] = []

    class WithoutStart:
        def seconds(self, problem: Problem, schedules: Sequence[Schedule]) -> list[float | None]:
            asked.extend(schedules)
            return [None if each == untuned else 0.25 for each in schedules]

    assert player.anchor(0) == 1.0
    again = Player(player.problems, player.games, WithoutStart(), steps=5)
    assert again.anchor(0) == 0.25
    assert again.anchor(0) == 0.25
    assert asked.count(untuned) == 1
