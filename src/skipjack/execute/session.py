"""A run session: a worker on the device that holds many kernels, and the blame when it falls.

A kernel that crashes or hangs costs its own place only: the session starts a new worker, loads the
others again when they are next needed, and reports which kernel it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, TypeVar

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import TimingProtocol
from skipjack.core.trial import Status
from skipjack.errors import WorkerError
from skipjack.execute.announcement import NOTHING, Announcement
from skipjack.execute.process import (
    START_TIMEOUT_S,
    WorkerDiedError,
    WorkerHungError,
    WorkerProcess,
)
from skipjack.execute.statistics import Block
from skipjack.operations import get, outputs
from skipjack.solvers.solver import Slot

log = logging.getLogger(__name__)

_PREPARE_TIMEOUT_S = 300.0
_LIBRARY_TIMEOUT_S = 60.0
"""Importing a vendor's library from a slow disk takes many seconds."""
_CHANCES = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loadable:
    """What a session needs in order to run something: machine code, or a vendor solver's name."""

    data: bytes = b""
    digest: str = ""
    symbol: str = "kernel"
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    vendor: str = ""
    slack: float = 1.0
    """How many times the operation's tolerance its result may be off."""
    called: bool = False
    """Whether machine code is timed as a program calls it from Python, its arrays bound before."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kernel that did not make it."""

    kernel: int
    status: Status
    reason: str


_LONGEST_AGAIN_NS = 1e8
_MOST_ELEMENTS = 1 << 26
"""Longer calls and larger outputs are not spent on a digest."""
_SLOW_FLOPS = 1e9
_SLOW_GPU_FLOPS = 1e11


