"""Where the device is: do the jobs of a bundle, and write down what came of each as it comes."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.core.device import Device, display_names
from skipjack.errors import UsageError
from skipjack.fleet.bundle.container import Bundle, Part
from skipjack.fleet.bundle.contents import (
    BundledOutcome,
    TaskSummary,
    jobs_with,
    read_outcome,
    read_task,
    task_summaries,
)
from skipjack.fleet.bundle.manifest import Kind, Manifest
from skipjack.fleet.engine import Host
from skipjack.fleet.states import Stage
from skipjack.fleet.work import Worker, make_worker
from skipjack.gpu.opening import find_gpus, gpu_name
from skipjack.interrupt import Interrupt, watch_for_interrupt
from skipjack.reading import numbered
from skipjack.storage import atomic_replacement, timestamp, utc_now

_MOST_FAILURES = 5
"""In a row: then it is the machine that does not work, and the other jobs are spared."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BundleProgress:
    """One more task is done."""

    job: int
    done: int
    """In this run."""
    total: int
    """Of this machine's tasks that this run had before it."""
    failed: str
    """Why the worker could not do this one, if so."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How to evaluate, and with what."""

    max_seconds: float | None = None
    """No task is begun that would probably not be done by then."""
    gpu: str = ""
    """Which one of this machine."""
    on_progress: Callable[[BundleProgress], None] | None = None
    host: Host | None = None
    """This machine; None: look."""
    worker: Callable[[], Worker] | None = None
    """Makes what does the tasks; None: an evaluator as everywhere in the fleet."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.max_seconds is not None and not 0 < self.max_seconds < float("inf"):
            raise UsageError(f"{self.max_seconds:g} seconds are no limit; give a number above 0")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of it."""

    label: str
    results: str
    """The file."""
    tasks: int
    """In the bundle."""
    done: int
    """In this run, with those that failed."""
    failed: int
    before: int
    """Were in the file already."""
    left: int
    """Of this machine's, for the next run."""
    elsewhere: Mapping[str, int]
    """Tasks for other devices, by device."""
    stopped: str
    """``time``, ``interrupt`` or ``failures`` (all of the last ones) if it ended early."""
    seconds: float


def evaluate_bundle(
    jobs: Path, results: Path, key: bytes, how: Evaluation | None = None
) -> Evaluated:
    """Do those jobs of a bundle that this machine has the device for.

    Each outcome is on disk before the next task begins. Running again with the same `results` goes
    on where the last run ended, however it did. A bundle that is not whole or not sealed with the
    key is refused before anything is done.
    """
    how = how or Evaluation()
    began = how.clock()
    if jobs.absolute() == results.absolute():
        raise UsageError(f"{jobs} cannot be both the jobs and the results; name another file")
    with Bundle.open(jobs, key) as source:
        _check_kind(source)
        host = how.host or _this_host()
        here, elsewhere = _divided(list(task_summaries(source)), host)
        with _results(results, source.manifest, key) as target:
            known = set(jobs_with(target, Part.OUTCOME))
            run = _Run(source, target, host, how, began)
            waiting = [task.job for task in here if task.job not in known]
            run.perform(waiting)
    return Evaluated(
        source.manifest.label,
        str(results),
        len(here) + sum(elsewhere.values()),
        run.done,
        run.failed,
        len(here) - len(waiting),
        len(waiting) - run.done,
        elsewhere,
        run.stopped,
        how.clock() - began,
    )


