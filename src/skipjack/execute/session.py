"""A run session: a worker on the device that holds many kernels, and survives their crashes.

A kernel that crashes or hangs is reported and dropped: the session starts a new worker and loads
the other kernels again when they are next needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, TypeVar

from skipjack.core import Device, Problem, Status, TimingProtocol
from skipjack.errors import WorkerError
from skipjack.execute.process import (
    START_TIMEOUT_S,
    WorkerDiedError,
    WorkerHungError,
    WorkerProcess,
)
from skipjack.execute.statistics import Block
from skipjack.execute.wire import NO_KERNEL, CrashMarker
from skipjack.operations import get, outputs
from skipjack.solvers import Slot

log = logging.getLogger(__name__)

_PREPARE_TIMEOUT_S = 300.0
_LIBRARY_TIMEOUT_S = 60.0
"""Importing a vendor's library from a slow disk takes many seconds."""
_CHANCES = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loadable:
    """What a session needs to run a kernel: machine code, or the name of a vendor's solver."""

    data: bytes = b""
    digest: str = ""
    symbol: str = "kernel"
    abi: str = ""
    slots: tuple[Slot, ...] = ()
    vendor: str = ""
    tolerance_factor: float = 1.0
    """The factor by which its error may exceed the operation's tolerance."""
    called: bool = False
    """Whether machine code is timed as a program calls it from Python, with bound arrays."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kernel that failed, with its status and the reason."""

    kernel: int
    status: Status
    reason: str


_LONGEST_AGAIN_NS = 1e8
_MOST_ELEMENTS = 1 << 26
"""Slower kernels and larger outputs get no digest."""
_SLOW_FLOPS = 1e9
_SLOW_GPU_FLOPS = 1e11


