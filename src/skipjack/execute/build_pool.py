"""A pool of build workers. A build that fails, hangs or kills its worker is a result too."""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

from skipjack.core.device import Device
from skipjack.core.trial import Candidate, Status
from skipjack.execute.build_scratch import BuildScratch
from skipjack.execute.process import (
    START_TIMEOUT_S,
    WorkerDiedError,
    WorkerHungError,
    WorkerProcess,
)
from skipjack.solvers.solver import Slot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Build:
    """What came of building a candidate."""

    candidate: Candidate
    status: Status
    reason: str = ""
    seconds: float = 0.0
    source_digest: str = ""
    artifact: bytes | None = None
    """The new machine code; None where the build was known already."""
    artifact_digest: str = ""
    symbol: str = "kernel"
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    compiler: str = ""
    target: str = ""
    cached: bool = False
    started: float = 0.0
    """Monotonic clock, shared by all processes of a host."""


_MOST_FAILED_STARTS = 3
_TIMEOUT_S = 30.0
_GPU_TIMEOUT_S = 120.0
"""Triton takes a second as a rule, and a minute for the largest blocks."""
_AHEAD = 4
"""Orders that a worker is given at once, so that it need not wait for us between two builds."""


@dataclass
class _Worker:
    process: WorkerProcess
    ready: bool = False
    orders: deque[Candidate] = field(default_factory=deque)
    """The first is being built."""
    since: float = 0.0
    """When the first was begun."""


