"""The run worker of a CPU, which holds the kernels of a run session: load, verify, time, unload.

Before it loads or launches anything it writes the kernel's number into a shared page, so that the
parent knows which kernel was running if this process dies or hangs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from skipjack import plugins
from skipjack.core import ABI, Device, Problem
from skipjack.execute import wire
from skipjack.execute.cpu.kernels import (
    ColdKernel,
    Kernel,
    NativeKernel,
    PlacedKernel,
    PythonKernel,
    ThreadCounters,
    pinned,
    placements,
    take_samples,
)
from skipjack.execute.cpu.peaks import measure, peaks_to_json
from skipjack.execute.verification import Checker
from skipjack.execute.wire import NO_KERNEL, CrashMarker, answer_all
from skipjack.native import (
    SENTINEL_ROUNDS,
    CacheFlusher,
    NativeTimer,
    VectorType,
    aligned,
    arithmetic_kernel,
    cpu,
    llvm,
    return_free_memory,
    workspace_bytes,
)
from skipjack.operations import parse
from skipjack.solvers import NativeVendorSolver, Slot, VendorSolver, find_solver


def serve(requests: BinaryIO, answers: BinaryIO, announce: int | None) -> None:
    """Answer requests until the pipe closes. `announce` is the descriptor of the shared page."""
    plugins.load_from_environment()
    marker = CrashMarker(announce)
    for _ in answer_all(requests, answers, marker, _Worker(marker)):
        pass


_SLOW_NS = 2e6
"""A kernel whose single call takes longer is sampled once per block."""
_LONG_NS = 1e8
"""The checked call of a kernel that takes longer is a good enough timing."""
_MOST_COLD_CALLS = 32
"""Most calls of a sample with cold caches: flushing the arrays takes longer than a short call."""
_TOUCH_NS = 0.3
"""Approximate cost of the first touch of a byte."""
_NOTICED = 0.005
"""The first touch of the workspace matters if it takes this share of a call."""
_SETTLE_S = 0.001
"""The time after which a library's threads have stopped waiting for its next call."""


