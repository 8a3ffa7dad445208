"""Episodes that workers of an engine play: processes of this machine, or of a Ray cluster."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from skipjack import plugins
from skipjack.errors import SkipjackError
from skipjack.fleet.model import Done, Engine, JobPlan, JobStage, Task, TaskOutcome
from skipjack.learn.policy import PolicyNetwork
from skipjack.learn.rates import close_rates
from skipjack.learn.runs.learners import PlayerSetup
from skipjack.learn.training import (
    Episode,
    EpisodeRequest,
    Group,
    Player,
    groups,
    packed,
    packed_arrays,
    play_group,
    unpacked,
    unpacked_arrays,
)
from skipjack.reading import read_json
from skipjack.settings import load_settings

# The worker: it plays groups of episodes, without torch.
#
# A task of the fleet has the request as JSON in its facts, and the setup and the weights as
# artifacts; its outcome has the episodes as an artifact.


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A request for a group of episodes."""

    setup: str
    """The digest of a `PlayerSetup`."""
    weights: str
    """The digest of the network's arrays."""
    seed: int
    iteration: int
    group: int
    count: int
    greedy: bool
    explore: float


class EpisodeWorker:
    """Plays groups; keeps the games and rates of the last setup, and the last network."""

    def __init__(self) -> None:
        self._player: tuple[str, Player] | None = None
        self._network: tuple[str, PolicyNetwork] | None = None

    def perform(self, task: Task) -> TaskOutcome:
        """Play the group of a task."""
        order = read_json(task.facts[0], "a request for episodes").of(GroupRequest)
        player = self._player_of(order.setup, task.artifacts[order.setup])
        network = self._network_of(order.weights, task.artifacts[order.weights])
        request = EpisodeRequest({}, order.count, order.iteration, order.greedy, order.explore)
        group = Group(order.group, order.count)
        data = packed(play_group(player, network, request, group, order.seed))
        return TaskOutcome(
            task.job,
            task.stage,
            finished=True,
            artifacts={digest(data): data},
            result={"sources": dict(getattr(player.rates, "sources", {}))},
            attempt=task.attempt,
        )

    def _player_of(self, name: str, data: bytes) -> Player:
        if self._player is None or self._player[0] != name:
            self.close()
            self._player = name, PlayerSetup.of(data).player()
        return self._player[1]

    def _network_of(self, name: str, data: bytes) -> PolicyNetwork:
        if self._network is None or self._network[0] != name:
            self._network = name, PolicyNetwork(unpacked_arrays(data))
        return self._network[1]

    def close(self) -> None:
        """Close the rates."""
        if self._player is not None:
            close_rates(self._player[1].rates)
            self._player = None


def make_player(stage: JobStage, *, cores: Sequence[int] = (), gpu: str = "") -> EpisodeWorker:
    """The factory of workers for an engine."""
    plugins.load(load_settings().plugins)
    return EpisodeWorker()


def digest(data: bytes) -> str:
    """The name of an artifact in tasks."""
    return hashlib.sha256(data).hexdigest()


def request_text(order: GroupRequest) -> str:
    """A request as a fact of a task."""
    return json.dumps({name: getattr(order, name) for name in GroupRequest.__slots__})


# Collecting episodes that workers of an engine play, on this machine or a Ray cluster.

log = logging.getLogger(__name__)

AHEAD = 2
"""Groups assigned to a worker at a time, so that it need not wait for the next one."""
MOST_ATTEMPTS = 3
"""The most attempts at a group whose workers are lost."""
WORKERS_S = 120.0
"""The time without any worker after which training fails."""


class _StartedEngine(Engine, Protocol):
    def __enter__(self) -> Any: ...


