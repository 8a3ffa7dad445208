"""The engine of one machine: a process for each builder and each evaluator."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from types import TracebackType

from skipjack.errors import UsageError
from skipjack.execute import device_lock
from skipjack.execute.process import WorkerProcess
from skipjack.fleet.engine import Done, Host, RunningLog, Slot
from skipjack.fleet.engines.placement import (
    builder_slots,
    evaluator_cores,
    evaluator_slots,
    gpu_slots,
)
from skipjack.fleet.engines.seat import Seat
from skipjack.fleet.host import detect_host
from skipjack.fleet.images.identity import Identity
from skipjack.fleet.images.workers import ContainedWorkers
from skipjack.fleet.task import Task
from skipjack.fleet.worker import Factory, name_of
from skipjack.ledger import fold_in
from skipjack.settings import Settings

_LOOK_EVERY_S = 0.25
_MOMENT_S = 0.004
_LONG_PAUSE_S = 2.0
"""Between two polls: the caller was busy or stopped, and the workers are not to blame."""


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
        self._seats = {slot.name: self._seat(slot, stall_s) for slot in everyone}
        self._polled = time.monotonic()

    def _seat(self, slot: Slot, stall_s: float) -> Seat:
        return Seat(slot, lambda: self._start(slot), stall_s)

    def _start(self, slot: Slot) -> WorkerProcess:
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
        return [seat.slot for seat in self._seats.values()]

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the living workers by slot."""
        living = {name: seat.process for name, seat in self._seats.items()}
        return {name: process.pid for name, process in living.items() if process}

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        """Give tasks to a slot, which does them in order."""
        if slot not in self._seats:
            raise UsageError(f"there is no slot {slot}; there are {', '.join(self._seats)}")
        self._seats[slot].submit(tasks)
        self._seats[slot].tend()

    def poll(self, timeout_s: float) -> list[Done]:
        """What is done, waiting up to this long for the first."""
        deadline = time.monotonic() + timeout_s
        self._excuse()
        while True:
            left_s = deadline - time.monotonic()
            self._exchange(min(max(0.0, left_s), _LOOK_EVERY_S))
            done = self._take()
            if done or left_s <= 0:
                return done + self._gather() if done else done

    def _take(self) -> list[Done]:
        return [one for seat in self._seats.values() for one in seat.take()]

    def _gather(self) -> list[Done]:
        """What quick workers are done with in a moment: callers settle many as fast as one."""
        deadline = time.monotonic() + _MOMENT_S
        while any(seat.quick for seat in self._seats.values()) and time.monotonic() < deadline:
            time.sleep(_MOMENT_S / 8)
            self._exchange(0.0)
        return self._take()

    def _excuse(self) -> None:
        pause_s = time.monotonic() - self._polled
        if pause_s > _LONG_PAUSE_S:
            for seat in self._seats.values():
                seat.excuse(pause_s)

    def _exchange(self, timeout_s: float) -> None:
        seats = list(self._seats.values())
        for seat in seats:
            seat.tend()
        living = {seat.process: seat for seat in seats if seat.process}
        full = [process for process in living if process.unsent]
        readable, _, _ = select.select(list(living), full, [], timeout_s)
        for process in readable:
            living[process].listen()
        for seat in seats:
            seat.check_signs()
            seat.tend()
        self._polled = time.monotonic()

    def heard(self) -> Sequence[RunningLog]:
        """What workers have said about the tasks they are at, where it grew."""
        return [said for seat in self._seats.values() for said in seat.take_said()]

    def cancel(self, jobs: Sequence[int]) -> None:
        """Stop working on these jobs at once; nothing more is heard of them."""
        for seat in self._seats.values():
            seat.cancel(frozenset(jobs))

    def close(self) -> None:
        """End all workers now."""
        for seat in self._seats.values():
            seat.close()
        if self._contained:
            self._contained.close()
        fold_in(self._settings.user_dir)  # builders had it open

    def __enter__(self) -> LocalEngine:
        for seat in self._seats.values():
            seat.tend()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
