"""The engine of one machine: a process for each builder and each evaluator."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType

from skipjack.errors import UsageError
from skipjack.execute import device_lock
from skipjack.execute.pool import Cause, PoolRules, TaskDone, TaskLost, WorkerPool
from skipjack.execute.process import START_TIMEOUT_S, WorkerProcess
from skipjack.execute.wire import Message
from skipjack.fleet.engine import Done, Host, RunningLog, Slot
from skipjack.fleet.engines.placement import (
    builder_slots,
    evaluator_cores,
    evaluator_slots,
    gpu_slots,
)
from skipjack.fleet.host import detect_host
from skipjack.fleet.images.identity import Identity
from skipjack.fleet.images.workers import ContainedWorkers
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.worker import Factory, name_of
from skipjack.ledger import fold_in
from skipjack.settings import Settings

log = logging.getLogger(__name__)

PAUSE_S = 10.0
"""After workers of a slot did not start, until the next attempt."""
_AHEAD, _QUICK_AHEAD = 1, 64


class LocalEngine:
    """Builders and evaluators on this machine; see `skipjack.fleet.engine.Engine`.

    `evaluators` are those that time on cores; with any of them there is also one for each GPU.

    A worker that says nothing for `stall_s` (it was stopped, or the machine is swapping) is ended
    like one that died. A slot whose workers do not start gives its tasks back as lost; what it is
    given then waits for the next attempt.
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
        """`make_worker` is imported by its name in the workers, so it must be a module's.

        With an `image` each worker has a container of its own, made of it.
        """
        self._contained = ContainedWorkers(image, settings) if image else None
        self._settings = settings
        self._factory = make_worker
        self._host = detect_host()
        if evaluators:
            device_lock.directory()  # a place that is of no use should fail at once
        cores = evaluator_cores(settings, evaluators)
        builds = builder_slots(self._host, settings.build_workers if builders is None else builders)
        evaluates = evaluator_slots(self._host, cores)
        self._cores = {slot.name: mine for slot, mine in zip(evaluates, cores, strict=True)}
        on_gpus = gpu_slots(self._host) if evaluators else []
        everyone = (*builds, *evaluates, *on_gpus)
        self._slots = {slot.name: slot for slot in everyone}
        self._parcels = _Parcels()
        self._pool: WorkerPool[Task, Outcome] = WorkerPool(
            self._slots,
            self._start,
            self._parcels,
            PoolRules(
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
        enclosure = self._contained.enclose(slot, cores) if self._contained else None
        # Among the devices of a container its only GPU is the first.
        gpu = enclosure.gpu.inside if enclosure and enclosure.gpu else slot.gpu
        arguments = ["--slot", slot.name, "--gpu", gpu]
        if cores:
            arguments += ["--cores", ",".join(map(str, cores))]
        if self._factory is not None:
            arguments += ["--factory", name_of(self._factory)]
        return WorkerProcess(
            str(slot.stage),
            arguments,
            module="skipjack.fleet.worker",
            settings=_as_variables(self._settings, cores if enclosure else ()),
            enclosure=enclosure,
        )

    @property
    def image(self) -> Identity | None:
        """What workers' containers are made of."""
        return self._contained.image if self._contained else None

    def hosts(self) -> Sequence[Host]:
        """This machine."""
        return [self._host]

    def slots(self) -> Sequence[Slot]:
        """Builders, then evaluators."""
        return list(self._slots.values())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the living workers by slot."""
        return self._pool.pids

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order."""
        if slot not in self._slots:
            raise UsageError(f"there is no slot {slot}; there are {', '.join(self._slots)}")
        self._pool.submit(tasks, slot)

    def poll(self, timeout_s: float) -> list[Done]:
        """What is done, waiting up to this long for the first."""
        done = [_done_of(one) for one in self._pool.poll(timeout_s)]
        for stuck in self._pool.take_not_starting():
            log.error("workers of %s do not start: the last one %s", stuck.slot, stuck.how)
        return done

    def heard(self) -> Sequence[RunningLog]:
        """What workers have said about the tasks they are at, where it grew."""
        return self._parcels.take_said()

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once; nothing more is heard of them."""
        unwanted = frozenset(jobs)
        self._pool.cancel(lambda task: task.job in unwanted)

    def close(self) -> None:
        """End all workers now."""
        self._pool.close()
        if self._contained:
            self._contained.close()
        fold_in(self._settings.user_dir)  # builders had it open

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


class _Parcels:
    """Tasks and outcomes as `skipjack.fleet.worker` reads and writes them."""

    def __init__(self) -> None:
        self._said: dict[str, RunningLog] = {}

    def take_said(self) -> list[RunningLog]:
        """What workers logged, where it grew since the last time."""
        said, self._said = self._said, {}
        return list(said.values())

    def requests(self, tasks: Sequence[Task]) -> Iterable[Message]:
        yield pack([task.message() for task in tasks])

    def answers(self, slot: str, message: Message) -> Iterable[tuple[Message, float]]:
        if said := message.body.get("said"):
            self._said[slot] = RunningLog(**said)
        if "bodies" in message.body:
            yield from zip(unpack(message), message.body["seconds"], strict=True)

    def result(self, task: Task, answer: Message) -> Outcome:
        outcome = Outcome.of(answer)
        if (outcome.job, outcome.stage) != (task.job, task.stage):
            raise ValueError(f"an outcome of job {outcome.job} instead of {task.job}")
        return outcome


def _done_of(one: TaskDone[Task, Outcome] | TaskLost[Task]) -> Done:
    task = one.task
    if isinstance(one, TaskDone):
        return Done(one.slot, task.job, one.answer, attempt=task.attempt, seconds=one.seconds)
    if one.cause is Cause.NOT_STARTED:
        lost = f"workers of {one.slot} do not start: the last one {one.how}"
    else:
        log.warning("the worker of %s %s; another takes its place", one.slot, one.how)
        lost = f"the worker {one.how}"
    return Done(one.slot, task.job, lost=lost, attempt=task.attempt)


def _as_variables(settings: Settings, cores: Sequence[int] = ()) -> dict[str, str]:
    """What a worker needs in order to load the same settings; `cores` are all that it sees."""
    variables = {
        "SKIPJACK_USER_DB_PATH": str(settings.user_dir),
        "SKIPJACK_LOG_LEVEL": settings.log_level,
        "SKIPJACK_BUILD_WORKERS": "1",  # each builder is one
    }
    if settings.core is not None and (not cores or settings.core in cores):
        variables["SKIPJACK_CORE"] = str(settings.core)
    return variables