class BuildPool:
    """Builds candidates in other processes. Use as a context manager, from one thread."""

    def __init__(
        self,
        workers: int,
        device: Device,
        ledger: Path | None = None,
        timeout_s: float | None = None,
        kernels: Sequence[Path] = (),
    ) -> None:
        """What the `ledger` knows and the folders of `kernels` hold is not built again.

        A build may take `timeout_s`; if none is given, what its kind of device calls for.
        """
        gpu = device.kind != "cpu"
        self._device = asdict(device)
        self._arguments = ["--ledger", str(ledger)] if ledger else []
        self._arguments += [word for folder in kernels for word in ("--kernels", str(folder))]
        self._arguments += ["--gpu", device.kind] if gpu else []
        self.timeout_s = timeout_s or (_GPU_TIMEOUT_S if gpu else _TIMEOUT_S)
        self._waiting: deque[Candidate] = deque()
        self._excused: set[str] = set()
        self._failed_starts = 0
        self._workers: list[_Worker] = []
        # Triton works with files; a worker that is killed in the middle leaves them here.
        self._scratch = BuildScratch() if gpu else None
        try:
            for _ in range(workers):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def _start(self) -> _Worker:
        settings = {"TMPDIR": self._scratch.name} if self._scratch else {}
        process = WorkerProcess("build", self._arguments, settings=settings)
        return _Worker(process, since=time.monotonic())

    @property
    def pending(self) -> int:
        """Builds that were submitted and have not come back."""
        return len(self._waiting) + sum(len(worker.orders) for worker in self._workers)

    @property
    def size(self) -> int:
        """How many builds run at once."""
        return len(self._workers)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [worker.process.pid for worker in self._workers]

    def submit(self, candidate: Candidate) -> None:
        """Queue a build."""
        self._waiting.append(candidate)
        self._feed()

    def warm_up(self, timeout_s: float = 60.0) -> None:
        """Wait until all workers have started."""
        deadline = time.monotonic() + timeout_s
        while not all(worker.ready for worker in self._workers) and time.monotonic() < deadline:
            self.poll(0.1)

    def withdraw(self) -> list[Candidate]:
        """Take back what no worker was given yet; gives that."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def cancel(self, grace_s: float = 0.5) -> None:
        """Forget everything that was submitted; a build that does not end soon is ended."""
        deadline = time.monotonic() + grace_s
        self._waiting.clear()
        while self.pending and time.monotonic() < deadline:
            self.poll(0.05)
            self._waiting.clear()
        for number, worker in enumerate(self._workers):
            if worker.orders:
                worker.orders.clear()
                self._replace(number)

    def poll(self, timeout_s: float) -> list[Build]:
        """Builds that are done, waiting up to this long for the first."""
        ready, _, _ = select.select(
            [worker.process for worker in self._workers], [], [], max(0.0, timeout_s)
        )
        done = []
        for number, worker in enumerate(self._workers):
            if worker.process in ready:
                build = self._collect(number, worker)
            else:
                build = self._overdue(number, worker)
            if build:
                done.append(build)
        self._feed()
        return done

    def _feed(self) -> None:
        for depth in range(_AHEAD):
            for number, worker in enumerate(self._workers):
                if not self._waiting:
                    return
                if worker.ready and len(worker.orders) <= depth:
                    self._order(number, worker, self._waiting.popleft())

    def _order(self, number: int, worker: _Worker, candidate: Candidate) -> None:
        if not worker.orders:
            worker.since = time.monotonic()
        worker.orders.append(candidate)
        request = {
            "problem": candidate.problem.key,
            "solver": candidate.solver,
            "config": dict(candidate.config),
            "device": self._device,
        }
        try:
            worker.process.send(request)
        except WorkerDiedError:
            # The one it was building is to blame, and `poll` will find that out.
            if len(worker.orders) == 1:
                self._replace(number)
        except BaseException:
            self._replace(number)
            raise

    def _replace(self, number: int) -> None:
        """Start a worker in the place of one that is gone; give its orders to others."""
        self._workers[number].process.kill()
        self._waiting.extendleft(reversed(self._workers[number].orders))
        self._workers[number] = self._start()

    def _collect(self, number: int, worker: _Worker) -> Build | None:
        try:
            message = worker.process.receive(self.timeout_s)
        except WorkerDiedError as error:
            return self._lost(number, worker, error)
        except WorkerHungError:
            return self._late(number, worker)
        except BaseException:
            # Ctrl-C in the middle of an answer: what was ordered is not lost.
            self._replace(number)
            raise
        if not worker.ready:
            worker.ready = True
            self._failed_starts = 0
            return None
        candidate = worker.orders.popleft()
        worker.since = time.monotonic()
        body = message.body
        return Build(
            candidate,
            Status(body["status"]),
            body.get("reason", ""),
            body["seconds"],
            source_digest=body.get("source_digest", ""),
            artifact=message.blobs[0] if message.blobs else None,
            artifact_digest=body.get("artifact_digest", ""),
            symbol=body.get("symbol", "kernel"),
            abi=body.get("abi", ""),
            slots=tuple(body.get("slots", ())),
            resources=body.get("resources", {}),
            compiler=body.get("compiler", ""),
            target=body.get("target", ""),
            cached=body.get("cached", False),
            started=body["started"],
        )

    def _lost(self, number: int, worker: _Worker, error: WorkerDiedError) -> Build | None:
        """A worker died: the build it was at is to blame, unless somebody killed the worker."""
        if not worker.ready:
            self._start_again(number, str(error))
            return None
        guilty = worker.orders[0] if worker.orders else None
        if guilty is None or (error.from_outside and guilty.key not in self._excused):
            # Once may be an accident; a compiler that eats all memory is killed twice.
            self._excused |= {guilty.key} if guilty else set()
            self._replace(number)
            return None
        worker.orders.popleft()
        self._replace(number)
        seconds = time.monotonic() - worker.since
        return Build(guilty, Status.BUILD_CRASH, f"the compiler {error}", seconds)

    def _start_again(self, number: int, reason: str) -> None:
        self._failed_starts += 1
        if self._failed_starts > _MOST_FAILED_STARTS:
            raise WorkerDiedError(f"build workers do not start: the last one {reason}")
        self._replace(number)

    def _overdue(self, number: int, worker: _Worker) -> Build | None:
        waited_s = time.monotonic() - worker.since
        if not worker.ready and waited_s > START_TIMEOUT_S:
            self._start_again(number, f"was not ready within {START_TIMEOUT_S:g} s")
        if worker.orders and waited_s > self.timeout_s:
            return self._late(number, worker)
        return None

    def _late(self, number: int, worker: _Worker) -> Build | None:
        if not worker.orders:
            self._start_again(number, "fell silent")
            return None
        guilty = worker.orders.popleft()
        self._replace(number)
        reason = f"the build took longer than {self.timeout_s:g} s"
        return Build(guilty, Status.BUILD_TIMEOUT, reason, self.timeout_s)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.process.kill()
        if self._scratch:
            self._scratch.close()

    def __enter__(self) -> BuildPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
