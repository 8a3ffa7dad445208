"""Evaluate the jobs of a bundle on the machine with the device, and store each outcome at once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.core import Device, display_names
from skipjack.errors import UsageError
from skipjack.fleet.bundle.format import (
    Bundle,
    BundledOutcome,
    BundleKind,
    BundleManifest,
    EntryKind,
    TaskSummary,
    jobs_with,
    read_outcome,
    read_task,
    task_summaries,
)
from skipjack.fleet.model import Host, JobStage
from skipjack.fleet.work import Worker, make_worker
from skipjack.gpu import find_gpus, gpu_name
from skipjack.interrupt import Interrupt, deferred_interrupt
from skipjack.storage import atomic_replacement, timestamp, utc_now

_MOST_FAILURES = 5
"""Failures in a row after which the machine is at fault: the other jobs are left for later."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BundleProgress:
    """Reported after each task."""

    job: int
    done: int
    total: int
    """Tasks of this machine that were left when the run began."""
    failed: str
    """Why the worker could not do this task; empty if it did."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Options of an evaluation."""

    max_seconds: float | None = None
    """No task starts that would probably end later."""
    gpu: str = ""
    """Which GPU of this machine; empty: the first that fits."""
    on_progress: Callable[[BundleProgress], None] | None = None
    host: Host | None = None
    """This machine; None: detect it."""
    worker: Callable[[], Worker] | None = None
    """Makes the worker; None: the evaluator that all engines use."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.max_seconds is not None and not 0 < self.max_seconds < float("inf"):
            raise UsageError(
                f"{self.max_seconds:g} seconds is not a time limit; give a number above 0"
            )


@dataclass(frozen=True, slots=True)
class EvaluatedBundle:
    """The result of an evaluation."""

    label: str
    results: str
    """The file with the results."""
    tasks: int
    done: int
    """In this run, including those that failed."""
    failed: int
    before: int
    """Outcomes that were in the file already."""
    left: int
    """Tasks of this machine that remain for the next run."""
    elsewhere: Mapping[str, int]
    """Tasks for other devices, by device."""
    stopped: str
    """``time``, ``interrupt`` or ``failures`` if it ended early."""
    seconds: float


def evaluate_bundle(
    jobs: Path, results: Path, key: bytes, how: Evaluation | None = None
) -> EvaluatedBundle:
    """Evaluate those jobs of a bundle whose device this machine has.

    Each outcome is on disk before the next task begins. Running again with the same `results`
    continues where the last run ended. A bundle that is damaged or not signed with the key is
    refused before any task begins.
    """
    how = how or Evaluation()
    began = how.clock()
    if jobs.absolute() == results.absolute():
        raise UsageError(
            f"{jobs} cannot hold both the jobs and the results; choose another file for the results"
        )
    with Bundle.open(jobs, key) as source:
        _check_kind(source)
        host = how.host or _this_host()
        here, elsewhere = _divided(list(task_summaries(source)), host)
        with _results(results, source.manifest, key) as target:
            known = set(jobs_with(target, EntryKind.OUTCOME))
            run = _Run(source, target, host, how, began)
            waiting = [task.job for task in here if task.job not in known]
            run.perform(waiting)
    return EvaluatedBundle(
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
    """The loop over the tasks, and its counters."""

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
            read_outcome(self.target, job).seconds
            for job in jobs_with(self.target, EntryKind.OUTCOME)
        ]
        make = self.how.worker or (lambda: make_worker(JobStage.EVALUATE, gpu=self.how.gpu))
        with deferred_interrupt() as interrupt, closing(make()) as worker:
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
        """Whether another task would probably end in time; the first one is always tried."""
        if self.how.max_seconds is None:
            return True
        left = self.how.max_seconds - (self.how.clock() - self.began)
        return not self.done or (left > 0 and _upper_quartile(self.durations) <= left)


def _gpu_of(device: Device) -> str:
    """The GPU that does the tasks of this device if none was chosen; empty for a CPU."""
    found = [gpu_name(gpu) for _, _, gpu in find_gpus() if gpu.name == device.name]
    return found[0] if found else ""


def _upper_quartile(durations: Sequence[float]) -> float:
    """The duration that three of four tasks do not exceed: the maximum would stop far too early."""
    return sorted(durations)[(3 * len(durations)) // 4] if durations else 0.0


def _this_host() -> Host:
    from skipjack.fleet.host import detect_host

    return detect_host()


def _check_kind(bundle: Bundle) -> None:
    if bundle.manifest.kind is not BundleKind.JOBS:
        raise UsageError(
            f"{bundle.path} holds results, not jobs; import it with `skipjack bundle import`"
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
            f"no job of the bundle is for this machine: the bundle is for {wanted}, and this "
            f"machine has {found}; evaluate the bundle where its device is"
        )
    return here, dict(sorted(elsewhere.items()))


def _results(path: Path, jobs: BundleManifest, key: bytes) -> Bundle:
    """The file of results, open for writing; it is created if it does not exist."""
    if not path.exists():
        manifest = BundleManifest(
            BundleKind.RESULTS, jobs.label, jobs.store, jobs.key, jobs.slice, jobs.id
        )
        with atomic_replacement(path) as temporary:
            Bundle.create(path, manifest, key, at=temporary).close()
    bundle = Bundle.open(path, key, writable=True)
    if bundle.manifest.kind is not BundleKind.RESULTS or bundle.manifest.source != jobs.id:
        bundle.close()
        raise UsageError(f"{path} does not hold results of this bundle; choose another name")
    return bundle
