"""The learners of runs: our own trainers or Stable-Baselines3, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS
from skipjack.learn.policy import read_weights
from skipjack.learn.runs.folder import PlayedEpisode, RunFolder
from skipjack.learn.runs.options import TrainerName, TrainOptions
from skipjack.learn.runs.setup import PlayerSetup
from skipjack.learn.training.episodes import Episode, Player
from skipjack.storage import atomic_replacement

if TYPE_CHECKING:
    from skipjack.learn.training.network import NetworkSizes
    from skipjack.learn.training.trainer import Trainer

NEEDS = {
    TrainerName.PPO: ("torch",),
    TrainerName.DQN: ("torch",),
    TrainerName.SB3: ("torch", "gymnasium", "stable_baselines3", "sb3_contrib"),
}


class Learner(Protocol):
    """Learns, an iteration at a time. The same state and options go on in the same way."""

    suffix: str
    """Of its checkpoints."""

    @property
    def iteration(self) -> int:
        """Iterations that are done."""
        ...

    @property
    def steps(self) -> int:
        """Actions that were played."""
        ...

    def iterate(self) -> tuple[dict[str, float], list[PlayedEpisode]]:
        """Play some episodes and learn from them."""
        ...

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network of the policy as it is now."""
        ...

    def save(self, path: Path) -> None:
        """Write all that going on needs."""
        ...

    def restore(self, path: Path) -> None:
        """Go on from what `save` wrote; nothing in it is unpickled but tensors."""
        ...

    def sources(self) -> dict[str, int]:
        """Schedules that were asked for, by what their times are from."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class RunCollector(Protocol):
    """A `Collector` that knows what its times are from."""

    def collect(self, wanted: Any) -> list[Episode]:
        """Episodes of problems drawn by the seed and the iteration."""
        ...

    def sources(self) -> dict[str, int]:
        """Schedules that were asked for, by what their times are from."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


MakeCollector = Callable[[PlayerSetup, int], RunCollector]
"""Takes the setup and the seed."""


def check_installed(trainer: TrainerName) -> None:
    """Say how to get what a trainer needs."""
    missing = [name for name in NEEDS[trainer] if find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {missing[0]}: pip install 'skipjack[rl]'")


def setup_of(folder: RunFolder) -> PlayerSetup:
    """What players of a run need."""
    options = folder.options
    return PlayerSetup(
        folder.dataset().train, folder.device, options.preset, options.rates, options.episode_steps
    )


class OwnLearner:
    """`Learner` by our own PPO or DQN."""

    suffix = ".pt"

    def __init__(self, folder: RunFolder, make_collector: MakeCollector) -> None:
        import torch

        torch.set_num_threads(1)  # the network is small: more threads would wait for each other
        options, setup = folder.options, setup_of(folder)
        self._asked = options
        self._problems, self._actions = setup.problems, options.preset.actions
        # Games alone: episodes are played by the collector, whose rates are its own.
        player = replace(setup, rates="model").player()
        arrays = read_weights(folder.start) if folder.start.is_file() else None
        self._trainer: Trainer = _trainer(options, player, arrays)
        self._collector = make_collector(setup, options.seed)

    @property
    def iteration(self) -> int:
        """Iterations that are done."""
        return self._trainer.iteration

    @property
    def steps(self) -> int:
        """Actions that were played."""
        return self._trainer.steps

    def iterate(self) -> tuple[dict[str, float], list[PlayedEpisode]]:
        """Play some episodes and learn from them."""
        curves, episodes = self._trainer.iterate(self._collector)
        return curves, [self._played(each) for each in episodes]

    def _played(self, episode: Episode) -> PlayedEpisode:
        return PlayedEpisode(
            self._problems[episode.problem],
            tuple(self._actions[action] for action in episode.actions),
            episode.rewards.tolist(),
            [None if np.isnan(each) else float(each) for each in episode.seconds],
            episode.schedule,
            episode.speed_up,
        )

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network as it is now."""
        return self._trainer.arrays()

    def save(self, path: Path) -> None:
        """The trainer's state, as torch writes it."""
        import torch

        with atomic_replacement(path) as temporary:
            torch.save(self._trainer.state(), temporary)

    def restore(self, path: Path) -> None:
        """Go on from a checkpoint, of which torch loads tensors and plain values alone."""
        state = read_checkpoint(path)
        try:
            self._trainer.restore(state)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            options = self._asked
            other = f"it is not of the trainer {options.trainer} and the preset {options.preset}"
            raise unusable_checkpoint(path, other) from None

    def sources(self) -> dict[str, int]:
        """As the collector counts them."""
        return self._collector.sources()

    def close(self) -> None:
        """End the collector's processes."""
        self._collector.close()


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """What torch wrote, without running any code of it."""
    import torch

    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:  # torch has no kind of its own for what it cannot read
        raise unusable_checkpoint(path, str(error)) from None
    if not isinstance(state, Mapping):
        raise unusable_checkpoint(path, "it is not one")
    return state


def unusable_checkpoint(path: Path, reason: str) -> SkipjackError:
    """Says why a run cannot go on from a checkpoint, in a line, and what to do."""
    brief = reason.strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return SkipjackError(
        f"cannot go on from the checkpoint {path}: {brief}; without this file the run goes on "
        "from the checkpoint before, or begins again"
    )


def _trainer(
    options: TrainOptions, player: Player, arrays: Mapping[str, NDArray[Any]] | None
) -> Trainer:
    from skipjack.learn.training.dqn import DQN, DQNOptions
    from skipjack.learn.training.ppo import PPO, PPOOptions

    sizes, episodes = network_sizes(options, arrays), options.episodes
    if options.trainer is TrainerName.PPO:
        usual = PPOOptions()
        ppo = replace(usual, episodes=episodes or usual.episodes)
        return PPO(sizes, options.seed, ppo, arrays)
    plain = DQNOptions()
    count = episodes or plain.episodes
    # As many updates for each episode, however many an iteration has.
    updates = max(1, plain.updates * count // plain.episodes)
    dqn = replace(plain, episodes=count, updates=updates)
    return DQN(sizes, options.seed, player, dqn, arrays)


def network_sizes(options: TrainOptions, arrays: Mapping[str, NDArray[Any]] | None) -> NetworkSizes:
    """Of the network of a run, which may begin as another."""
    from skipjack.learn.training.network import NetworkSizes, sizes_of

    if arrays is not None:
        return sizes_of(arrays)
    return NetworkSizes(len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(options.preset.actions))
