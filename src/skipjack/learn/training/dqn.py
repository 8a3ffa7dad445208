"""DQN with masked actions, from top to bottom.

The network's logits are the values of actions here: the gain that is still possible after each. An
iteration plays episodes, mostly with the best action and sometimes with a random one, adds them to
the replay buffer, and learns from steps drawn from it: the value of an action should be its reward
plus the value of the best legal action after it, which is chosen by the network and evaluated by
the target network, an older copy of it (double DQN). Steps with a large error are drawn more often
(prioritised replay, as in Ape-X).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skipjack.learn.training.collector import Collector, EpisodeRequest, Purpose, generator
from skipjack.learn.training.episodes import Episode, Player, joined
from skipjack.learn.training.network import (
    FORBIDDEN,
    Batch,
    LoopNetwork,
    NetworkSizes,
    exported,
    imported,
)
from skipjack.learn.training.trainer import Curves, batch_of, summary, torch_seed


@dataclass(frozen=True, slots=True)
class DQNOptions:
    """The hyperparameters of DQN."""

    episodes: int = 32
    """In each iteration."""
    replay_episodes: int = 1024
    """The most episodes in the replay buffer; the oldest are removed first."""
    updates: int = 64
    """In each iteration."""
    batch: int = 128
    learning_rate: float = 5e-4
    discount: float = 0.99
    """Slightly below 1, so that the shorter of two paths to a schedule is better."""
    explore_first: float = 1.0
    explore_last: float = 0.05
    explore_iterations: int = 60
    """Iterations until the share of random actions has fallen to `explore_last`."""
    target_updates: int = 200
    """Updates between two copies of the network to the target network."""
    priority: float = 0.6
    """The exponent of errors in the probability of drawing a step; 0 for uniform draws."""
    max_grad_norm: float = 10.0


class DQN:
    """The trainer; see `skipjack.learn.training.trainer.Trainer`.

    A state has the actions of the episodes in the replay buffer; when a run is resumed, `player`
    plays them again.
    """

    def __init__(
        self,
        sizes: NetworkSizes,
        seed: int,
        player: Player,
        options: DQNOptions | None = None,
        start: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """`start` are the initial weights, instead of random ones."""
        torch_seed(seed)
        self.options = options or DQNOptions()
        self.network = LoopNetwork(sizes) if start is None else imported(start)
        self._target = LoopNetwork(sizes)
        self._target.load_state_dict(self.network.state_dict())
        self._optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.options.learning_rate, eps=1e-5
        )
        self._seed, self._player = seed, player
        self._replay: deque[Episode] = deque(maxlen=self.options.replay_episodes)
        self._errors: deque[NDArray[np.float32]] = deque(maxlen=self.options.replay_episodes)
        """The network's error for each step when it was last drawn."""
        self.iteration, self.steps, self._updates = 0, 0, 0

    @property
    def explore(self) -> float:
        """The present share of random actions."""
        options = self.options
        gone = min(1.0, (self.iteration - 1) / options.explore_iterations)
        return options.explore_first + gone * (options.explore_last - options.explore_first)

    # an iteration

    def iterate(self, collector: Collector) -> tuple[Curves, list[Episode]]:
        """Play episodes and learn from the replay buffer."""
        self.iteration += 1
        options = self.options
        request = EpisodeRequest(
            self.arrays(), options.episodes, self.iteration, greedy=True, explore=self.explore
        )
        episodes = collector.collect(request)
        self.steps += sum(map(len, episodes))
        for each in episodes:
            self._replay.append(each)
            self._errors.append(np.ones(len(each), np.float32))
        rng = generator(self._seed, self.iteration, Purpose.BATCHES)
        replay = _ReplaySteps(list(self._replay), list(self._errors), options.priority)
        losses = [self._learn(replay, rng) for _ in range(options.updates)]
        replay.give_back()
        curves = summary(episodes) | {"loss": float(np.mean(losses)), "explore": self.explore}
        return curves, episodes

    def _learn(self, replay: _ReplaySteps, rng: np.random.Generator) -> float:
        options = self.options
        at, weights = replay.draw(options.batch, rng)
        values, _ = self.network(replay.batch[at])
        value = values.gather(1, replay.actions[at][:, None])[:, 0]
        with torch.no_grad():
            after = replay.batch[replay.next[at]]
            best = self.network(after)[0].argmax(dim=1)
            worth = self._target(after)[0].gather(1, best[:, None])[:, 0]
            # Nothing follows the last step of an episode, or a state without legal actions.
            worth = torch.where(replay.last[at] | (worth <= FORBIDDEN / 2), 0.0, worth)
            target = replay.rewards[at] + options.discount * worth
        error = value - target
        loss = (weights * torch.nn.functional.huber_loss(value, target, reduction="none")).mean()
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), options.max_grad_norm)
        self._optimizer.step()
        replay.errors[at.numpy()] = error.detach().abs().numpy()
        self._updates += 1
        if self._updates % options.target_updates == 0:
            self._target.load_state_dict(self.network.state_dict())
        return loss.item()

    # state

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The network as it is now."""
        return exported(self.network)

    def state(self) -> dict[str, Any]:
        """The state from which training can be resumed."""
        return {
            "network": self.network.state_dict(),
            "target": self._target.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "iteration": self.iteration,
            "steps": self.steps,
            "updates": self._updates,
            "replay": [
                {"problem": each.problem, "actions": each.actions.tolist()} for each in self._replay
            ],
            "rewards": [torch.from_numpy(each.rewards) for each in self._replay],
            "errors": [torch.from_numpy(each) for each in self._errors],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self.network.load_state_dict(state["network"])
        self._target.load_state_dict(state["target"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.iteration, self.steps = int(state["iteration"]), int(state["steps"])
        self._updates = int(state["updates"])
        self._replay.clear()
        self._errors.clear()
        for each, rewards, errors in zip(
            state["replay"], state["rewards"], state["errors"], strict=True
        ):
            played = self._player.replay(each["problem"], each["actions"], rewards.numpy())
            self._replay.append(played)
            self._errors.append(errors.numpy())


class _ReplaySteps:
    """All steps of the replay buffer as arrays, during one iteration."""

    def __init__(
        self, episodes: list[Episode], errors: list[NDArray[np.float32]], priority: float
    ) -> None:
        lengths = [len(each) for each in episodes]
        ends = np.cumsum(lengths)
        self.batch: Batch = batch_of(joined([each.views for each in episodes]))
        self.actions = torch.from_numpy(np.concatenate([each.actions for each in episodes]))
        rewards = np.concatenate([each.rewards for each in episodes])
        self.rewards = torch.from_numpy(rewards.astype(np.float32))
        last = np.zeros(len(rewards), np.bool_)
        last[ends - 1] = True
        self.last = torch.from_numpy(last)
        self.next = torch.from_numpy(np.minimum(np.arange(len(rewards)) + 1, len(rewards) - 1))
        self._by_episode, self._ends = errors, ends
        self.errors = np.concatenate(errors)
        self._priority = priority

    def draw(self, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw steps, with weights that correct for their probabilities."""
        chances = (self.errors.astype(np.float64) + 1e-3) ** self._priority
        chances /= chances.sum()
        at = rng.choice(len(chances), size=count, p=chances)
        weights = (1 / (len(chances) * chances[at])) ** 0.4
        return torch.from_numpy(at), torch.from_numpy((weights / weights.max()).astype(np.float32))

    def give_back(self) -> None:
        """Write the errors back to the arrays of the episodes."""
        start = 0
        for error, end in zip(self._by_episode, self._ends, strict=True):
            error[:] = self.errors[start:end]
            start = end
