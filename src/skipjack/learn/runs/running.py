"""A run from its last checkpoint to its last step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skipjack.learn.runs.folder import RunFolder, TrainingSession, versions
from skipjack.learn.runs.learners import Learner, unusable_checkpoint
from skipjack.storage import timestamp, utc_now

SAVE_EVERY = 20
"""Iterations between two checkpoints,"""
SAVE_EVERY_S = 60.0
"""unless so many seconds went by."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Where a run stands after an iteration."""

    iteration: int
    steps: int
    total_steps: int
    seconds: float
    """Of training, in all sessions."""
    steps_per_s: float
    """In this session."""
    curves: Mapping[str, float]


class CurveSink(Protocol):
    """Takes curves while a run goes on."""

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """The curves after so many steps."""
        ...

    def close(self, run: Path) -> None:
        """The run is done or interrupted."""
        ...


Watching = Callable[[TrainingProgress], None]


HERE, LOCAL, RAY = "here", "local", "ray"
"""In this process, in others of this machine, on a Ray cluster."""


@dataclass(frozen=True, slots=True)
class TrainingWorkers:
    """The processes that play episodes."""

    engine: str = HERE
    count: int | None = 1
    """On a Ray cluster, on each node; None there for one on each CPU."""
    address: str | None = None
    """Of a Ray cluster; None for one of its own on this machine."""


def resume(folder: RunFolder, learner: Learner) -> None:
    """Bring a learner to the folder's last checkpoint; a run without one begins."""
    last = folder.last_checkpoint()
    if last is not None:
        if last[1].suffix != learner.suffix:
            other = f"it is of another trainer than {folder.options.trainer}, which run.json names"
            raise unusable_checkpoint(last[1], other)
        learner.restore(last[1])
    folder.cut(learner.iteration)


def train(
    folder: RunFolder,
    learner: Learner,
    workers: TrainingWorkers = TrainingWorkers(),  # noqa: B008 (frozen)
    *,
    watch: Watching = lambda progress: None,
    sinks: Sequence[CurveSink] = (),
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Learn until the steps are played or `stop` says so; whether all of them were played.

    Then the folder has a checkpoint of the last iteration; after an exception, an earlier one.
    """
    total, session = folder.options.total_steps, _begin(folder, learner, workers, clock)
    saved, saved_s = learner.iteration, session.began_s
    ended = "failed"
    try:
        while learner.steps < total and not stop():
            curves, episodes = learner.iterate()
            progress = session.progress(learner, total, curves)
            folder.add(progress.curves, episodes, learner.iteration)
            for sink in sinks:
                sink.add(learner.steps, progress.curves)
            watch(progress)
            if learner.iteration - saved >= SAVE_EVERY or clock() - saved_s > SAVE_EVERY_S:
                _save(folder, learner)
                saved, saved_s = learner.iteration, clock()
        # Not after an exception: the learner may be in the middle of an iteration.
        if learner.iteration:
            _save(folder, learner)
        ended = "done" if learner.steps >= total else "interrupted"
    finally:
        folder.change_session(
            to_step=learner.steps,
            seconds=round(clock() - session.began_s, 3),
            ended=ended,
            schedules=learner.sources(),
        )
    return ended == "done"


@dataclass(frozen=True, slots=True)
class _Since:
    """Where a session began."""

    first_step: int
    began_s: float
    before_s: float
    """Of training in earlier sessions."""
    clock: Callable[[], float]

    def progress(
        self, learner: Learner, total: int, curves: Mapping[str, float]
    ) -> TrainingProgress:
        spent_s = self.clock() - self.began_s
        seconds = self.before_s + spent_s
        pace = (learner.steps - self.first_step) / max(spent_s, 1e-9)
        place = {"iteration": learner.iteration, "steps": learner.steps}
        line = {**place, "seconds": round(seconds, 3), **curves}
        return TrainingProgress(learner.iteration, learner.steps, total, seconds, pace, line)


def _begin(
    folder: RunFolder, learner: Learner, workers: TrainingWorkers, clock: Callable[[], float]
) -> _Since:
    steps = learner.steps
    since = _Since(steps, clock(), _seconds_before(folder), clock)
    now = timestamp(utc_now())
    folder.sessions.append(
        TrainingSession(now, workers.engine, workers.count, versions(), steps, steps)
    )
    folder.write_record()
    if steps < folder.options.total_steps:
        folder.forget_evaluation()
    return since


def _save(folder: RunFolder, learner: Learner) -> None:
    learner.save(folder.checkpoint(learner.iteration, learner.suffix))
    folder.keep(learner.arrays())


def _seconds_before(folder: RunFolder) -> float:
    """Of training in earlier sessions, as far as it was kept."""
    rows = folder.curves()
    return float(rows[-1]["seconds"]) if rows else 0.0
