"""The learners of runs: the trainers of Skipjack or Stable-Baselines3, behind one interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from skipjack.core import Device, Problem
from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS, LoopGame, Preset, loop_game
from skipjack.learn.policy import read_weights
from skipjack.learn.rates import open_rates
from skipjack.learn.runs.folder import PlayedEpisode, RunFolder
from skipjack.learn.runs.options import TrainerName, TrainOptions
from skipjack.learn.training import Episode, Player
from skipjack.operations import parse
from skipjack.reading import read_json
from skipjack.storage import atomic_replacement

if TYPE_CHECKING:
    from skipjack.learn.training import NetworkSizes, Trainer


# The setup of players, as a value that is sent to other processes.


@dataclass(frozen=True, slots=True)
class PlayerSetup:
    """The games to play, and the source of their times."""

    problems: tuple[str, ...]
    """Keys of problems."""
    device: Device
    preset: Preset
    rates: str
    steps: int
    """The most actions of an episode."""

    def to_bytes(self) -> bytes:
        """The setup as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of(cls, data: bytes) -> PlayerSetup:
        """The setup from the bytes of `to_bytes`."""
        return read_json(data, "the setup of a player").of(cls)

    def player(self) -> Player:
        """A player in this process; the caller closes its rates."""
        problems = [parse(key) for key in self.problems]
        rates = open_rates(self.rates, self.device)
        games = _LazyGames(problems, self.device, self.preset)
        return Player(problems, games, rates, self.steps)


class _LazyGames(Sequence[LoopGame]):
    """Games of problems, each made at its first use: a dataset may have thousands."""

    def __init__(self, problems: Sequence[Problem], device: Device, preset: Preset) -> None:
        self._problems, self._device, self._preset = problems, device, preset
        self._made: dict[int, LoopGame] = {}

    def __len__(self) -> int:
        return len(self._problems)

    @overload
    def __getitem__(self, at: int) -> LoopGame: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[LoopGame]: ...

    def __getitem__(self, at: int | slice) -> LoopGame | Sequence[LoopGame]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        if at not in self._made:
            self._made[at] = loop_game(self._problems[at], self._device, self._preset)
        return self._made[at]


# The interface of learners, and the learner with Skipjack's own trainers.

NEEDS = {
    TrainerName.PPO: ("torch",),
    TrainerName.DQN: ("torch",),
    TrainerName.SB3: ("torch", "gymnasium", "stable_baselines3", "sb3_contrib"),
}


class Learner(Protocol):
    """Learns one iteration at a time, deterministically from its state and options."""

    suffix: str
    """The suffix of its checkpoints."""

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
        """Write a checkpoint."""
        ...

    def restore(self, path: Path) -> None:
        """Restore a checkpoint; only tensors in it are unpickled."""
        ...

    def sources(self) -> dict[str, int]:
        """Schedules that were asked for, by what their times are from."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class RunCollector(Protocol):
    """A `Collector` that counts the sources of its times."""

    def collect(self, request: Any) -> list[Episode]:
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
    """Raise `UsageError` if a package that a trainer needs is missing."""
    missing = [name for name in NEEDS[trainer] if find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {missing[0]}; install it with pip install 'skipjack[rl]'")


def setup_of(folder: RunFolder) -> PlayerSetup:
    """The setup of players for a run."""
    options = folder.options
    return PlayerSetup(
        folder.dataset().train, folder.device, options.preset, options.rates, options.episode_steps
    )


class OwnLearner:
    """`Learner` with Skipjack's PPO or DQN."""

    suffix = ".pt"

    def __init__(self, folder: RunFolder, make_collector: MakeCollector) -> None:
        import torch

        torch.set_num_threads(1)  # the network is small: more threads would wait for each other
        options, setup = folder.options, setup_of(folder)
        self._options = options
        self._problems, self._actions = setup.problems, options.preset.actions
        # This player only makes games; the collector plays episodes, with its own rates.
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
        """Write the trainer's state with torch."""
        import torch

        with atomic_replacement(path) as temporary:
            torch.save(self._trainer.state(), temporary)

    def restore(self, path: Path) -> None:
        """Restore a checkpoint; torch loads only tensors and plain values."""
        state = read_checkpoint(path)
        try:
            self._trainer.restore(state)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            options = self._options
            other = f"it is not of trainer {options.trainer} with preset {options.preset}"
            raise unusable_checkpoint(path, other) from None

    def sources(self) -> dict[str, int]:
        """The counts of the collector."""
        return self._collector.sources()

    def close(self) -> None:
        """Close the collector."""
        self._collector.close()


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """Read a checkpoint of torch without running code in it."""
    import torch

    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:  # torch has no specific exception for this
        raise unusable_checkpoint(path, str(error)) from None
    if not isinstance(state, Mapping):
        raise unusable_checkpoint(path, "it is not a checkpoint")
    return state


def unusable_checkpoint(path: Path, reason: str) -> SkipjackError:
    """The error that a checkpoint cannot be restored, with a one-line reason."""
    brief = reason.strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return SkipjackError(
        f"cannot resume from the checkpoint {path}: {brief}; delete it to resume from the "
        "checkpoint before, or to begin again"
    )


def _trainer(
    options: TrainOptions, player: Player, arrays: Mapping[str, NDArray[Any]] | None
) -> Trainer:
    from skipjack.learn.training import DQN, PPO, DQNOptions, PPOOptions

    sizes, episodes = network_sizes(options, arrays), options.episodes
    if options.trainer is TrainerName.PPO:
        usual = PPOOptions()
        ppo = replace(usual, episodes=episodes or usual.episodes)
        return PPO(sizes, options.seed, ppo, arrays)
    plain = DQNOptions()
    count = episodes or plain.episodes
    # Keep the number of updates for each episode.
    updates = max(1, plain.updates * count // plain.episodes)
    dqn = replace(plain, episodes=count, updates=updates)
    return DQN(sizes, options.seed, player, dqn, arrays)


def network_sizes(options: TrainOptions, arrays: Mapping[str, NDArray[Any]] | None) -> NetworkSizes:
    """The sizes of a run's network: those of the initial weights, or the default ones."""
    from skipjack.learn.training import NetworkSizes, sizes_of

    if arrays is not None:
        return sizes_of(arrays)
    return NetworkSizes(len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(options.preset.actions))
