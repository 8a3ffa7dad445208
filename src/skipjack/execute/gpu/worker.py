"""The side of a run session that holds kernels on a GPU: load, verify, time, unload.

It speaks as `skipjack.execute.run_worker` does. A kernel that faults takes the GPU's context with
it, so that nothing more can be done in this process: it says so and ends itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from skipjack import plugins
from skipjack.errors import SkipjackError
from skipjack.execute import wire
from skipjack.execute.announcement import NOTHING, Announcement
from skipjack.execute.disturbance import Watch
from skipjack.execute.gpu.arrays import DeviceArrays, rotating_sets
from skipjack.execute.gpu.checking import GpuChecker
from skipjack.execute.gpu.kernel import LoadedKernel, checked_artifact
from skipjack.execute.gpu.peaks import measure
from skipjack.execute.gpu.timing import GpuTimer, Recorded, Stopwatch, Timeable
from skipjack.execute.gpu.torch_bridge import TorchBridge, TorchKernel
from skipjack.execute.peaks import peaks_to_json
from skipjack.execute.serving import answer_all, plain_refusal
from skipjack.execute.verification import Verdict
from skipjack.gpu.driver import GpuError
from skipjack.gpu.fitting import check_fit
from skipjack.gpu.opening import find_gpu
from skipjack.gpu.plan import from_slots
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.solver import GpuVendorSolver

log = logging.getLogger(__name__)

_FAULTED = 3
"""Exit code after a fault."""
_UNALIGNED = 16
"""Users' arrays are aligned to this at least, and kernels are built for it."""


def serve(requests: BinaryIO, answers: BinaryIO, announce: int | None, gpu: str) -> None:
    """Answer requests until the pipe closes or the GPU's context is lost."""
    plugins.load_from_environment()
    page = Announcement(announce)
    try:
        worker = _Worker(page, gpu)
    except SkipjackError as error:
        wire.send(answers, {"error": str(error)})
        return
    for answer in answer_all(requests, answers, page, worker, _refusal):
        if answer.get("fault"):
            os._exit(_FAULTED)  # whatever is cleaned up at a usual end would only fail again


def _refusal(error: Exception, kernel: int) -> dict[str, Any]:
    if not isinstance(error, GpuError):
        return plain_refusal(error, kernel)
    about = {"fault": error.fault, "out_of_memory": error.out_of_memory}
    return {"error": str(error)[:500], "kernel": kernel, **about}


@dataclass
class _Held:
    """A kernel in this process."""

    on: Callable[[DeviceArrays], Callable[[], object]]
    """Binds it to a set of arrays; what comes of that queues one call."""
    timeable: Callable[[list[DeviceArrays]], Timeable]
    alignment: int = 1
    loaded: LoadedKernel | None = None
    stopwatch: Stopwatch | None = None

    def free(self) -> None:
        if self.stopwatch:
            self.stopwatch.close()
        if self.loaded:
            self.loaded.free()


class _Worker:
    def __init__(self, page: Announcement, name: str) -> None:
        driver, index, _ = find_gpu(name)
        self._version = driver.version()
        self._gpu = driver.open(index)
        self._page = page
        self._timer = GpuTimer(self._gpu)
        self._bridge: TorchBridge | None = None
        self._looked_for_torch = False
        self._checker: GpuChecker | None = None
        self._sets: list[DeviceArrays] = []
        self._cold, self._eager = True, False
        self._watch = Watch(None)
        self._kernels: dict[int, _Held] = {}

    def _torch(self) -> TorchBridge | None:
        """Loaded when it is first needed: that takes seconds."""
        if not self._looked_for_torch:
            self._bridge = TorchBridge.load(self._gpu)
            self._looked_for_torch = True
        return self._bridge

    def prepare(self, message: wire.Message) -> dict[str, Any]:
        """Make arrays and the reference of a problem; drops all kernels of the one before."""
        problem = parse(message.body["problem"])
        self._cold, self._eager = bool(message.body["cold"]), bool(message.body["eager"])
        for held in self._kernels.values():
            held.free()
        self._kernels.clear()
        self._drop_sets()
        if self._checker:
            self._checker.free()
            self._checker = None
        self._checker = GpuChecker(self._gpu, problem, self._torch())
        return {}

    def _drop_sets(self) -> None:
        for arrays in self._sets:
            if not self._checker or arrays is not self._checker.arrays:
                arrays.free()
        self._sets = []

    def load(self, message: wire.Message) -> dict[str, Any]:
        """Load an artifact whose digest was promised; Triton has no part in it."""
        body, (data,) = message.body, message.blobs
        artifact = checked_artifact(data, body["digest"], body["abi"], self._gpu.device.arch)
        check_fit(artifact, self._gpu.device, self._version)
        self._page.announce(body["kernel"])
        loaded = LoadedKernel(self._gpu, artifact, from_slots(body["slots"]))
        gpu = self._gpu
        self._kernels[body["kernel"]] = _Held(
            loaded.bind,
            lambda sets: Recorded(gpu, [loaded.bind(arrays) for arrays in sets]),
            loaded.alignment,
            loaded,
        )
        return {}

    def load_vendor(self, message: wire.Message) -> dict[str, Any]:
        """Bind a library's function."""
        body = message.body
        solver, bridge = find_solver(body["solver"]), self._torch()
        if not isinstance(solver, GpuVendorSolver):
            return {"error": f"{solver.name} is no vendor's library for GPUs"}
        if bridge is None:
            return {"error": f"{solver.name} needs PyTorch that can use this GPU"}
        problem, library = self._ready().problem, solver

        def on(arrays: DeviceArrays) -> Callable[[], object]:
            with bridge.working():
                return library.bind_gpu(problem, bridge.tensors(arrays))

        def checked(arrays: DeviceArrays) -> Callable[[], object]:
            call = on(arrays)

            def queue() -> None:
                with bridge.working():
                    call()

            return queue

        self._page.announce(body["kernel"])
        checked(self._ready().arrays)()  # libraries load code and choose at the first call
        self._gpu.synchronize()
        self._kernels[body["kernel"]] = _Held(
            checked, lambda sets: TorchKernel(bridge, [on(arrays) for arrays in sets])
        )
        return {}

    def _ready(self) -> GpuChecker:
        if self._checker is None:
            raise RuntimeError("no problem was prepared")
        return self._checker

    def verify(self, message: wire.Message) -> dict[str, Any]:
        """Run once on guarded arrays and judge the result."""
        kernel = message.body["kernel"]
        checker, held = self._ready(), self._kernels[kernel]
        arrays = checker.arrays
        if message.body["elsewhere"] and _UNALIGNED % held.alignment == 0:
            arrays = checker.elsewhere(_UNALIGNED)
        call_ns = self._run_once(kernel, arrays)
        slack = message.body["slack"]
        verdict = checker.verdict(arrays, slack)
        if verdict.right and not message.body["elsewhere"] and slack == 1.0:
            verdict = self._count(kernel, verdict)
        return {
            "call_ns": call_ns,
            "right": verdict.right,
            "reason": verdict.reason,
            "error_ratio": verdict.error,
            "stray": verdict.stray,
        }

    def output(self, message: wire.Message) -> dict[str, Any]:
        """The digest of what a kernel writes; none if that differs from call to call."""
        checker, digests = self._ready(), set()
        for _ in range(2):
            self._run_once(message.body["kernel"], checker.arrays)
            digests.add(checker.output_digest())
        return {"digest": digests.pop() if len(digests) == 1 else ""}

    def _run_once(self, kernel: int, arrays: DeviceArrays) -> float:
        """On outputs and scratch memory that hold nothing of use; gives nanoseconds."""
        held = self._kernels[kernel]
        self._page.announce(kernel)
        call = held.on(arrays)
        if held.loaded:
            held.loaded.poison()
        self._ready().prepare(arrays)
        call_ns = float(self._timer.times(call, 1)[0])
        self._page.announce(NOTHING)
        return call_ns

    def _count(self, kernel: int, verdict: Verdict) -> Verdict:
        """A right result once more, on inputs whose sums are exact: that no term is lost."""
        whole = self._ready().whole_numbers()
        if whole is None:
            return verdict
        self._run_once(kernel, whole.arrays)
        counted = whole.verdict()
        return verdict if counted.right else counted

    def unload(self, message: wire.Message) -> dict[str, Any]:
        """Free a kernel."""
        held = self._kernels.pop(message.body["kernel"], None)
        if held:
            held.free()
        return {}

    def peaks(self, message: wire.Message) -> dict[str, Any]:
        """What this GPU can do at most."""
        return peaks_to_json(measure(self._gpu, self._timer, self._torch()))

    def time(self, message: wire.Message) -> dict[str, Any]:
        """Time kernels in interleaved blocks, a sentinel between the rounds."""
        body = message.body
        kernels: list[int] = body["kernels"]
        self._timer.warm_up()
        if not self._sets:
            arrays = self._ready().arrays
            self._sets = rotating_sets(self._gpu, arrays) if self._cold else [arrays]
        for kernel in kernels:
            self._calibrate(kernel, body["sample_ns"])
        return {"blocks": self._rounds(kernels, body["blocks"], body["samples"])}

    def _calibrate(self, kernel: int, sample_ns: int) -> None:
        held = self._kernels[kernel]
        if held.stopwatch is None:
            self._page.announce(kernel)
            timeable = held.timeable(self._sets)
            held.stopwatch = Stopwatch(
                *(self._timer, timeable, sample_ns), eager=self._eager, hot=not self._cold
            )
            self._page.announce(NOTHING)

    def _rounds(self, kernels: list[int], count: int, samples: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        before = self._timer.beat()
        for round_ in range(count):
            # Rotating the order keeps a neighbour's after-effects from hitting always the same one.
            start = round_ % len(kernels)
            for kernel in [*kernels[start:], *kernels[:start]]:
                blocks.append(self._block(kernel, round_, samples))
            after = self._timer.beat()
            for block in blocks[-len(kernels) :]:
                block["sentinel_ns"] = [before, after]
            before = after
        return blocks

    def _block(self, kernel: int, round_: int, samples: int) -> dict[str, Any]:
        stopwatch = self._kernels[kernel].stopwatch
        assert stopwatch is not None, "calibrated before"
        self._page.announce(kernel)
        switches = self._watch.switches()
        times = stopwatch.sample(samples)
        # What the host does counts where it launches one by one.
        disturbed = self._eager and self._watch.switches() != switches
        self._page.announce(NOTHING)
        return {
            "kernel": kernel,
            "round": round_,
            "calls": stopwatch.calls,
            "samples_ns": np.round(times, 3).tolist(),
            "disturbed": disturbed,
            "dropped": 0,
        }