@dataclass(slots=True)
class _Run:
    """The loop and what it counts."""

    source: Bundle
    target: Bundle
    host: Host
    how: Evaluation
    began: float
    done: int = 0
    failed: int = 0
    failures_in_a_row: int = 0
    stopped: str = ""
    durations: list[float] = field(default_factory=list)

    def perform(self, jobs: Sequence[int]) -> None:
        if not jobs:
            return
        self.durations = [
            read_outcome(self.target, job).seconds for job in jobs_with(self.target, Part.OUTCOME)
        ]
        make = self.how.worker or (lambda: make_worker(Stage.EVALUATE, gpu=self.how.gpu))
        with watch_for_interrupt() as interrupt, closing(make()) as worker:
            for job in jobs:
                self.stopped = self._why_stop(interrupt)
                if self.stopped:
                    break
                self._one(worker, job, len(jobs))

    def _why_stop(self, interrupt: Interrupt) -> str:
        if interrupt.requested:
            return "interrupt"
        if self.failures_in_a_row >= _MOST_FAILURES:
            return "failures"
        return "" if self._fits() else "time"

    def _one(self, worker: Worker, job: int, total: int) -> None:
        bundled = read_task(self.source, job)
        task, start = bundled.task, self.how.clock()
        outcome = worker.perform(task)
        seconds = self.how.clock() - start
        at = timestamp(utc_now())
        gpu = self.how.gpu or _gpu_of(task.device)
        result = BundledOutcome(
            outcome, task.epoch, task.round, bundled.build, self.host, gpu, at, seconds
        )
        self.target.append(result.entries())
        self.durations.append(seconds)
        self.done += 1
        self.failed += bool(outcome.failed)
        self.failures_in_a_row = self.failures_in_a_row + 1 if outcome.failed else 0
        if outcome.failed:
            log.warning("job %d failed: %s", job, outcome.failed)
        if self.how.on_progress:
            progress = BundleProgress(job, self.done, total, outcome.failed, seconds)
            self.how.on_progress(progress)

    def _fits(self) -> bool:
        """Whether another task would probably be done in time; the first one is always tried."""
        if self.how.max_seconds is None:
            return True
        left = self.how.max_seconds - (self.how.clock() - self.began)
        return not self.done or (left > 0 and _upper_quartile(self.durations) <= left)


def _gpu_of(device: Device) -> str:
    """Which one of this machine does its tasks if none was chosen; empty for a CPU."""
    found = [gpu_name(gpu) for _, _, gpu in find_gpus() if gpu.name == device.name]
    return found[0] if found else ""


def _upper_quartile(durations: Sequence[float]) -> float:
    """What three of four tasks do not exceed: the longest ever would give up far too early."""
    return sorted(durations)[(3 * len(durations)) // 4] if durations else 0.0


def _this_host() -> Host:
    from skipjack.fleet.host import detect_host

    return detect_host()


def _check_kind(bundle: Bundle) -> None:
    if bundle.manifest.kind is not Kind.JOBS:
        raise UsageError(
            f"{bundle.path} holds results, not jobs; `skipjack bundle import` takes it"
        )


def _divided(
    tasks: Sequence[TaskSummary], host: Host
) -> tuple[list[TaskSummary], Mapping[str, int]]:
    """Tasks for this machine, and the number of others by device."""
    names = display_names([*host.devices, *(task.device for task in tasks)])
    here = [task for task in tasks if any(task.fits(device) for device in host.devices)]
    ours = {task.job for task in here}
    others = (task.device for task in tasks if task.job not in ours)
    elsewhere = Counter(names[device.class_key] for device in others)
    if not here:
        wanted = ", ".join(sorted(elsewhere))
        found = ", ".join(sorted({names[one.class_key] for one in host.devices})) or "no device"
        raise UsageError(
            f"none of the {numbered(len(tasks), 'job')} is for this machine: they are for "
            f"{wanted}, here is {found}; evaluate the bundle where its device is"
        )
    return here, dict(sorted(elsewhere.items()))


def _results(path: Path, jobs: Manifest, key: bytes) -> Bundle:
    """The file of results, open for writing; a new one if there is none."""
    if not path.exists():
        manifest = Manifest(Kind.RESULTS, jobs.label, jobs.store, jobs.key, jobs.slice, jobs.id)
        with atomic_replacement(path) as temporary:
            Bundle.create(path, manifest, key, at=temporary).close()
    bundle = Bundle.open(path, key, writable=True)
    if bundle.manifest.kind is not Kind.RESULTS or bundle.manifest.source != jobs.id:
        bundle.close()
        raise UsageError(f"{path} does not hold results of this bundle; choose another name")
    return bundle
