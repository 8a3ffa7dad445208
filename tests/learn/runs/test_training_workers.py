"""Who plays the episodes changes nothing of them: this process, others, or those that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from skipjack.errors import SkipjackError
from skipjack.fleet.model import Done, Host, JobStage, RunningLog, Slot, Task, TaskOutcome
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS, Preset
from skipjack.learn.runs.engine_collector import EngineCollector, EpisodeWorker, engine_collector
from skipjack.learn.runs.learners import PlayerSetup
from skipjack.learn.training import Episode, EpisodeRequest, InProcessCollector
from skipjack.native import cpu
from skipjack.testing.samples import random_weights


def setup() -> PlayerSetup:
    keys = ("matmul:16x32x24:f32", "matmul:32x32x16:f32", "add:9000:f32")
    return PlayerSetup(keys, cpu.detect(1), Preset.LOOPTUNE, "model", steps=4)


def order(count: int = 20) -> EpisodeRequest:
    sizes = len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(Preset.LOOPTUNE.actions)
    return EpisodeRequest(random_weights(*sizes), count, iteration=3, explore=0.2)


def same(mine: Sequence[Episode], other: Sequence[Episode]) -> bool:
    return len(mine) == len(other) and all(
        (one.problem, one.schedule, one.speed_up) == (two.problem, two.schedule, two.speed_up)
        and np.array_equal(one.actions, two.actions)
        and np.array_equal(one.rewards, two.rewards)
        and np.array_equal(one.views.rows, two.views.rows)
        for one, two in zip(mine, other, strict=True)
    )


class StandInEngine:
    """Two workers in this process; the first tasks that they are given are lost."""

    name = "stand-in"

    def __init__(self, lost: int = 0, failed: str = "") -> None:
        self.lost, self.failed = lost, failed
        self.workers = {name: EpisodeWorker() for name in ("one", "two")}
        self.todo: list[tuple[str, Task]] = []
        self.played: dict[str, int] = {}
        self.open = False

    def __enter__(self) -> StandInEngine:
        self.open = True
        return self

    def hosts(self) -> Sequence[Host]:
        return []

    def slots(self) -> Sequence[Slot]:
        return [Slot(name, JobStage.BUILD, "here") for name in self.workers]

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self.todo += [(slot, Task.of(task.message())) for task in tasks]

    def poll(self, timeout_s: float) -> list[Done]:
        slot, task = self.todo.pop()  # the last first: answers come in any order
        if self.lost:
            self.lost -= 1
            return [Done(slot, task.job, lost="it died", attempt=task.attempt)]
        if self.failed:
            return [Done(slot, task.job, TaskOutcome(task.job, task.stage, failed=self.failed))]
        self.played[slot] = self.played.get(slot, 0) + 1
        outcome = self.workers[slot].perform(task)
        return [Done(slot, task.job, TaskOutcome.of(outcome.message()), attempt=task.attempt)]

    def heard(self) -> Sequence[RunningLog]:
        raise NotImplementedError

    def cancel(self, jobs: Sequence[int]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.open = False


def test_workers_play_what_this_process_would_also_when_some_are_lost() -> None:
    here = InProcessCollector(setup().player(), 7)
    engine = StandInEngine(lost=2)
    there = EngineCollector(engine, setup(), 7)
    assert same(there.collect(order(40)), here.collect(order(40)))
    assert engine.played.keys() == {"one", "two"}
    assert there.sources().keys() == here.sources().keys() == {"estimated"}
    there.close()
    assert not engine.open


def test_what_cannot_be_played_ends_with_the_reason() -> None:
    with pytest.raises(SkipjackError, match="episodes could not be played in 3 attempts: it died"):
        EngineCollector(StandInEngine(lost=99), setup(), 0).collect(order())
    with pytest.raises(SkipjackError, match="could not play episodes: no such table"):
        EngineCollector(StandInEngine(failed="no such table"), setup(), 0).collect(order())


def test_processes_of_this_machine_play_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    there = engine_collector(setup(), 7, workers=2, ray=False, address=None)
    try:
        assert same(
            there.collect(order()), InProcessCollector(setup().player(), 7).collect(order())
        )
    finally:
        there.close()