class RunSession:
    """Runs kernels of one problem after another, on cores of its own. Use from one thread.

    With `gpu` (``cuda:0``) kernels run on that GPU, and the cores are those of the host process.
    """

    def __init__(
        self, protocol: TimingProtocol, cores: Sequence[int], gpu: str | None = None
    ) -> None:
        self._protocol, self._cores, self._gpu = protocol, cores, gpu
        self._load_limit_s = max(2.0, protocol.call_timeout_s)
        self._longest_call_s = float("inf")
        self._marker = CrashMarker()
        self._problem: Problem | None = None
        self._loadables: dict[int, Loadable] = {}
        self._failed: dict[int, Failure] = {}
        self._retried: set[int] = set()
        self._present: set[int] = set()
        self._checked_ns: dict[int, float] = {}
        self._next = 0
        self.restarts = -1
        self._worker = self._start()

    def _start(self) -> WorkerProcess:
        self.restarts += 1
        self._present.clear()
        self.imported: set[str] = set()
        """Packages of libraries that the worker was told to import."""
        self._ready = False
        self._marker.announce(NO_KERNEL)
        marker = self._marker.descriptor
        where = ["--gpu", self._gpu] if self._gpu else []
        return WorkerProcess(
            "run", ["--announce", str(marker), *where], self._cores, share=[marker]
        )

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
        self._with_retries(self._await_ready)
        return self._worker.pid

    @property
    def _call_limit_s(self) -> float:
        """How long one call may take: a plain loop nest does about 1 GFLOP/s.

        A bad kernel for a GPU does about 100.
        """
        problem = self._problem
        work = get(problem.operation).flops(problem) if problem else 0
        rate = _SLOW_GPU_FLOPS if self._gpu else _SLOW_FLOPS
        generous = self._protocol.call_timeout_s * max(1.0, work / rate / 10.0)
        return min(generous, max(self._longest_call_s, self._protocol.call_timeout_s))

    def limit_call_time(self, most_s: float) -> None:
        """From now on, limit calls of this problem to this time, or to the protocol's if longer.

        For callers that know faster kernels; a call that takes longer ends the worker, as a hang.
        """
        self._longest_call_s = most_s

    def checked_ns(self, kernel: int) -> float:
        """How long the last checked call took; 0 if there was none."""
        return self._checked_ns.get(kernel, 0.0)

    def prepare(self, problem: Problem) -> None:
        """Switch to a problem; kernels of the previous one are dropped."""
        self._loadables.clear()
        self._failed.clear()
        self._present.clear()
        self._checked_ns.clear()
        self._longest_call_s = float("inf")
        self._problem = None
        self._with_retries(self._await_ready)
        self._with_retries(lambda: self._prepare(problem))
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
        """Add a kernel and return its number; it is loaded when it is first used."""
        self._next += 1
        self._loadables[self._next] = loadable
        return self._next

    def unload(self, kernel: int) -> None:
        """Free a kernel's memory in the worker; it is loaded again if it is used again."""
        if kernel not in self._present:
            return
        self._present.discard(kernel)
        try:
            self._worker.request({"verb": "unload", "kernel": kernel}, timeout_s=self._load_limit_s)
        except (WorkerDiedError, WorkerHungError) as error:
            log.info("the run worker %s; starting a new one", error)
            self._restart()
        except BaseException:
            self._restart()
            raise

    def verify(self, kernel: int, *, unaligned: bool = False) -> tuple[Failure | None, float]:
        """Load and check a kernel; returns the failure, if any, and the error over its tolerance.

        `unaligned` checks native code on unaligned arrays.
        """
        known = self._loadables.get(kernel)  # one that failed before is not known anymore
        tolerance_factor = known.tolerance_factor if known else 1.0
        request = {
            "verb": "verify",
            "kernel": kernel,
            "elsewhere": unaligned,
            "slack": tolerance_factor,
        }
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
        """The digest of the output of a kernel that was checked: see `digest_of_outputs`.

        Empty if the output differs from call to call, if the call is too slow or the output too
        large, and if the kernel fails now.
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
        """Import a library's package in the worker. A failure is reported again by the library."""
        self._with_retries(self._await_ready)
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
        """The peaks of the core as JSON, or with only the instructions of the CPU `device`."""
        request = {"verb": "peaks", "device": asdict(device) if device else None}

        def ask() -> dict[str, Any]:
            self._await_ready()
            return self._worker.request(request, timeout_s=_PREPARE_TIMEOUT_S).body

        answer = self._with_retries(ask)
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
            # A slow kernel is called once per sample, and once to warm up.
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
        """Load kernels and send a request; a crash or hang becomes the failure of its kernel.

        The limit is for one launch: it restarts whenever the worker launches another kernel.
        """

        def attempt() -> dict[str, Any]:
            self._await_ready()
            for kernel in kernels:
                self._load(kernel)
            return self._worker.request(
                request, timeout_s=limit_s, progress=lambda: self._marker.count
            ).body

        answer = self._with_retries(attempt)
        if "error" in answer:
            guilty = answer.get("kernel", NO_KERNEL)
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

    def _with_retries(self, attempt: Callable[[], T]) -> T:
        """Call `attempt`, again with a new worker if need be; raises the failure of a kernel.

        If nothing was launched, or the worker was killed from outside, the kernel gets a second
        chance; so does the worker itself.
        """
        for chance in range(_CHANCES):
            try:
                return attempt()
            except (WorkerDiedError, WorkerHungError) as error:
                kernel = self._marker.kernel
                self._restart()
                hung = isinstance(error, WorkerHungError)
                outside = isinstance(error, WorkerDiedError) and error.from_outside
                if kernel != NO_KERNEL and (kernel in self._retried or not outside):
                    reason = str(error) if hung else f"the kernel's process {error}"
                    status = Status.TIMEOUT if hung else Status.CRASH
                    raise self._failure_of(kernel, status, reason) from None
                self._retried |= {kernel} - {NO_KERNEL}
                if chance == _CHANCES - 1:
                    raise WorkerError(
                        f"run workers failed {_CHANCES} times in a row: the last {error}"
                    ) from None
                log.info("the run worker %s; starting a new one", error)
            except _KernelFailedError:
                raise
            except BaseException:
                # After Ctrl-C in a request, the next answer would belong to that request.
                self._restart()
                raise
        raise AssertionError("the last chance returns or raises")

    def _refused(self, kernel: int, answer: dict[str, Any]) -> _KernelFailedError:
        """The failure for an error answer. After a fault of the device the worker has ended."""
        status = Status.CRASH if answer.get("fault") else Status.ERROR
        if answer.get("out_of_memory"):
            status = Status.OUT_OF_MEMORY
        if answer.get("fault"):
            self._restart()
        else:
            self.unload(kernel)  # free its memory, which the next kernel may need
        return self._failure_of(kernel, status, answer["error"])

    def _failure_of(self, kernel: int, status: Status, reason: str) -> _KernelFailedError:
        log.info("kernel %d failed: %s", kernel, reason)
        failure = self._failed[kernel] = Failure(kernel, status, reason)
        self._loadables.pop(kernel, None)
        self._present.discard(kernel)
        return _KernelFailedError(failure)

    def close(self) -> None:
        """End the worker."""
        self._worker.kill()
        self._marker.close()

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
