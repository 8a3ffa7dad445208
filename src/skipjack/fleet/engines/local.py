"""The engine of one machine: a process for each builder and each evaluator."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType

from skipjack.errors import UsageError
from skipjack.execute import START_TIMEOUT_S, Message, WorkerProcess, device_locks
from skipjack.execute.pool import Cause, PoolLimits, TaskDone, TaskLost, WorkerPool
from skipjack.fleet.host import detect_host
from skipjack.fleet.images import ContainedWorkers, ImageIdentity
from skipjack.fleet.model import (
    Done,
    Host,
    JobStage,
    RunningLog,
    Slot,
    Task,
    TaskOutcome,
    pack_batch,
    unpack_batch,
)
from skipjack.fleet.work import Factory, name_of
from skipjack.gpu import find_gpus
from skipjack.ledger import checkpoint
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.tuning.study import timing_cores

# The slots of this machine: builders, and evaluators on cores and GPUs.


def evaluator_cores(settings: Settings, evaluators: int) -> list[tuple[int, ...]]:
    """Disjoint sets of cores of the same size; remaining cores are not used."""
    usable = len(cpu.usable_cores())
    if evaluators > usable:
        raise UsageError(
            f"{evaluators} evaluators need {evaluators} cores, but this process may use {usable}; "
            "start fewer evaluators"
        )
    if not evaluators:
        return []
    size = usable // evaluators
    cores = timing_cores(settings, size * evaluators)
    return [tuple(cores[at : at + size]) for at in range(0, len(cores), size)]


def builder_slots(host: Host, builders: int) -> list[Slot]:
    """Slots of builders, which build for all devices and are not pinned."""
    return [Slot(f"build-{at + 1}", JobStage.BUILD, host.name) for at in range(builders)]


def evaluator_slots(host: Host, cores: Sequence[tuple[int, ...]]) -> list[Slot]:
    """One evaluator for each set of cores; it uses as many threads as cores, or fewer."""
    return [
        Slot(
            f"evaluate-{at + 1}",
            JobStage.EVALUATE,
            host.name,
            tuple(
                device
                for device in host.devices
                if device.kind == "cpu" and device.units <= len(mine)
            ),
            f"cpu{mine[0]}",
        )
        for at, mine in enumerate(cores)
    ]


def gpu_slots(host: Host) -> list[Slot]:
    """One evaluator for each GPU; it takes no cores from those that time on cores."""
    return [
        Slot(
            f"evaluate-{driver.name}-{index}",
            JobStage.EVALUATE,
            host.name,
            (device,),
            f"{driver.name}:{index}",
        )
        for driver, index, device in find_gpus()
    ]


# The engine.

log = logging.getLogger(__name__)

PAUSE_S = 10.0
"""Pause between attempts to start the worker of a slot."""
_AHEAD, _QUICK_AHEAD = 1, 64


class LocalEngine:
    """Builders and evaluators on this machine; see `skipjack.fleet.model.engine.Engine`.

    `evaluators` counts those that time on cores; if there are any, each GPU has one too.

    A worker without a heartbeat for `stall_s` (stopped, or the machine is swapping) is ended like
    one that died. If the worker of a slot does not start, its tasks are lost; later tasks wait for
    the next attempt.
    """

    name = "local"

    def __init__(
        self,
        settings: Settings,
        builders: int | None = None,
        evaluators: int = 1,
        *,
        make_worker: Factory | None = None,
        stall_s: float = 30.0,
        image: str = "",
    ) -> None:
        """`make_worker` is imported by name in the workers, so it must be a module-level function.

        With an `image`, each worker runs in a container of its own.
        """
        self._contained = ContainedWorkers(image, settings) if image else None
        self._settings = settings
        self._factory = make_worker
        self._host = detect_host()
        if evaluators:
            device_locks.directory()  # fail at once if the directory cannot be used
        cores = evaluator_cores(settings, evaluators)
        builds = builder_slots(self._host, settings.build_workers if builders is None else builders)
        evaluates = evaluator_slots(self._host, cores)
        self._cores = {slot.name: mine for slot, mine in zip(evaluates, cores, strict=True)}
        on_gpus = gpu_slots(self._host) if evaluators else []
        all_slots = (*builds, *evaluates, *on_gpus)
        self._slots = {slot.name: slot for slot in all_slots}
        self._batches = _Batches()
        self._pool: WorkerPool[Task, TaskOutcome] = WorkerPool(
            self._slots,
            self._start,
            self._batches,
            PoolLimits(
                ahead=_AHEAD,
                quick_ahead=_QUICK_AHEAD,
                silence_s=stall_s,
                start_s=START_TIMEOUT_S,
                pause_s=PAUSE_S,
            ),
        )

    def _start(self, name: str) -> WorkerProcess:
        slot = self._slots[name]
        cores = self._cores.get(slot.name, ())
        container = self._contained.launcher(slot, cores) if self._contained else None
        # In a container the only GPU is the first.
        gpu = container.gpu.inside if container and container.gpu else slot.gpu
        arguments = ["--slot", slot.name, "--gpu", gpu]
        if cores:
            arguments += ["--cores", ",".join(map(str, cores))]
        if self._factory is not None:
            arguments += ["--factory", name_of(self._factory)]
        return WorkerProcess(
            str(slot.stage),
            arguments,
            module="skipjack.fleet.work.worker",
            settings=_as_variables(self._settings, cores if container else ()),
            container=container,
        )

    @property
    def image(self) -> ImageIdentity | None:
        """The image of the workers' containers."""
        return self._contained.image if self._contained else None

    def hosts(self) -> Sequence[Host]:
        """This machine."""
        return [self._host]

    def slots(self) -> Sequence[Slot]:
        """Builders, then evaluators."""
        return list(self._slots.values())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running workers by slot."""
        return self._pool.pids

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order."""
        if slot not in self._slots:
            raise UsageError(f"there is no slot {slot}; the slots are {', '.join(self._slots)}")
        self._pool.submit(tasks, slot)

    def poll(self, timeout_s: float) -> list[Done]:
        """Ended tasks; waits up to this long for the first."""
        done = [_done_of(one) for one in self._pool.poll(timeout_s)]
        for stuck in self._pool.take_not_starting():
            log.error("workers of %s do not start: the last one %s", stuck.slot, stuck.how)
        return done

    def running_logs(self) -> Sequence[RunningLog]:
        """Logs of running tasks that have grown since the last call."""
        return self._batches.take_logs()

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once; `poll` does not report them."""
        unwanted = frozenset(jobs)
        self._pool.cancel(lambda task: task.job in unwanted)

    def close(self) -> None:
        """End all workers at once."""
        self._pool.close()
        if self._contained:
            self._contained.close()
        checkpoint(self._settings.user_dir)  # builders had it open

    def __enter__(self) -> LocalEngine:
        self._pool.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Batches:
    """Tasks and outcomes as `skipjack.fleet.work.worker` reads and writes them."""

    def __init__(self) -> None:
        self._said: dict[str, RunningLog] = {}

    def take_logs(self) -> list[RunningLog]:
        """Logs of running tasks that have grown since the last call."""
        said, self._said = self._said, {}
        return list(said.values())

    def requests(self, tasks: Sequence[Task]) -> Iterable[Message]:
        yield pack_batch([task.message() for task in tasks])

    def answers(self, slot: str, message: Message) -> Iterable[tuple[Message, float]]:
        if said := message.body.get("said"):
            self._said[slot] = RunningLog(**said)
        if "bodies" in message.body:
            yield from zip(unpack_batch(message), message.body["seconds"], strict=True)

    def result(self, task: Task, answer: Message) -> TaskOutcome:
        outcome = TaskOutcome.of(answer)
        if (outcome.job, outcome.stage) != (task.job, task.stage):
            raise ValueError(f"an outcome of job {outcome.job} instead of {task.job}")
        return outcome


def _done_of(one: TaskDone[Task, TaskOutcome] | TaskLost[Task]) -> Done:
    task = one.task
    if isinstance(one, TaskDone):
        return Done(one.slot, task.job, one.answer, attempt=task.attempt, seconds=one.seconds)
    if one.cause is Cause.NOT_STARTED:
        lost = f"workers of {one.slot} do not start: the last one {one.how}"
    else:
        log.warning("the worker of %s %s; another takes its place", one.slot, one.how)
        lost = f"the worker {one.how}"
    return Done(one.slot, task.job, lost=lost, attempt=task.attempt, seconds=one.seconds)


def _as_variables(settings: Settings, cores: Sequence[int] = ()) -> dict[str, str]:
    """Variables for a worker to load the same settings; `cores` are all that it may use."""
    variables = {
        "SKIPJACK_USER_DB_PATH": str(settings.user_dir),
        "SKIPJACK_LOG_LEVEL": settings.log_level,
        "SKIPJACK_BUILD_WORKERS": "1",  # each builder is one
    }
    if settings.core is not None and (not cores or settings.core in cores):
        variables["SKIPJACK_CORE"] = str(settings.core)
    return variables
