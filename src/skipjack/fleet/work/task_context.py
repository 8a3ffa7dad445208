"""What a task runs in: its device on this machine, its ledger, its log, and its errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skipjack.core import Device, Trial
from skipjack.errors import (
    ForeignError,
    ProblemError,
    SkipjackError,
    SpaceError,
    UsageError,
    WorkerError,
)
from skipjack.execute import RunSession
from skipjack.fleet.host import detect_host
from skipjack.fleet.model import JobStage, Task, TaskOutcome
from skipjack.fleet.work.worker_log import captured_log
from skipjack.gpu import FoundGpu, find_gpus
from skipjack.ledger import BUILD_TABLES, Ledger
from skipjack.settings import Settings
from skipjack.storage import MemoryArtifacts
from skipjack.tuning.study import Builders, DeviceContext, MissingCodeError, NoBank

# The context of one task: its ledger is in memory, and its facts are part of the outcome.


class TaskContext(DeviceContext):
    """Everything that a round needs; processes belong to the worker, which does many tasks."""

    compiles = False  # builders and evaluators may have different compilers

    def __init__(
        self,
        settings: Settings,
        task: Task,
        *,
        device: Device | None = None,
        pool: Builders | None = None,
        session: RunSession | None = None,
    ) -> None:
        super().__init__(settings, device or task.device)
        self.target = task.device
        self.ledger = Ledger.in_memory()
        self.bank = NoBank()
        self.new_artifacts = MemoryArtifacts(task.artifacts)
        self.artifacts = self.new_artifacts
        if pool:
            self.pool = pool
        if session:
            self.session = session
        for text in task.facts:
            self.ledger.add_facts(text)
        self._before = self.ledger.snapshot()
        self.ledger.add_device(self.device)

    def facts(self) -> str:
        """The facts of this task."""
        return self.ledger.facts_since(self._before)

    def facts_of_builds(self) -> str:
        """The facts about builds, without the study that asked for them."""
        return self.ledger.facts_since(self._before, BUILD_TABLES)

    def close(self) -> None:
        """Close the ledger; processes stay with the worker."""
        self.ledger.close()


# The device of this machine that a task is timed on: cores, or a GPU and a core.


@dataclass(frozen=True, slots=True)
class DeviceAssignment:
    """A device of this machine, and the units of it that are locked during timings."""

    device: Device
    cores: tuple[int, ...]
    """Cores of the process that runs or launches kernels."""
    units: tuple[int | str, ...]
    """Units to lock: cores, or the unique id of a GPU."""
    gpu: str = ""
    """Name of the GPU, such as ``cuda:0``."""


def assign_cores(device: Device, cores: tuple[int, ...]) -> DeviceAssignment:
    """The CPU of this machine; code that cannot run on it is refused."""
    here = {one.name: one for one in detect_host().devices}.get(device.name)
    if here is None:
        raise WorkerError(f"this machine has no {device.name}")
    if device.compat_key not in here.loadable:
        raise WorkerError(
            f"this {device.name} ({here.compat_key}) lacks features that the code was built for: "
            f"{device.compat_key}"
        )
    return DeviceAssignment(here, cores, cores)


def assign_gpu(device: Device, requested: str, cores: tuple[int, ...]) -> DeviceAssignment:
    """The requested GPU, if it is such a device; without a request the first one that is."""
    found = find_gpus()
    matching = _matching(found, requested)
    for driver, index, here in matching:
        if (here.kind, here.name) == (device.kind, device.name):
            unit = here.serial or str(index)
            return DeviceAssignment(here, cores, (unit,), f"{driver.name}:{index}")
    names = ", ".join(dict.fromkeys(here.name for _, _, here in matching))
    if requested and not matching:
        have = ", ".join(f"{driver.name}:{index}" for driver, index, _ in found)
        raise WorkerError(f"this machine has no GPU {requested}; it has {have or 'no GPU'}")
    if requested and len(matching) == 1:
        raise WorkerError(f"GPU {requested} is {names}, not {device.name}")
    raise WorkerError(f"this machine has no {device.name}; found: {names or 'no GPU'}")


def _matching(found: Sequence[FoundGpu], requested: str) -> Sequence[FoundGpu]:
    """The GPUs that match a request: none if it is ``cuda:3`` and does not exist.

    Another text may come from a scheduler, which hides the other GPUs from a worker, so that the
    assigned one has another number.
    """
    plain = requested.removeprefix("GPU-")
    named = [
        one
        for one in found
        if requested == f"{one[0].name}:{one[1]}" or plain == one[2].serial != ""
    ]
    if named:
        return named
    if requested.isdigit() and int(requested) < len(found):
        return [found[int(requested)]]
    return [] if ":" in requested else found


# Running a task: exceptions become part of the outcome, and log messages its log.

log = logging.getLogger(__name__)

_HOPELESS: dict[JobStage, tuple[type[SkipjackError], ...]] = {
    JobStage.BUILD: (UsageError, ForeignError),
    JobStage.EVALUATE: (ProblemError, SpaceError),
}
"""Errors of the job itself, which no other worker avoids. An evaluator may lack cores or a device
that another machine has.
"""


def run_task(task: Task, work: Callable[[], TaskOutcome]) -> TaskOutcome:
    """Do the work; any exception becomes a failed outcome."""
    with captured_log(job=task.job, attempt=task.attempt) as said:
        plan = task.plan
        log.info(
            "job %d: %s %s for %s, solver %s, round %d",
            *(task.job, task.stage, plan.problem, plan.device, plan.shown_solver, task.round),
        )
        outcome = _guarded(task, work)
        if outcome.failed:
            log.error("failed: %s", outcome.failed)
    return replace(outcome, log=said.text, attempt=task.attempt)


def _guarded(task: Task, work: Callable[[], TaskOutcome]) -> TaskOutcome:
    try:
        return work()
    except MissingCodeError as error:
        return TaskOutcome(task.job, task.stage, artifact_lost=str(error))
    except SkipjackError as error:
        hopeless = isinstance(error, _HOPELESS[task.stage])
        return TaskOutcome(task.job, task.stage, failed=str(error), hopeless=hopeless)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return TaskOutcome(task.job, task.stage, failed=f"{error.strerror or error}{where}")
    except Exception as error:  # if the worker died, the reason would be lost
        log.debug("details", exc_info=True)
        return TaskOutcome(task.job, task.stage, failed=f"{type(error).__name__}: {error}")


def trial_line(solver: str, trial: Trial) -> str:
    """One line about a trial, for logs."""
    if trial.ok:
        return f"{solver} {trial.config}: {trial.metrics.get('time_ns', trial.value):,.0f} ns"
    return f"{solver} {trial.config}: {trial.status}: {trial.reason}"
