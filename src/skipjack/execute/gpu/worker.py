"""The run worker of a GPU, which holds the kernels of a run session: load, verify, time, unload.

It answers the same requests as `skipjack.execute.cpu.worker`. A kernel that faults destroys the
GPU's context, so that nothing more can be done in this process: it reports that and ends.
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
from skipjack.execute.cpu import ThreadCounters, peaks_to_json
from skipjack.execute.gpu.arrays import DeviceArrays, rotating_sets
from skipjack.execute.gpu.checking import GpuChecker
from skipjack.execute.gpu.kernel import LoadedKernel, checked_artifact
from skipjack.execute.gpu.timing import GpuTimer, Recorded, Stopwatch, Timeable, measure
from skipjack.execute.gpu.torch_bridge import TorchBridge, TorchKernel
from skipjack.execute.verification import Verdict
from skipjack.execute.wire import NO_KERNEL, CrashMarker, answer_all, plain_error
from skipjack.gpu import GpuError, check_fit, find_gpu, from_slots
from skipjack.operations import parse
from skipjack.solvers import GpuVendorSolver, find_solver

log = logging.getLogger(__name__)

_FAULTED = 3
"""Exit code after a fault."""
_UNALIGNED = 16
"""The least alignment of users' arrays, for which kernels are built."""


def serve(requests: BinaryIO, answers: BinaryIO, announce: int | None, gpu: str) -> None:
    """Answer requests until the pipe closes or the GPU's context is lost."""
    plugins.load_from_environment()
    marker = CrashMarker(announce)
    try:
        worker = _Worker(marker, gpu)
    except SkipjackError as error:
        wire.send(answers, {"error": str(error)})
        return
    for answer in answer_all(requests, answers, marker, worker, _refusal):
        if answer.get("fault"):
            os._exit(_FAULTED)  # the cleanup of a usual exit would only fail again


def _refusal(error: Exception, kernel: int) -> dict[str, Any]:
    if not isinstance(error, GpuError):
        return plain_error(error, kernel)
    about = {"fault": error.fault, "out_of_memory": error.out_of_memory}
    return {"error": str(error)[:500], "kernel": kernel, **about}


@dataclass
class _Held:
    """A kernel in this process."""

    on: Callable[[DeviceArrays], Callable[[], object]]
    """Binds it to a set of arrays; returns a function that queues one call."""
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
    def __init__(self, marker: CrashMarker, name: str) -> None:
        driver, index, _ = find_gpu(name)
        self._version = driver.version()
        self._gpu = driver.open(index)
        self._marker = marker
        self._timer = GpuTimer(self._gpu)
        self._bridge: TorchBridge | None = None
        self._looked_for_torch = False
        self._checker: GpuChecker | None = None
        self._sets: list[DeviceArrays] = []
        self._cold, self._eager = True, False
        self._counters = ThreadCounters(None)
        self._kernels: dict[int, _Held] = {}

    def _torch(self) -> TorchBridge | None:
        """PyTorch, which is loaded when it is first needed, since that takes seconds."""
        if not self._looked_for_torch:
            self._bridge = TorchBridge.load(self._gpu)
            self._looked_for_torch = True
        return self._bridge

    def prepare(self, message: wire.Message) -> dict[str, Any]:
        """Make the arrays and the reference of a problem; drops the kernels of the previous one."""
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
        """Load an artifact after checking its digest, without Triton."""
        body, (data,) = message.body, message.blobs
        artifact = checked_artifact(data, body["digest"], body["abi"], self._gpu.device.arch)
        check_fit(artifact, self._gpu.device, self._version)
        self._marker.announce(body["kernel"])
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
            return {"error": f"{solver.name} is not a vendor's library for GPUs"}
        if bridge is None:
            return {"error": f"{solver.name} needs a PyTorch that can use this GPU"}
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

        self._marker.announce(body["kernel"])
        checked(self._ready().arrays)()  # libraries load and select kernels at the first call
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
        """Run once on guarded arrays and check the result."""
        kernel = message.body["kernel"]
        checker, held = self._ready(), self._kernels[kernel]
        arrays = checker.arrays
        if message.body["elsewhere"] and _UNALIGNED % held.alignment == 0:
            arrays = checker.unaligned(_UNALIGNED)
        call_ns = self._run_once(kernel, arrays)
        tolerance_factor = message.body["slack"]
        verdict = checker.verdict(arrays, tolerance_factor)
        if verdict.right and not message.body["elsewhere"] and tolerance_factor == 1.0:
            verdict = self._checked_on_whole_numbers(kernel, verdict)
        return {
            "call_ns": call_ns,
            "right": verdict.right,
            "reason": verdict.reason,
            "error_ratio": verdict.error,
            "stray": verdict.stray,
        }

    def output(self, message: wire.Message) -> dict[str, Any]:
        """The digest of a kernel's output; empty if the output differs from call to call."""
        checker, digests = self._ready(), set()
        for _ in range(2):
            self._run_once(message.body["kernel"], checker.arrays)
            digests.add(checker.output_digest())
        return {"digest": digests.pop() if len(digests) == 1 else ""}

    def _run_once(self, kernel: int, arrays: DeviceArrays) -> float:
        """Run a kernel on poisoned outputs and scratch memory; returns nanoseconds."""
        held = self._kernels[kernel]
        self._marker.announce(kernel)
        call = held.on(arrays)
        if held.loaded:
            held.loaded.poison()
        self._ready().prepare(arrays)
        call_ns = float(self._timer.times(call, 1)[0])
        self._marker.announce(NO_KERNEL)
        return call_ns

    def _checked_on_whole_numbers(self, kernel: int, verdict: Verdict) -> Verdict:
        """Check a right result again, on inputs whose sums are exact: no term may be missing."""
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
        """The peaks of this GPU."""
        return peaks_to_json(measure(self._gpu, self._timer, self._torch()))

    def time(self, message: wire.Message) -> dict[str, Any]:
        """Time kernels in interleaved blocks, with a sentinel between the rounds."""
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
            self._marker.announce(kernel)
            timeable = held.timeable(self._sets)
            held.stopwatch = Stopwatch(
                *(self._timer, timeable, sample_ns), eager=self._eager, hot=not self._cold
            )
            self._marker.announce(NO_KERNEL)

    def _rounds(self, kernels: list[int], count: int, samples: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        before = self._timer.time_sentinel()
        for round_ in range(count):
            # Rotate the order, so that a kernel does not always suffer from the same predecessor.
            start = round_ % len(kernels)
            for kernel in [*kernels[start:], *kernels[:start]]:
                blocks.append(self._block(kernel, round_, samples))
            after = self._timer.time_sentinel()
            for block in blocks[-len(kernels) :]:
                block["sentinel_ns"] = [before, after]
            before = after
        return blocks

    def _block(self, kernel: int, round_: int, samples: int) -> dict[str, Any]:
        stopwatch = self._kernels[kernel].stopwatch
        assert stopwatch is not None, "calibrated before"
        self._marker.announce(kernel)
        switches = self._counters.switches()
        times = stopwatch.sample(samples)
        # The host's time only counts if calls are launched one by one.
        disturbed = self._eager and self._counters.switches() != switches
        self._marker.announce(NO_KERNEL)
        return {
            "kernel": kernel,
            "round": round_,
            "calls": stopwatch.calls,
            "samples_ns": np.round(times, 3).tolist(),
            "disturbed": disturbed,
            "dropped": 0,
        }