class RunSession:
    """Kernels of one problem after another, on cores of their own. Use from one thread.

    With `gpu` (``cuda:0``) they run on that GPU, and the cores are those of the process beside it.
    """

    def __init__(
        self, protocol: TimingProtocol, cores: Sequence[int], gpu: str | None = None
    ) -> None:
        self._protocol, self._cores, self._gpu = protocol, cores, gpu
        self._load_limit_s = max(2.0, protocol.call_timeout_s)
        self._patience_s = float("inf")
        self._page = Announcement()
        self._problem: Problem | None = None
        self._loadables: dict[int, Loadable] = {}
        self._failed: dict[int, Failure] = {}
        self._excused: set[int] = set()
        self._present: set[int] = set()
        self._checked_ns: dict[int, float] = {}
        self._next = 0
        self.restarts = -1
        self._worker = self._start()

    def _start(self) -> WorkerProcess:
        self.restarts += 1
        self._present.clear()
        self.imported: set[str] = set()
        """Packages of libraries that the worker has been told to import."""
        self._ready = False
        self._page.announce(NOTHING)
        page = self._page.descriptor
        where = ["--gpu", self._gpu] if self._gpu else []
        return WorkerProcess("run", ["--announce", str(page), *where], self._cores, share=[page])

    def _restart(self) -> None:
        self._worker.kill()
        self._worker = self._start()

    def _await_ready(self) -> None:
        if not self._ready:
            greeting = self._worker.receive(START_TIMEOUT_S).body
            if "error" in greeting:
                raise WorkerError(f"no kernel can run on {self._gpu}: {greeting['error']}")
            self._ready = True
            if self._problem:
                self._prepare(self._problem)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        self._surviving(self._await_ready)
        return self._worker.pid

    @property
    def _call_limit_s(self) -> float:
        """How long one call may take: a plain loop nest does about a GFLOP in a second.

        A bad kernel for a GPU does a hundred.
        """
        problem = self._problem
        work = get(problem.operation).flops(problem) if problem else 0
        rate = _SLOW_GPU_FLOPS if self._gpu else _SLOW_FLOPS
        generous = self._protocol.call_timeout_s * max(1.0, work / rate / 10.0)
        return min(generous, max(self._patience_s, self._protocol.call_timeout_s))

    def hurry(self, most_s: float) -> None:
        """Give calls of this problem at most so long from now on, or the protocol's time if longer.

        For who knows how fast others are; a call that is cut short ends the worker as a hang does.
        """
        self._patience_s = most_s

    def checked_ns(self, kernel: int) -> float:
        """How long the call took that was checked last; 0 if none was."""
        return self._checked_ns.get(kernel, 0.0)

    def prepare(self, problem: Problem) -> None:
        """Turn to a problem: kernels of the one before are gone."""
        self._loadables.clear()
        self._failed.clear()
        self._present.clear()
        self._checked_ns.clear()
        self._patience_s = float("inf")
        self._problem = None
        self._surviving(self._await_ready)
        self._surviving(lambda: self._prepare(problem))
        self._problem = problem

    def _prepare(self, problem: Problem) -> None:
        self._await_ready()
        request = {
            "verb": "prepare",
            "problem": problem.key,
            "alignment": self._protocol.alignment_bytes,
            "cold": self._protocol.cold,
            "eager": self._protocol.eager,
        }
        answer = self._worker.request(request, timeout_s=_PREPARE_TIMEOUT_S).body
        if "error" in answer:
            raise WorkerError(f"cannot prepare {problem.key}: {answer['error']}")

    def add(self, loadable: Loadable) -> int:
        """Take a kernel in and give it a number; it is loaded when first used."""
        self._next += 1
        self._loadables[self._next] = loadable
        return self._next

    def unload(self, kernel: int) -> None:
        """Free its memory in the worker; it is loaded again should it be used again."""
        if kernel not in self._present:
            return
        self._present.discard(kernel)
        try:
            self._worker.request({"verb": "unload", "kernel": kernel}, timeout_s=self._load_limit_s)
        except (WorkerDiedError, WorkerHungError) as error:
            log.info("the run worker %s; another one is started", error)
            self._restart()
        except BaseException:
            self._restart()
            raise

    def verify(self, kernel: int, *, elsewhere: bool = False) -> tuple[Failure | None, float]:
        """Load and check a kernel; gives the failure, if any, and the error over its tolerance.

        `elsewhere` checks native code on arrays that are not aligned.
        """
        known = self._loadables.get(kernel)  # one that failed before is not known any more
        slack = known.slack if known else 1.0
        request = {"verb": "verify", "kernel": kernel, "elsewhere": elsewhere, "slack": slack}
        try:
            answer = self._ask(request, [kernel], self._call_limit_s)
        except _KernelFailedError as failed:
            return failed.failure, 0.0
        self._checked_ns[kernel] = answer["call_ns"]
        if answer["right"]:
            return None, answer["error_ratio"]
        if answer["stray"]:
            self._restart()
        else:
            self.unload(kernel)
        return Failure(kernel, Status.WRONG, answer["reason"]), answer["error_ratio"]

    def output_digest(self, kernel: int) -> str:
        """Of what a kernel that was checked writes: see `digest_of_outputs`.

        Empty where that differs from call to call, where calls or outputs are too large to spend
        more of them, and where it fails now.
        """
        written = sum(tensor.size for tensor in outputs(self._problem)) if self._problem else 0
        if not 0.0 < self.checked_ns(kernel) < _LONGEST_AGAIN_NS or written > _MOST_ELEMENTS:
            return ""
        try:
            request = {"verb": "output", "kernel": kernel}
            return str(self._ask(request, [kernel], 2 * self._call_limit_s)["digest"])
        except _KernelFailedError:
            return ""

    def import_package(self, name: str) -> None:
        """Have a library's package in the worker. One that fails does so again with its library."""
        self._surviving(self._await_ready)
        self.imported.add(name)
        try:
            self._worker.request({"verb": "import", "module": name}, timeout_s=_LIBRARY_TIMEOUT_S)
        except (WorkerDiedError, WorkerHungError) as error:
            log.warning("the run worker %s when it imported %s", error, name)
            self._restart()
        except BaseException:
            self._restart()
            raise

    def measure_peaks(self, device: Device | None = None) -> dict[str, Any]:
        """What the core can do at most, as JSON; with no more than another CPU's instructions."""
        request = {"verb": "peaks", "device": asdict(device) if device else None}

        def ask() -> dict[str, Any]:
            self._await_ready()
            return self._worker.request(request, timeout_s=_PREPARE_TIMEOUT_S).body

        answer = self._surviving(ask)
        if "error" in answer:
            raise WorkerError(f"cannot measure the peaks of this device: {answer['error']}")
        return answer

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
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
            # A slow kernel is called once for a sample, and once to warm up.
            calls = self._protocol.samples_per_block + 1
            try:
                answer = self._ask(request, wanted, self._call_limit_s * calls)
            except _KernelFailedError as failed:
                failures.append(failed.failure)
                wanted.remove(failed.failure.kernel)
                continue
            return [Block.from_json(block) for block in answer["blocks"]], failures
        return [], failures

    def _ask(self, request: dict[str, Any], kernels: list[int], limit_s: float) -> dict[str, Any]:
        """Load what is needed and ask; a death or silence becomes the guilty kernel's failure.

        The limit is for one launch: as long as the worker goes from kernel to kernel, it is alive.
        """

        def attempt() -> dict[str, Any]:
            self._await_ready()
            for kernel in kernels:
                self._load(kernel)
            return self._worker.request(
                request, timeout_s=limit_s, progress=lambda: self._page.count
            ).body

        answer = self._surviving(attempt)
        if "error" in answer:
            guilty = answer.get("kernel", NOTHING)
            raise self._refused(guilty if guilty in kernels else kernels[0], answer)
        return answer

    def _load(self, kernel: int) -> None:
        if kernel in self._failed:
            raise _KernelFailedError(self._failed[kernel])
        if kernel in self._present:
            return
        loadable = self._loadables[kernel]
        if loadable.vendor:
            answer = self._worker.request(
                {"verb": "load_vendor", "kernel": kernel, "solver": loadable.vendor},
                timeout_s=_LIBRARY_TIMEOUT_S,
            ).body
        else:
            request = {
                "verb": "load",
                "kernel": kernel,
                "digest": loadable.digest,
                "symbol": loadable.symbol,
                "abi": loadable.abi,
                "slots": list(loadable.slots),
                "called": loadable.called,
            }
            answer = self._worker.request(request, [loadable.data], self._load_limit_s).body
        if "error" in answer:
            raise self._refused(kernel, answer)
        self._present.add(kernel)

    def _surviving(self, attempt: Callable[[], T]) -> T:
        """Do it, with a new worker if need be. A kernel that ends its worker raises its failure.

        If nothing was launched, or somebody else killed the worker, the kernel gets a second
        chance; so does the worker itself.
        """
        for chance in range(_CHANCES):
            try:
                return attempt()
            except (WorkerDiedError, WorkerHungError) as error:
                kernel = self._page.kernel
                self._restart()
                hung = isinstance(error, WorkerHungError)
                outside = isinstance(error, WorkerDiedError) and error.from_outside
                if kernel != NOTHING and (kernel in self._excused or not outside):
                    reason = str(error) if hung else f"the kernel's process {error}"
                    status = Status.TIMEOUT if hung else Status.CRASH
                    raise self._blamed(kernel, status, reason) from None
                self._excused |= {kernel} - {NOTHING}
                if chance == _CHANCES - 1:
                    raise WorkerError(
                        f"run workers fail again and again: the last {error}"
                    ) from None
                log.info("the run worker %s; another one is started", error)
            except _KernelFailedError:
                raise
            except BaseException:
                # Ctrl-C between a request and its answer: the next answer would be the wrong one.
                self._restart()
                raise
        raise AssertionError("the last chance returns or raises")

    def _refused(self, kernel: int, answer: dict[str, Any]) -> _KernelFailedError:
        """Of an answer that is an error. After a fault of the device its worker ends itself."""
        status = Status.CRASH if answer.get("fault") else Status.ERROR
        if answer.get("out_of_memory"):
            status = Status.OUT_OF_MEMORY
        if answer.get("fault"):
            self._restart()
        else:
            self.unload(kernel)  # what it holds may be what the next one lacks
        return self._blamed(kernel, status, answer["error"])

    def _blamed(self, kernel: int, status: Status, reason: str) -> _KernelFailedError:
        log.info("kernel %d failed: %s", kernel, reason)
        failure = self._failed[kernel] = Failure(kernel, status, reason)
        self._loadables.pop(kernel, None)
        self._present.discard(kernel)
        return _KernelFailedError(failure)

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