class EngineCollector:
    """A `Collector` that uses an engine of the fleet; results do not depend on the worker."""

    def __init__(self, engine: _StartedEngine, setup: PlayerSetup, seed: int) -> None:
        """Start an engine, whose workers must be made by `make_player`."""
        self._setup, self._seed = setup, seed
        self._setup_bytes = setup.to_bytes()
        self._jobs = 0
        self._counts: dict[str, dict[str, int]] = {}
        self._engine = engine
        engine.__enter__()

    def collect(self, request: EpisodeRequest) -> list[Episode]:
        """Distribute groups to workers, and return their episodes in order."""
        weights = packed_arrays(request.arrays)
        waiting = deque(self._task(request, group, weights) for group in _groups(request))
        order = [task.job for task in waiting]
        at_work: dict[int, tuple[str, Task]] = {}
        found: dict[int, list[Episode]] = {}
        idle_since = time.monotonic()
        while len(found) < len(order):
            if self._hand_out(waiting, at_work):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > WORKERS_S:
                raise SkipjackError(f"no worker for episodes was available for {WORKERS_S:g} s")
            for done in self._engine.poll(0.5):
                if done.job in at_work:
                    _, task = at_work.pop(done.job)
                    self._settle(done, task, waiting, found)
        return [episode for job in order for episode in found[job]]

    def _task(self, request: EpisodeRequest, group: tuple[int, int], weights: bytes) -> Task:
        self._jobs += 1
        order = GroupRequest(
            setup=digest(self._setup_bytes),
            weights=digest(weights),
            seed=self._seed,
            iteration=request.iteration,
            group=group[0],
            count=group[1],
            greedy=request.greedy,
            explore=request.explore,
        )
        return Task(
            self._jobs,
            JobStage.BUILD,
            JobPlan("episodes", self._setup.device.name),
            self._setup.device,
            facts=(request_text(order),),
            artifacts={order.setup: self._setup_bytes, order.weights: weights},
        )

    def _hand_out(self, waiting: deque[Task], at_work: dict[int, tuple[str, Task]]) -> bool:
        """Assign groups to workers with free slots; returns whether there is any worker."""
        busy: dict[str, int] = {}
        for slot, _ in at_work.values():
            busy[slot] = busy.get(slot, 0) + 1
        slots = [slot.name for slot in self._engine.slots()]
        for count in range(AHEAD):
            for slot in slots:
                if waiting and busy.get(slot, 0) <= count:
                    task = waiting.popleft()
                    at_work[task.job] = slot, task
                    busy[slot] = busy.get(slot, 0) + 1
                    self._engine.submit(slot, [task])
        return bool(slots)

    def _settle(
        self, done: Done, task: Task, waiting: deque[Task], found: dict[int, list[Episode]]
    ) -> None:
        outcome = done.outcome
        if outcome is None:
            if task.attempt + 1 >= MOST_ATTEMPTS:
                raise SkipjackError(
                    f"episodes could not be played in {MOST_ATTEMPTS} attempts: {done.lost}"
                )
            log.warning("episodes are played again: %s", done.lost)
            waiting.appendleft(_again(task))
        elif outcome.failed or len(outcome.artifacts) != 1:
            raise SkipjackError(f"a worker could not play episodes: {outcome.failed}")
        else:
            (data,) = outcome.artifacts.values()
            found[task.job] = unpacked(data)
            counts = (outcome.result or {}).get("sources", {})
            self._counts[done.slot] = {str(kind): int(count) for kind, count in counts.items()}

    def sources(self) -> dict[str, int]:
        """Distinct schedules requested in each worker, summed by the source of their times."""
        total: dict[str, int] = {}
        for counts in self._counts.values():
            for kind, count in counts.items():
                total[kind] = total.get(kind, 0) + count
        return total

    def close(self) -> None:
        """End the workers."""
        self._engine.close()


def engine_collector(
    setup: PlayerSetup, seed: int, *, workers: int | None, ray: bool, address: str | None
) -> EngineCollector:
    """A collector with workers on this machine, or on each node of a Ray cluster.

    Without `workers` there is one for each CPU.
    """
    settings = load_settings()
    if ray:
        from skipjack.fleet.engines import RayEngine

        engine: Any = RayEngine(
            address, settings, builders=workers, evaluators=0, make_worker=make_player
        )
    else:
        from skipjack.fleet.engines import LocalEngine

        engine = LocalEngine(settings, builders=workers, evaluators=0, make_worker=make_player)
    return EngineCollector(engine, setup, seed)


def _groups(request: EpisodeRequest) -> list[tuple[int, int]]:
    return [(each.number, each.count) for each in groups(request.count)]


def _again(task: Task) -> Task:
    return replace(task, attempt=task.attempt + 1)
