"""Cloning: a network learns the actions of plans, and the values of schedules.

A demonstration follows a plan to a good schedule (`planner`), with occasional random actions, after
which the plan leads back. The network learns the plan's actions in all states on the way. Without
these detours it would see only perfect games, and could not recover from a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray

from skipjack.learn.loops import GameState, LoopGame
from skipjack.learn.training.episodes import Views, joined, view_of
from skipjack.learn.training.network import LoopNetwork
from skipjack.learn.training.planner import Planner
from skipjack.learn.training.trainer import Curves, batch_of
from skipjack.solvers.cpu.nest import Schedule

LONGEST = 64
"""The most actions of a demonstration."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """States, and the actions to take in them."""

    views: Views
    actions: NDArray[np.int64]


def demonstrate(
    game: LoopGame, target: Schedule, rng: np.random.Generator, detours: float = 0.0
) -> Demonstration | None:
    """A game that ends with the target schedule; None if no plan leads there.

    `detours` is the share of actions that are drawn from all legal ones except ``stop``. If no plan
    leads back, the game ends.
    """
    planner = Planner(game)
    if planner.plan(target) is None:
        return None
    state = game.start()
    views, wanted, done = list[Views](), list[int](), list[int]()
    for _ in range(LONGEST):
        action = planner.next_action(state, target)
        if action is None:
            break
        views.append(view_of(game, state, done))
        wanted.append(action)
        if rng.random() < detours:
            legal = np.flatnonzero(game.mask(state))
            others = [int(at) for at in legal if game.actions[at] != "stop"]
            action = int(rng.choice(others)) if others else action
        state = game.apply(state, action)
        done.append(action)
    if not wanted:
        return None
    return Demonstration(joined(views), np.array(wanted, np.int64))


def end_of(game: LoopGame, schedule: Schedule) -> Views:
    """The network's input for a schedule, with the cursor on the outermost loop."""
    return view_of(game, GameState(schedule, 0))


@dataclass(frozen=True, slots=True)
class CloningOptions:
    """The hyperparameters of cloning."""

    epochs: int = 4
    batch: int = 512
    learning_rate: float = 1e-3
    label_smoothing: float = 0.02
    """The share of the probability for the other legal actions."""
    value_weight: float = 1.0
    """Weight of the error of values, where they are known."""
    max_grad_norm: float = 1.0


@dataclass(frozen=True, slots=True)
class CloningData:
    """The training data, in half precision because there is much of it."""

    views: Views
    actions: NDArray[np.int64]
    """Actions; -1 where only the value is known."""
    worth: NDArray[np.float32]
    """Values; nan where only the action is known."""

    def __len__(self) -> int:
        return len(self.actions)


def cloning_data(
    demonstrations: Sequence[Demonstration], ends: Sequence[tuple[Views, float]] = ()
) -> CloningData:
    """Training data from demonstrations, and from schedules with their values."""
    views = [each.views for each in demonstrations] + [view for view, _ in ends]
    counts = sum(len(each.actions) for each in demonstrations)
    half = [_halved(each) for each in views]
    return CloningData(
        joined(half),
        np.concatenate(
            [*(each.actions for each in demonstrations), np.full(len(ends), -1, np.int64)]
        ),
        np.concatenate(
            [np.full(counts, np.nan, np.float32), np.array([at for _, at in ends], np.float32)]
        ),
    )


def clone(
    network: LoopNetwork,
    data: CloningData,
    rng: np.random.Generator,
    options: CloningOptions | None = None,
) -> list[Curves]:
    """Train the network; returns the curves of each epoch."""
    options = options or CloningOptions()
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=1e-4)
    updates = options.epochs * -(-len(data) // options.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, total_steps=max(2, updates)
    )
    curves = []
    for _ in range(options.epochs):
        order = rng.permutation(len(data))
        found = []
        for start in range(0, len(order), options.batch):
            at = np.sort(order[start : start + options.batch])
            loss, numbers = _losses(network, data, at, options)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), options.max_grad_norm)
            optimizer.step()
            schedule.step()
            found.append(numbers)
        curves.append(_mean(found))
    return curves


def evaluate_clone(network: LoopNetwork, data: CloningData, batch: int = 1024) -> Curves:
    """Evaluate the network on data that it was not trained on."""
    with torch.no_grad():
        starts = range(0, len(data), batch)
        found = [
            _losses(
                network, data, np.arange(start, min(start + batch, len(data))), CloningOptions()
            )[1]
            for start in starts
        ]
    return _mean(found)


def _losses(
    network: LoopNetwork, data: CloningData, at: NDArray[np.int64], options: CloningOptions
) -> tuple[torch.Tensor, NDArray[np.float64]]:
    """The loss; and sums over actions (losses, hits) and of errors, with their counts."""
    views = Views(*(getattr(data.views, part.name)[at] for part in fields(Views)))
    batch = batch_of(_full(views))
    logits, worth = network(batch)
    actions = torch.from_numpy(data.actions[at])
    acts = actions >= 0
    chances = logits.log_softmax(dim=1)
    legal = batch.mask.float()
    even = -(chances * legal).sum(dim=1) / legal.sum(dim=1).clamp(min=1)
    said = -chances.gather(1, actions.clamp(min=0)[:, None])[:, 0]
    wrong = ((1 - options.label_smoothing) * said + options.label_smoothing * even)[acts]
    known = torch.from_numpy(data.worth[at])
    has = ~known.isnan()
    error = (worth - known)[has].square()
    loss = wrong.sum() / max(1, len(wrong))
    loss = loss + options.value_weight * error.sum() / max(1, len(error))
    right = (logits.argmax(dim=1) == actions)[acts]
    missed, hits, errors = (float(each.detach().sum()) for each in (said[acts], right, error))
    return loss, np.array([missed, hits, len(wrong), errors, len(error)])


def _mean(found: Sequence[NDArray[np.float64]]) -> Curves:
    said, right, acts, error, ends = np.sum(found, axis=0)
    return {
        "loss": said / max(1, acts),
        "right": right / max(1, acts),
        "worth_error": float(np.sqrt(error / max(1, ends))),
    }


def _halved(views: Views) -> Views:
    return Views(
        views.rows.astype(np.float16),
        views.present,
        views.cursor,
        views.machine.astype(np.float16),
        views.mask,
    )


def _full(views: Views) -> Views:
    return Views(
        views.rows.astype(np.float32),
        views.present,
        views.cursor,
        views.machine.astype(np.float32),
        views.mask,
    )