class _Worker:
    def __init__(self, marker: CrashMarker) -> None:
        device = self._device = cpu.detect()
        self._target = cpu.target_of(device)
        self._loader = llvm.Loader()
        self._timer = NativeTimer(self._loader, self._target)
        self._cores = cpu.usable_cores()
        self._counters = ThreadCounters(self._cores[0] if len(self._cores) == 1 else None)
        self._marker = marker
        self._checker: Checker | None = None
        self._places: list[dict[str, Any]] = []
        self._cold = self._eager = False
        self._flusher: CacheFlusher | None = None
        self._unaligned: Checker | None = None
        self._kernels: dict[int, tuple[Kernel, PlacedKernel]] = {}
        self._addresses: dict[int, int] = {}
        self._native_slots: dict[int, list[Slot]] = {}
        self._libraries: set[int] = set()
        self._calls: dict[int, int] = {}
        self._checked_ns: dict[int, float] = {}
        self._round = 0
        self._slow: dict[int, bool] = {}
        self._warmed = False
        self._sentinel = self._make_sentinel(VectorType("f32", device.vector_bytes // 4))

    def _make_sentinel(self, vector: VectorType) -> NativeKernel:
        code = llvm.compile_object(arithmetic_kernel(vector, SENTINEL_ROUNDS), self._target)
        out = aligned((4096,), "float32")
        return NativeKernel(self._loader.load(code, "kernel"), ["out"], {"out": out}, self._timer)

    def prepare(self, message: wire.Message) -> dict[str, Any]:
        """Make the arrays and the reference of a problem; drops the kernels of the previous one."""
        problem: Problem = parse(message.body["problem"])
        alignment = int(message.body["alignment"])
        self._cold, self._eager = bool(message.body["cold"]), bool(message.body["eager"])
        self._kernels.clear()
        for address in self._addresses.values():
            self._loader.unload(address)
        self._addresses.clear()
        self._libraries.clear()
        self._calls.clear()
        self._checked_ns.clear()
        self._checker = self._unaligned = None
        self._places = []
        return_free_memory()
        self._checker = Checker(problem, alignment)
        self._places = placements(self._checker.arrays)
        return {}

    def load(self, message: wire.Message) -> dict[str, Any]:
        """Load machine code after checking its digest."""
        body, (data,) = message.body, message.blobs
        if hashlib.sha256(data).hexdigest() != body["digest"]:
            return {"error": "the artifact's bytes do not match its digest; it was not loaded"}
        if body["abi"] != ABI:
            return {"error": f"launch ABI {body['abi']!r} is unknown here; it must be {ABI!r}"}
        self._marker.announce(body["kernel"])
        address = self._loader.load(data, body["symbol"])
        self._add(body["kernel"], address, body["slots"], called=body["called"])
        return {}

    def load_vendor(self, message: wire.Message) -> dict[str, Any]:
        """Bind a library's function."""
        body = message.body
        solver, checker = find_solver(body["solver"]), self._ready()
        self._marker.announce(body["kernel"])
        self._libraries.add(body["kernel"])
        if isinstance(solver, NativeVendorSolver):
            text, slots = solver.thunk(checker.problem)
            address = self._loader.load(llvm.compile_object(text, self._target), "kernel")
            self._add(body["kernel"], address, list(slots))
        elif isinstance(solver, VendorSolver):
            on_checked = PythonKernel(solver.bind(checker.problem, checker.arrays))
            calls = [solver.bind(checker.problem, arrays) for arrays in self._places]
            on_timed = self._placed([PythonKernel(call) for call in calls])
            self._kernels[body["kernel"]] = (on_checked, on_timed)
        else:
            return {"error": f"{solver.name} is not a vendor's library"}
        return {}

    def _add(self, kernel: int, address: int, slots: list[Slot], *, called: bool = False) -> None:
        self._addresses[kernel], self._native_slots[kernel] = address, slots
        on_checked = NativeKernel(
            *(address, slots, self._ready().arrays, self._timer), is_poisoned=True
        )
        on_timed = [NativeKernel(address, slots, arrays, self._timer) for arrays in self._places]
        natives = [on_checked, *on_timed]
        on = [
            PythonKernel(native.bound()) if called or self._eager else native for native in natives
        ]
        self._kernels[kernel] = (on[0], self._placed(on[1:]))

    def _placed(self, kernels: Sequence[Kernel]) -> PlacedKernel:
        """A kernel on the arrays of each place, with cold caches if the protocol says so."""
        if not self._cold:
            return PlacedKernel(kernels)
        if self._flusher is None:
            self._flusher = CacheFlusher(self._loader, self._target, self._device.level)
        flush = self._flusher.flush
        return PlacedKernel(
            [
                ColdKernel(kernel, partial(flush, tuple(arrays.values())))
                for kernel, arrays in zip(kernels, self._places, strict=True)
            ]
        )

    def _ready(self) -> Checker:
        if self._checker is None:
            raise RuntimeError("no problem was prepared")
        return self._checker

    def verify(self, message: wire.Message) -> dict[str, Any]:
        """Run once on guarded arrays and check the result."""
        kernel = message.body["kernel"]
        checker, checked = self._ready(), self._kernels[kernel][0]
        if message.body["elsewhere"]:
            self._unaligned = checker = self._unaligned or checker.unaligned()
            address, slots = self._addresses[kernel], self._native_slots[kernel]
            checked = NativeKernel(*(address, slots, checker.arrays, self._timer), is_poisoned=True)
        checker.prepare()
        self._marker.announce(kernel)
        started = time.perf_counter_ns()
        checked.call()
        self._checked_ns[kernel] = call_ns = float(time.perf_counter_ns() - started)
        self._marker.announce(NO_KERNEL)
        verdict = checker.verdict(message.body["slack"])
        return {
            "call_ns": call_ns,
            "right": verdict.right,
            "reason": verdict.reason,
            "error_ratio": verdict.error,
            "stray": verdict.stray,
        }

    def output(self, message: wire.Message) -> dict[str, Any]:
        """The digest of a kernel's output; empty if the output differs from call to call."""
        kernel = message.body["kernel"]
        checker, checked = self._ready(), self._kernels[kernel][0]
        digests = set()
        for _ in range(2):
            checker.prepare()
            self._marker.announce(kernel)
            checked.call()
            self._marker.announce(NO_KERNEL)
            digests.add(checker.output_digest())
        return {"digest": digests.pop() if len(digests) == 1 else ""}

    def unload(self, message: wire.Message) -> dict[str, Any]:
        """Free a kernel."""
        kernel = message.body["kernel"]
        self._kernels.pop(kernel, None)
        self._calls.pop(kernel, None)
        self._slow.pop(kernel, None)
        self._native_slots.pop(kernel, None)
        address = self._addresses.pop(kernel, None)
        if address is not None:
            self._loader.unload(address)
        return {}

    def peaks(self, message: wire.Message) -> dict[str, Any]:
        """The peaks of this core."""
        given = message.body["device"]
        device = Device.from_record(given) if given else self._device
        target = cpu.target_of(device)
        return peaks_to_json(measure(device, target, self._loader, self._timer))

    def time(self, message: wire.Message) -> dict[str, Any]:
        """Time kernels in interleaved blocks, with a sentinel between the rounds."""
        body = message.body
        kernels: list[int] = body["kernels"]
        if not self._warmed:
            self._sentinel.sample(1, 200)  # an idle core needs a while to reach its clock rate
            self._warmed = True
        for kernel in kernels:
            self._calibrate(kernel, body["sample_ns"])
        with pinned(self._cores):  # now that the first calls have started all threads
            return {"blocks": self._rounds(kernels, body["blocks"], body["samples"])}

    def _rounds(self, kernels: list[int], count: int, samples: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        before = self._time_sentinel()
        for round_ in range(count):
            self._round += 1
            # Rotate the order, so that a kernel does not always suffer from the same predecessor.
            start = round_ % len(kernels)
            for kernel in [*kernels[start:], *kernels[:start]]:
                blocks.append(self._block(kernel, round_, samples))
            after = self._time_sentinel()
            for block in blocks[-len(kernels) :]:
                block["sentinel_ns"] = [before, after]
            before = after
        return blocks

    def _time_sentinel(self) -> float:
        """The sentinel's time: the best of three, so that one interruption does not matter."""
        return float(self._sentinel.sample(1, 3).min())

    def _calibrate(self, kernel: int, sample_ns: int) -> None:
        if kernel in self._calls:
            return
        self._marker.announce(kernel)
        timed = self._kernels[kernel][1]
        if self._checked_ns.get(kernel, 0.0) > _LONG_NS:
            touching_ns = _TOUCH_NS * workspace_bytes(self._native_slots.get(kernel, []))
            if touching_ns > _NOTICED * self._checked_ns[kernel]:
                timed.at(self._round + 1).call()  # touches the pages of its next workspace
            self._calls[kernel], self._slow[kernel] = 1, True
            self._marker.announce(NO_KERNEL)
            return
        once = float(timed.sample(1, 1).min())
        if once < _SLOW_NS:
            once = float(timed.sample(1, 1).min())  # the first call also warmed up the caches
        if once < sample_ns:
            once = float(timed.sample(max(1, int(sample_ns / 4 / max(once, 1.0))), 2).min())
        most = _MOST_COLD_CALLS if self._cold else sample_ns
        self._calls[kernel] = max(1, min(most, round(sample_ns / max(once, 1.0))))
        self._slow[kernel] = once > _SLOW_NS
        self._marker.announce(NO_KERNEL)

    def _block(self, kernel: int, round_: int, samples: int) -> dict[str, Any]:
        self._marker.announce(kernel)
        calls, slow = self._calls[kernel], self._slow[kernel]
        placed = self._kernels[kernel][1]
        # One slow call is long enough for a sample, and cached data hardly matters to it. All
        # kernels of a round are timed at the same place.
        places = [placed.at(self._round)] if slow else placed.places
        taken = take_samples(places, calls, 1 if slow else samples, self._counters, warm=not slow)
        self._marker.announce(NO_KERNEL)
        if kernel in self._libraries and len(self._cores) > 1:
            time.sleep(_SETTLE_S)
        return {
            "kernel": kernel,
            "round": round_,
            "calls": calls,
            "samples_ns": np.round(taken.times_ns, 3).tolist(),
            "disturbed": taken.disturbed,
            "dropped": taken.dropped,
        }
