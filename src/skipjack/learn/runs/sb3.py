"""The learner with Stable-Baselines3: MaskablePPO of sb3-contrib in the environment of Skipjack.

It uses the same network, so its policies are exported in the same way. A checkpoint is the zip file
of Stable-Baselines3. The pickled part of it is never read: weights and optimizer are loaded as
plain tensors, and the rest is created from the run's options. Random numbers of an iteration depend
only on the seed and the iteration's number, so runs are resumed exactly.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from skipjack.errors import SkipjackError
from skipjack.learn.environment import LoopNestEnv
from skipjack.learn.loops import ROW_COLUMNS
from skipjack.learn.policy import read_weights
from skipjack.learn.rates import close_rates, open_rates
from skipjack.learn.runs.folder import PlayedEpisode, RunFolder
from skipjack.learn.runs.learners import PlayerSetup, network_sizes, setup_of, unusable_checkpoint
from skipjack.learn.training import (
    Batch,
    LoopBody,
    PPOOptions,
    Purpose,
    exported,
    generator,
    imported,
    torch_seed,
)
from skipjack.operations import parse
from skipjack.reading import read_json
from skipjack.storage import atomic_write

_SIDE_BY_SIDE = 16
"""Environments in one process, which the network processes as one batch."""
_CURSOR = ROW_COLUMNS.index("cursor")
_HEADS = {"action_net": "logits", "value_net": "worth"}
"""Names of the last layers in Stable-Baselines3."""
_MOST_BYTES = 256 << 20
_CURVES = {
    "train/policy_gradient_loss": "loss",
    "train/value_loss": "worth_error",
    "train/entropy_loss": "entropy",
    "train/clip_fraction": "clipped",
}
"""Names of curves by the names under which it logs them."""


class RecordingEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds a record of an episode at its end, as ``info["played"]``.

    A truncated episode counts as terminated, because later rewards do not exist.
    """

    def __init__(self, env: LoopNestEnv) -> None:
        super().__init__(env)
        self._game, self._seconds = env, list[float | None]()

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """A new episode."""
        self._seconds = []
        return super().reset(**how)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Play an action, and record the episode at its end."""
        seen, reward, over, cut, info = super().step(action)
        built = self._game.game.built(self._game.state)
        self._seconds.append(self._game.measurements().get(built))
        if over or cut:
            info["played"] = self._played()
            info["sources"] = dict(self._game.rates.sources)
        return seen, reward, over or cut, False, info

    def _played(self) -> PlayedEpisode:
        record = self._game.record()
        return PlayedEpisode(
            record.problem,
            record.actions,
            [reward * float(np.log(2)) for reward in record.rewards],
            self._seconds,
            record.schedule,
            float(2.0 ** sum(record.rewards)),
        )

    def action_masks(self) -> NDArray[np.bool_]:
        """For every action whether it is legal now."""
        return self._game.action_masks()


class _MakeEnv:
    """Makes an environment, possibly in another process."""

    def __init__(self, setup: PlayerSetup, rates: Any = None) -> None:
        self._setup, self._rates = setup, rates

    def __call__(self) -> RecordingEnv:
        setup = self._setup
        torch.set_num_threads(1)
        return RecordingEnv(
            LoopNestEnv(
                [parse(key) for key in setup.problems],
                observation="policy",
                reward="log_speedup",
                preset=setup.preset,
                episode_steps=setup.steps,
                rates=self._rates or setup.rates,
                device=setup.device,
            )
        )


class Sb3Learner:
    """`Learner` with MaskablePPO."""

    suffix = ".zip"

    def __init__(self, folder: RunFolder, workers: int = 1) -> None:
        torch.set_num_threads(1)
        options, setup = folder.options, setup_of(folder)
        self._seed, self.iteration = options.seed, 0
        self._sources: dict[int, dict[str, int]] = {}
        self._rates: Any = None
        usual = self._options = PPOOptions()
        episodes = options.episodes or usual.episodes
        count = min(workers if workers > 1 else _SIDE_BY_SIDE, episodes)
        self._env = self._environments(setup, count, workers)
        self._rollout = -(-episodes // count) * options.episode_steps
        arrays = read_weights(folder.start) if folder.start.is_file() else None
        torch_seed(options.seed)
        contrib: Any = importlib.import_module("sb3_contrib")
        self._model: Any = contrib.MaskablePPO(
            "MultiInputPolicy",
            self._env,
            learning_rate=usual.learning_rate,
            n_steps=self._rollout,
            batch_size=min(usual.batch, count * self._rollout),
            n_epochs=usual.epochs,
            gamma=usual.discount,
            gae_lambda=usual.gae_lambda,
            clip_range=usual.clip,
            vf_coef=usual.value_weight,
            max_grad_norm=usual.max_grad_norm,
            policy_kwargs={
                "features_extractor_class": features_class(),
                "features_extractor_kwargs": {"sizes": network_sizes(options, arrays)},
                "net_arch": {"pi": [], "vf": []},
                "ortho_init": False,
            },
            device="cpu",
        )
        logger: Any = importlib.import_module("stable_baselines3.common.logger")
        self._model.set_logger(logger.Logger(folder=None, output_formats=[]))
        self._begin(arrays)

    def _environments(self, setup: PlayerSetup, count: int, workers: int) -> Any:
        vectors: Any = importlib.import_module("stable_baselines3.common.vec_env")
        if workers > 1:
            return vectors.SubprocVecEnv([_MakeEnv(setup)] * count, start_method="spawn")
        self._rates = open_rates(setup.rates, setup.device)
        return vectors.DummyVecEnv([_MakeEnv(setup, self._rates)] * count)

    def _begin(self, arrays: dict[str, NDArray[Any]] | None) -> None:
        """Set the initial weights: those of a policy, or nearly equal logits."""
        policy = self._model.policy
        if arrays is None:
            with torch.no_grad():
                policy.action_net.weight.mul_(0.01)
            return
        start = imported(arrays)
        body = {name: value for name, value in start.state_dict().items() if not _is_head(name)}
        policy.features_extractor.body.load_state_dict(body)
        policy.action_net.load_state_dict(start.logits.state_dict())
        policy.value_net.load_state_dict(start.worth.state_dict())

    @property
    def steps(self) -> int:
        """Actions that were played."""
        return int(self._model.num_timesteps)

    def iterate(self) -> tuple[dict[str, float], list[PlayedEpisode]]:
        """Play some episodes and learn from them."""
        self.iteration += 1
        drawn = generator(self._seed, self.iteration, Purpose.ACTIONS)
        self._model.set_random_seed(int(drawn.integers(2**31)))
        self._model._last_obs = None  # so that all episodes start anew from this seed
        self._model.ent_coef = self._options.entropy_after(self.steps)
        watcher = _watcher()
        count = self._rollout * self._env.num_envs
        self._model.learn(
            count, callback=watcher, log_interval=None, reset_num_timesteps=not self.steps
        )
        self._sources |= watcher.sources
        return self._curves(watcher.episodes), watcher.episodes

    def _curves(self, episodes: list[PlayedEpisode]) -> dict[str, float]:
        logged = self._model.logger.name_to_value
        speed_ups = [each.speed_up for each in episodes] or [1.0]
        curves = {
            "episodes": len(episodes),
            "episode_steps": float(np.mean([len(each.actions) for each in episodes] or [0])),
            "episode_reward": float(np.log(speed_ups).mean()),
            "speed_up": float(np.exp(np.log(speed_ups).mean())),
            "best_speed_up": float(max(speed_ups)),
        }
        curves |= {mine: float(logged.get(name, 0.0)) for name, mine in _CURVES.items()}
        return curves | {"entropy": -curves["entropy"]}  # it logs the loss

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network as it is now."""
        policy = self._model.policy
        found = exported(policy.features_extractor.body)
        for name, mine in _HEADS.items():
            head = exported(getattr(policy, name))
            found |= {f"{mine}.{part}": value for part, value in head.items()}
        return found

    def save(self, path: Path) -> None:
        """Write the zip file of Stable-Baselines3."""
        data = io.BytesIO()
        self._model.save(data, exclude=["logger", "env"])
        atomic_write(path, data.getvalue())

    def restore(self, path: Path) -> None:
        """Restore weights, optimizer and the number of steps."""
        try:
            with zipfile.ZipFile(path) as archive:
                if sum(each.file_size for each in archive.infolist()) > _MOST_BYTES:
                    raise SkipjackError(f"{path} unpacks to more than {_MOST_BYTES} bytes")
                record = read_json(archive.read("data"), str(path))
                steps = record["num_timesteps"].integer(0)
                self._model.policy.load_state_dict(_tensors(archive, "policy.pth"))
                self._model.policy.optimizer.load_state_dict(
                    _tensors(archive, "policy.optimizer.pth")
                )
        except SkipjackError:
            raise
        except Exception as error:  # torch has no specific exception for this
            raise unusable_checkpoint(path, str(error)) from None
        self.iteration, self._model.num_timesteps = int(path.stem), steps

    def sources(self) -> dict[str, int]:
        """Distinct schedules requested in each process, summed by the source of their times."""
        if self._rates is not None:
            return dict(self._rates.sources)
        found: dict[str, int] = {}
        for counts in self._sources.values():
            for kind, count in counts.items():
                found[kind] = found.get(kind, 0) + count
        return found

    def close(self) -> None:
        """Close the environments."""
        self._env.close()
        close_rates(self._rates)


