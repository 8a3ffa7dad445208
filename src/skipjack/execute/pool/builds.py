"""A pool of build workers, and the folder for their temporary files.

A build that fails, hangs or kills its worker is a result too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from skipjack.core import Candidate, Device, Status
from skipjack.errors import StorageError
from skipjack.execute.pool.state import Cause, PoolLimits, TaskLost
from skipjack.execute.pool.worker_pool import TaskDone, WorkerPool
from skipjack.execute.process import START_TIMEOUT_S, WorkerDiedError, WorkerProcess
from skipjack.execute.wire import Message
from skipjack.ledger import BuildRecord
from skipjack.solvers import Slot
from skipjack.storage import FileLock

# A folder for the temporary files of compilers, removed when its builds are done.
#
# A process that is killed cannot clean up. But the system released its lock, so that the next
# process that builds finds the folder without an owner and removes it.

PREFIX = "skipjack-build-"
_LOCK = "owner.lock"
_NEW_S = 60.0
"""The lock of a folder that is younger than this may not be taken yet."""


class BuildScratch:
    """A temporary folder, with a lock in it while it is used."""

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self._directory = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self._lock = FileLock(Path(self.name) / _LOCK)
        self._lock.__enter__()

    @property
    def name(self) -> str:
        """The path of the folder."""
        return self._directory.name

    def close(self) -> None:
        """Remove the folder with all its content."""
        self._directory.cleanup()
        self._lock.__exit__(None, None, None)


def sweep(temporary: Path) -> None:
    """Remove the folders that killed builds of this user left behind."""
    for folder in temporary.glob(f"{PREFIX}*"):
        if _left_behind(folder / _LOCK):
            shutil.rmtree(folder, ignore_errors=True)


def _left_behind(lock: Path) -> bool:
    """Whether no process holds the lock of a folder of this user."""
    try:
        found = lock.lstat()
        if found.st_uid != os.getuid() or time.time() - found.st_mtime < _NEW_S:
            return False
        with FileLock(lock, timeout_s=0.0):
            return True
    except (OSError, StorageError):
        return False


# A pool of build workers. A build that fails, hangs or kills its worker is a result too.


@dataclass(frozen=True, slots=True)
class Build:
    """The result of building a candidate."""

    candidate: Candidate
    status: Status
    reason: str = ""
    seconds: float = 0.0
    source_digest: str = ""
    artifact: bytes | None = None
    """The new machine code; None if the build was already known."""
    artifact_digest: str = ""
    symbol: str = "kernel"
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    resources: Mapping[str, float] = field(default_factory=dict)
    compiler: str = ""
    target: str = ""
    cached: bool = False
    started: float = 0.0
    """The time of the monotonic clock, which all processes of a host share."""
    known: BuildRecord | None = None
    """The record of an earlier build that failed, so that this one was not tried."""


def known_failure(candidate: Candidate, record: BuildRecord, **fields: Any) -> Build:
    """The build of a candidate whose source failed before, here or on another machine."""
    whence = f"on {record.machine}" if record.machine else "in an earlier run"
    reason = f"{record.reason} (it failed {whence}, {record.created[:10]}; not built again)"
    return Build(
        candidate,
        record.status,
        reason,
        source_digest=record.source_digest,
        resources=record.resources,
        compiler=record.compiler,
        target=record.target,
        cached=True,
        known=record,
        **fields,
    )


_TIMEOUT_S = 30.0
_GPU_TIMEOUT_S = 120.0
"""Triton usually takes a second, and a minute for the largest blocks."""
_AHEAD = 3
"""The timing between two polls may take longer than three builds."""


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
        """Builds that are in the `ledger` and in the folders of `kernels` are not repeated.

        A build may take `timeout_s`, by default a time that depends on the kind of device.
        """
        gpu = device.kind != "cpu"
        arguments = ["--ledger", str(ledger)] if ledger else []
        arguments += [word for folder in kernels for word in ("--kernels", str(folder))]
        arguments += ["--gpu", device.kind] if gpu else []
        # Triton works with temporary files, which a worker that is killed leaves here.
        self._scratch = BuildScratch() if gpu else None
        settings = {"TMPDIR": self._scratch.name} if self._scratch else {}
        self.size = workers
        """How many builds run at once."""
        self._pool: WorkerPool[Candidate, Build] = WorkerPool(
            [f"build-{number}" for number in range(1, workers + 1)],
            lambda slot: WorkerProcess("build", arguments, settings=settings),
            _Builds(asdict(device)),
            PoolLimits(
                ahead=_AHEAD,
                task_s=timeout_s or (_GPU_TIMEOUT_S if gpu else _TIMEOUT_S),
                start_s=START_TIMEOUT_S,
                second_chance=True,
            ),
        )
        try:
            self._pool.step()
        except BaseException:
            self.close()
            raise

    @property
    def timeout_s(self) -> float:
        """The time that a build may take."""
        return self._pool.limits.task_s

    @timeout_s.setter
    def timeout_s(self, seconds: float) -> None:
        self._pool.limits = replace(self._pool.limits, task_s=seconds)

    @property
    def pending(self) -> int:
        """Builds that were submitted and not yet returned."""
        return self._pool.pending

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return list(self._pool.pids.values())

    def submit(self, candidate: Candidate) -> None:
        """Queue a build."""
        self._pool.submit([candidate])

    def warm_up(self, timeout_s: float = 60.0) -> None:
        """Wait until all workers have started."""
        deadline = time.monotonic() + timeout_s
        while not self._pool.all_ready and time.monotonic() < deadline:
            self._step(0.1)

    def withdraw(self) -> list[Candidate]:
        """Take back the builds that no worker has started, and return them."""
        return self._pool.withdraw()

    def cancel(self, grace_s: float = 0.5) -> None:
        """Forget everything that was submitted; a build that does not end soon is ended."""
        deadline = time.monotonic() + grace_s
        self.withdraw()
        while self.pending and time.monotonic() < deadline:
            self.poll(0.05)
            self.withdraw()
        self._pool.cancel()

    def poll(self, timeout_s: float) -> list[Build]:
        """Builds that are done, waiting up to this long for a message of a worker."""
        self._step(timeout_s)
        return [_build_of(one) for one in self._pool.take()]

    def _step(self, timeout_s: float) -> None:
        self._pool.step(timeout_s)
        for one in self._pool.take_not_starting():
            raise WorkerDiedError(f"build workers do not start: the last one {one.how}")

    def close(self) -> None:
        """End all workers."""
        self._pool.close()
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


class _Builds:
    """Builds as tasks of `skipjack.execute.pool.worker_main`."""

    def __init__(self, device: Mapping[str, Any]) -> None:
        self._device = device

    def requests(self, tasks: Sequence[Candidate]) -> Iterable[Message]:
        for candidate in tasks:
            yield Message(
                {
                    "problem": candidate.problem.key,
                    "solver": candidate.solver,
                    "config": dict(candidate.config),
                    "device": self._device,
                }
            )

    def answers(self, slot: str, message: Message) -> Iterable[tuple[Message, float]]:
        if "status" in message.body:
            yield message, message.body["seconds"]

    def result(self, task: Candidate, answer: Message) -> Build:
        body = answer.body
        if "known" in body:
            known = {**body["known"], "status": Status(body["status"])}
            return known_failure(
                *(task, BuildRecord(**known)), seconds=body["seconds"], started=body["started"]
            )
        return Build(
            task,
            Status(body["status"]),
            body.get("reason", ""),
            body["seconds"],
            source_digest=body.get("source_digest", ""),
            artifact=answer.blobs[0] if answer.blobs else None,
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


def _build_of(one: TaskDone[Candidate, Build] | TaskLost[Candidate]) -> Build:
    if isinstance(one, TaskDone):
        return one.answer
    if one.cause is Cause.TIMED_OUT:
        return Build(one.task, Status.BUILD_TIMEOUT, f"the build {one.how}", one.seconds)
    return Build(one.task, Status.BUILD_CRASH, f"the compiler {one.how}", one.seconds)
