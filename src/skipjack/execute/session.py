"""A run session: a worker on the device that holds many kernels, and the blame when it falls.

A kernel that crashes or hangs costs its own place only: the session starts a new worker, loads the
others again when they are next needed, and reports which kernel it was.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from skipjack.core.problem import Problem
from skipjack.core.protocol import TimingProtocol
from skipjack.core.trial import Status
from skipjack.errors import WorkerError
from skipjack.execute.announcement import ANNOUNCEMENT, NOTHING
from skipjack.execute.process import WorkerDiedError, WorkerHungError, WorkerProcess
from skipjack.execute.statistics import Block
from skipjack.solvers.solver import Slot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loadable:
    """What a session needs in order to run something: machine code, or a vendor solver's name."""

    data: bytes = b""
    digest: str = ""
    symbol: str = "kernel"
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kernel that did not make it."""

    kernel: int
    status: Status
    reason: str


class RunSession:
    """Kernels of one problem after another, on one core. Use from one thread."""

    def __init__(self, protocol: TimingProtocol, core: int | None) -> None:
        self._protocol, self._core = protocol, core
        # The page is unlinked as soon as the worker has it open: nothing is left behind.
        self._page = tempfile.NamedTemporaryFile(prefix="skipjack-")  # noqa: SIM115
        self._page.write(ANNOUNCEMENT.pack(NOTHING))
        self._page.flush()
        self._problem: Problem | None = None
        self._loadables: dict[int, Loadable] = {}
        self._present: set[int] = set()
        self._next = 0
        self.restarts = -1
        self._worker = self._start()

    def _start(self) -> WorkerProcess:
        self.restarts += 1
        self._present.clear()
        worker = WorkerProcess("run", ["--announce", self._page.name], self._core)
        self._ready = False
        return worker

    def _await_ready(self) -> None:
        if not self._ready:
            self._worker.receive(60.0)
            self._ready = True
            if self._problem:
                self._prepare(self._problem)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        self._await_ready()
        return self._worker.pid

    def prepare(self, problem: Problem) -> None:
        """Turn to a problem: kernels of the one before are gone."""
        self._loadables.clear()
        self._present.clear()
        self._problem = None
        self._await_ready()
        self._problem = problem
        self._prepare(problem)

    def _prepare(self, problem: Problem) -> None:
        request = {
            "verb": "prepare",
            "problem": problem.key,
            "alignment": self._protocol.alignment_bytes,
        }
        answer = self._worker.request(request, timeout_s=300.0).body
        if "error" in answer:
            raise WorkerError(f"cannot prepare {problem.key}: {answer['error']}")

    def add(self, loadable: Loadable) -> int:
        """Take a kernel in and give it a number; it is loaded when first used."""
        self._next += 1
        self._loadables[self._next] = loadable
        return self._next

    def unload(self, kernel: int) -> None:
        """Free its memory in the worker; it is loaded again should it be used again."""
        if kernel in self._present:
            self._present.discard(kernel)
            self._worker.request({"verb": "unload", "kernel": kernel})

    def verify(self, kernel: int) -> tuple[Failure | None, float]:
        """Load and check a kernel; gives the failure, if any, and the error over its tolerance."""
        try:
            answer = self._ask(
                {"verb": "verify", "kernel": kernel}, [kernel], self._protocol.call_timeout_s
            )
        except _KernelFailedError as failed:
            return failed.failure, 0.0
        if not answer["right"]:
            self.unload(kernel)
            return Failure(kernel, Status.WRONG, answer["reason"]), answer["error_ratio"]
        return None, answer["error_ratio"]

    def measure_peaks(self) -> dict[str, Any]:
        """What the core can do at most, as JSON."""
        self._await_ready()
        return self._worker.request({"verb": "peaks"}, timeout_s=120.0).body

    def time(
        self, kernels: Sequence[int], blocks: int, expected_s: float = 0.0
    ) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels. Those that fail are left out of the blocks."""
        wanted = list(kernels)
        failures: list[Failure] = []
        while wanted:
            request = {
                "verb": "time",
                "kernels": wanted,
                "blocks": blocks,
                "samples": self._protocol.samples_per_block,
                "sample_ns": self._protocol.sample_ns,
            }
            limit = self._protocol.call_timeout_s * len(wanted) * (blocks + 1) + 3 * expected_s
            try:
                answer = self._ask(request, wanted, limit)
            except _KernelFailedError as failed:
                failures.append(failed.failure)
                wanted.remove(failed.failure.kernel)
                continue
            return [Block.from_json(block) for block in answer["blocks"]], failures
        return [], failures

    def _ask(self, request: dict[str, Any], kernels: list[int], limit_s: float) -> dict[str, Any]:
        """Load what is needed and ask; a death or silence becomes the guilty kernel's failure."""
        try:
            self._await_ready()
            for kernel in kernels:
                self._load(kernel)
            answer = self._worker.request(request, timeout_s=limit_s).body
        except WorkerHungError as error:
            raise self._blamed(Status.TIMEOUT, str(error), kernels) from None
        except WorkerDiedError as error:
            raise self._blamed(Status.CRASH, f"the kernel's process {error}", kernels) from None
        if "error" in answer:
            raise self._blamed(Status.ERROR, answer["error"], kernels, restart=False)
        return answer

    def _load(self, kernel: int) -> None:
        if kernel in self._present:
            return
        loadable = self._loadables[kernel]
        if loadable.vendor:
            answer = self._worker.request(
                {"verb": "load_vendor", "kernel": kernel, "solver": loadable.vendor}
            ).body
        else:
            request = {
                "verb": "load",
                "kernel": kernel,
                "digest": loadable.digest,
                "symbol": loadable.symbol,
                "abi": loadable.abi,
                "slots": list(loadable.slots),
            }
            answer = self._worker.request(request, [loadable.data]).body
        if "error" in answer:
            self._loadables.pop(kernel)
            raise _KernelFailedError(Failure(kernel, Status.ERROR, answer["error"]))
        self._present.add(kernel)

    def _blamed(
        self, status: Status, reason: str, kernels: list[int], restart: bool = True
    ) -> _KernelFailedError:
        guilty = self._announced() if restart else NOTHING
        if guilty not in kernels:
            guilty = kernels[0]
        log.info("kernel %d failed: %s", guilty, reason)
        if restart:
            self._worker.kill()
            self._announce_nothing()
            self._worker = self._start()
        self._loadables.pop(guilty, None)
        self._present.discard(guilty)
        return _KernelFailedError(Failure(guilty, status, reason))

    def _announced(self) -> int:
        number: int = ANNOUNCEMENT.unpack(Path(self._page.name).read_bytes()[: ANNOUNCEMENT.size])[
            0
        ]
        return number

    def _announce_nothing(self) -> None:
        os.pwrite(self._page.fileno(), ANNOUNCEMENT.pack(NOTHING), 0)

    def close(self) -> None:
        """End the worker."""
        self._worker.kill()
        self._page.close()

    def __enter__(self) -> RunSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _KernelFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure
