"""Episodes that workers of an engine play: processes of this machine, or of a Ray cluster."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import replace
from typing import Any, Protocol

from skipjack.errors import SkipjackError
from skipjack.fleet.engine import Done, Engine
from skipjack.fleet.records import Plan
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Task
from skipjack.learn.runs.episode_worker import GroupOrder, digest, make_player, order_text
from skipjack.learn.runs.setup import PlayerSetup
from skipjack.learn.training.collecting import groups
from skipjack.learn.training.episodes import Episode, packed_arrays, unpacked
from skipjack.learn.training.orders import EpisodeOrder
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

AHEAD = 2
"""Groups that a worker is given at a time, so that it need not wait for us."""
MOST_ATTEMPTS = 3
"""Of a group whose workers are lost."""
WORKERS_S = 120.0
"""Without any worker for so long, training ends."""


class _StartedEngine(Engine, Protocol):
    def __enter__(self) -> Any: ...


class EngineCollector:
    """A `Collector` over an engine of the fleet; who plays a group changes nothing of it."""

    def __init__(self, engine: _StartedEngine, setup: PlayerSetup, seed: int) -> None:
        """The engine's workers are those of `make_player`; it is started here, and closed."""
        self._setup, self._seed = setup, seed
        self._setup_bytes = setup.to_bytes()
        self._jobs = 0
        self._counts: dict[str, dict[str, int]] = {}
        self._engine = engine
        engine.__enter__()

    def collect(self, wanted: EpisodeOrder) -> list[Episode]:
        """Groups are given to whoever has time, and come back in order."""
        weights = packed_arrays(wanted.arrays)
        waiting = deque(self._task(wanted, group, weights) for group in _groups(wanted))
        order = [task.job for task in waiting]
        at_work: dict[int, tuple[str, Task]] = {}
        found: dict[int, list[Episode]] = {}
        idle_since = time.monotonic()
        while len(found) < len(order):
            if self._hand_out(waiting, at_work):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > WORKERS_S:
                raise SkipjackError(f"no worker that plays episodes started within {WORKERS_S:g} s")
            for done in self._engine.poll(0.5):
                if done.job in at_work:
                    _, task = at_work.pop(done.job)
                    self._settle(done, task, waiting, found)
        return [episode for job in order for episode in found[job]]

    def _task(self, wanted: EpisodeOrder, group: tuple[int, int], weights: bytes) -> Task:
        self._jobs += 1
        order = GroupOrder(
            setup=digest(self._setup_bytes),
            weights=digest(weights),
            seed=self._seed,
            iteration=wanted.iteration,
            group=group[0],
            count=group[1],
            greedy=wanted.greedy,
            explore=wanted.explore,
        )
        return Task(
            self._jobs,
            Stage.BUILD,
            Plan("episodes", self._setup.device.name),
            self._setup.device,
            facts=(order_text(order),),
            artifacts={order.setup: self._setup_bytes, order.weights: weights},
        )

    def _hand_out(self, waiting: deque[Task], at_work: dict[int, tuple[str, Task]]) -> bool:
        """Give workers what they have time for; whether there is any worker."""
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
                raise SkipjackError(f"episodes could not be played: {done.lost}")
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
        """Schedules that were asked for, in each worker."""
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
    """Workers on this machine, or on every node of a Ray cluster (None for one on each CPU)."""
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


def _groups(wanted: EpisodeOrder) -> list[tuple[int, int]]:
    return [(each.number, each.count) for each in groups(wanted.count)]


def _again(task: Task) -> Task:
    return replace(task, attempt=task.attempt + 1)
