"""A pool of build workers. A build that fails, hangs or kills its worker is a result too."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from skipjack.core.device import Device
from skipjack.core.trial import Candidate, Status
from skipjack.execute.build_scratch import BuildScratch
from skipjack.execute.pool import Cause, PoolRules, TaskDone, TaskLost, WorkerPool
from skipjack.execute.process import START_TIMEOUT_S, WorkerDiedError, WorkerProcess
from skipjack.execute.wire import Message
from skipjack.solvers.solver import Slot


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


_TIMEOUT_S = 30.0
_GPU_TIMEOUT_S = 120.0
"""Triton takes a second as a rule, and a minute for the largest blocks."""
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
        """What the `ledger` knows and the folders of `kernels` hold is not built again.

        A build may take `timeout_s`; if none is given, what its kind of device calls for.
        """
        gpu = device.kind != "cpu"
        arguments = ["--ledger", str(ledger)] if ledger else []
        arguments += [word for folder in kernels for word in ("--kernels", str(folder))]
        arguments += ["--gpu", device.kind] if gpu else []
        # Triton works with files; a worker that is killed in the middle leaves them here.
        self._scratch = BuildScratch() if gpu else None
        settings = {"TMPDIR": self._scratch.name} if self._scratch else {}
        self.size = workers
        """How many builds run at once."""
        self._pool: WorkerPool[Candidate, Build] = WorkerPool(
            [f"build-{number}" for number in range(1, workers + 1)],
            lambda slot: WorkerProcess("build", arguments, settings=settings),
            _Builds(asdict(device)),
            PoolRules(
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
        """What a build may take."""
        return self._pool.rules.task_s

    @timeout_s.setter
    def timeout_s(self, seconds: float) -> None:
        self._pool.rules = replace(self._pool.rules, task_s=seconds)

    @property
    def pending(self) -> int:
        """Builds that were submitted and have not come back."""
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
        """Take back what no worker was given yet; gives that."""
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
        """Builds that are done, waiting up to this long for a worker to say anything."""
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
    """A build as a task of `skipjack.execute.build_worker`."""

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
