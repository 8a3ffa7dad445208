"""A pool of build workers. A build that fails, hangs or kills its worker is a result too."""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

from skipjack.core.device import Device
from skipjack.core.trial import Candidate, Status
from skipjack.execute.process import WorkerDiedError, WorkerProcess
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


@dataclass
class _Worker:
    process: WorkerProcess
    ready: bool = False
    candidate: Candidate | None = None
    since: float = 0.0


class BuildPool:
    """Builds candidates in other processes. Use as a context manager, from one thread."""

    def __init__(
        self, workers: int, device: Device, ledger: Path | None = None, timeout_s: float = 30.0
    ) -> None:
        self._device = asdict(device)
        self._arguments = ["--ledger", str(ledger)] if ledger else []
        self._timeout_s = timeout_s
        self._waiting: deque[Candidate] = deque()
        self._workers = [self._start() for _ in range(workers)]

    def _start(self) -> _Worker:
        return _Worker(WorkerProcess("build", self._arguments), since=time.monotonic())

    @property
    def pending(self) -> int:
        """Builds that were submitted and have not come back."""
        return len(self._waiting) + sum(worker.candidate is not None for worker in self._workers)

    @property
    def size(self) -> int:
        """How many builds run at once."""
        return len(self._workers)

    def submit(self, candidate: Candidate) -> None:
        """Queue a build."""
        self._waiting.append(candidate)
        self._feed()

    def warm_up(self, timeout_s: float = 60.0) -> None:
        """Wait until all workers have started."""
        deadline = time.monotonic() + timeout_s
        while not all(worker.ready for worker in self._workers) and time.monotonic() < deadline:
            self.poll(0.1)

    def cancel_waiting(self) -> list[Candidate]:
        """Take back what no worker has begun."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

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
        for number, worker in enumerate(self._workers):
            if not self._waiting:
                return
            if not worker.ready or worker.candidate:
                continue
            candidate = self._waiting.popleft()
            worker.candidate, worker.since = candidate, time.monotonic()
            try:
                worker.process.send(
                    {
                        "problem": candidate.problem.key,
                        "solver": candidate.solver,
                        "config": dict(candidate.config),
                        "device": self._device,
                    }
                )
            except WorkerDiedError:
                # It died between two builds: the candidate is not to blame.
                self._waiting.appendleft(candidate)
                self._workers[number] = self._start()

    def _collect(self, number: int, worker: _Worker) -> Build | None:
        candidate = worker.candidate
        try:
            message = worker.process.receive(self._timeout_s)
        except WorkerDiedError as error:
            self._workers[number] = self._start()
            if candidate is None:
                if not worker.ready:
                    raise WorkerDiedError(f"a build worker did not start: {error}") from None
                return None
            seconds = time.monotonic() - worker.since
            return Build(candidate, Status.BUILD_CRASH, f"the compiler {error}", seconds)
        if candidate is None:
            worker.ready = True
            return None
        worker.candidate = None
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

    def _overdue(self, number: int, worker: _Worker) -> Build | None:
        if worker.candidate is None or time.monotonic() - worker.since < self._timeout_s:
            return None
        worker.process.kill()
        self._workers[number] = self._start()
        reason = f"the build took longer than {self._timeout_s:g} s"
        return Build(worker.candidate, Status.BUILD_TIMEOUT, reason, self._timeout_s)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.process.kill()

    def __enter__(self) -> BuildPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