def features_class() -> Any:
    """`LoopBody` as a features extractor of Stable-Baselines3."""
    torch_layers: Any = importlib.import_module("stable_baselines3.common.torch_layers")

    class LoopFeatures(torch_layers.BaseFeaturesExtractor):  # type: ignore[misc]
        """Extracts features from the observation ``policy``."""

        def __init__(self, space: Any, sizes: Any) -> None:
            super().__init__(space, sizes.trunk)
            self.body = LoopBody(sizes)

        def forward(self, seen: dict[str, torch.Tensor]) -> torch.Tensor:
            rows, present = seen["loops"], seen["rows"] > 0.5
            cursor = rows[:, :, _CURSOR].argmax(dim=1)
            mask = torch.ones(len(rows), 1, dtype=torch.bool)  # used only for logits
            return self.body.features(Batch(rows, present, cursor, seen["globals"], mask))

    return LoopFeatures


def _watcher() -> Any:
    callbacks: Any = importlib.import_module("stable_baselines3.common.callbacks")

    class Watcher(callbacks.BaseCallback):  # type: ignore[misc]
        """Collects the episodes that end."""

        def __init__(self) -> None:
            super().__init__()
            self.episodes: list[PlayedEpisode] = []
            self.sources: dict[int, dict[str, int]] = {}

        def _on_step(self) -> bool:
            for number, info in enumerate(self.locals["infos"]):
                if "played" in info:
                    self.episodes.append(info["played"])
                    self.sources[number] = info["sources"]
            return True

    return Watcher()


def _tensors(archive: zipfile.ZipFile, name: str) -> Any:
    return torch.load(io.BytesIO(archive.read(name)), weights_only=True)


def _is_head(name: str) -> bool:
    return name.partition(".")[0] in _HEADS.values()
