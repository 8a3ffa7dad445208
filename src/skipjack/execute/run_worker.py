"""The side of a run session that holds kernels: load, verify, time, unload.

Before it loads or launches anything it writes the kernel's number into a shared page, so that
whoever finds this process dead or stuck knows which kernel to blame.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from skipjack import plugins
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.execute import wire
from skipjack.execute.announcement import NOTHING, Announcement
from skipjack.execute.disturbance import Watch, take_samples
from skipjack.execute.kernels import ColdKernel, Kernel, NativeKernel, PythonKernel
from skipjack.execute.peaks import measure, peaks_to_json
from skipjack.execute.pinning import pinned
from skipjack.execute.placement import PlacedKernel, placements
from skipjack.execute.serving import answer_all
from skipjack.execute.verification import Checker
from skipjack.native import cpu, llvm
from skipjack.native.flushing import CacheFlusher
from skipjack.native.ir import VectorType
from skipjack.native.memory import aligned, give_memory_back
from skipjack.native.slots import workspace_bytes
from skipjack.native.timer import SENTINEL_ROUNDS, NativeTimer, arithmetic_kernel
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.solver import ABI, NativeVendorSolver, Slot, VendorSolver


def serve(requests: BinaryIO, answers: BinaryIO, announce: int | None) -> None:
    """Answer requests until the pipe closes. `announce` is the descriptor of the shared page."""
    plugins.load_from_environment()
    page = Announcement(announce)
    for _ in answer_all(requests, answers, page, _Worker(page)):
        pass


_SLOW_NS = 2e6
"""A kernel whose single call takes longer is sampled once a block."""
_LONG_NS = 1e8
"""One that takes longer was timed well enough when it was checked."""
_MOST_COLD_CALLS = 32
"""Of a sample: to flush the arrays takes longer than a short call."""
_TOUCH_NS = 0.3
"""What the first touch of a byte costs, about; it counts if it is this share of a call:"""
_NOTICED = 0.005
_SETTLE_S = 0.001
"""Until the threads of a library have stopped waiting for its next call; see `WorkerProcess`."""


class _Worker:
    def __init__(self, page: Announcement) -> None:
        device = self._device = cpu.detect()
        self._target = cpu.target_of(device)
        self._loader = llvm.Loader()
        self._timer = NativeTimer(self._loader, self._target)
        self._cores = cpu.usable_cores()
        self._watch = Watch(self._cores[0] if len(self._cores) == 1 else None)
        self._page = page
        self._checker: Checker | None = None
        self._places: list[dict[str, Any]] = []
        self._cold = self._eager = False
        self._flusher: CacheFlusher | None = None
        self._elsewhere: Checker | None = None
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
        """Make arrays and the reference of a problem; drops all kernels of the one before."""
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
        self._checker = self._elsewhere = None
        self._places = []
        give_memory_back()
        self._checker = Checker(problem, alignment)
        self._places = placements(self._checker.arrays)
        return {}

    def load(self, message: wire.Message) -> dict[str, Any]:
        """Load machine code whose digest was promised."""
        body, (data,) = message.body, message.blobs
        if hashlib.sha256(data).hexdigest() != body["digest"]:
            return {"error": "the artifact's bytes do not match its digest; it was not loaded"}
        if body["abi"] != ABI:
            return {"error": f"launch ABI {body['abi']!r} is not known here, only {ABI!r}"}
        self._page.announce(body["kernel"])
        address = self._loader.load(data, body["symbol"])
        self._add(body["kernel"], address, body["slots"], called=body["called"])
        return {}

    def load_vendor(self, message: wire.Message) -> dict[str, Any]:
        """Bind a library's function."""
        body = message.body
        solver, checker = find_solver(body["solver"]), self._ready()
        self._page.announce(body["kernel"])
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
            return {"error": f"{solver.name} is no vendor's library"}
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
        """A kernel on the arrays of each place, which are cold if they are to be."""
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
        """Run once on guarded arrays and judge the result."""
        kernel = message.body["kernel"]
        checker, checked = self._ready(), self._kernels[kernel][0]
        if message.body["elsewhere"]:
            self._elsewhere = checker = self._elsewhere or checker.elsewhere()
            address, slots = self._addresses[kernel], self._native_slots[kernel]
            checked = NativeKernel(*(address, slots, checker.arrays, self._timer), is_poisoned=True)
        checker.prepare()
        self._page.announce(kernel)
        started = time.perf_counter_ns()
        checked.call()
        self._checked_ns[kernel] = call_ns = float(time.perf_counter_ns() - started)
        self._page.announce(NOTHING)
        verdict = checker.verdict(message.body["slack"])
        return {
            "call_ns": call_ns,
            "right": verdict.right,
            "reason": verdict.reason,
            "error_ratio": verdict.error,
            "stray": verdict.stray,
        }

    def output(self, message: wire.Message) -> dict[str, Any]:
        """The digest of what a kernel writes; none if that differs from call to call."""
        kernel = message.body["kernel"]
        checker, checked = self._ready(), self._kernels[kernel][0]
        digests = set()
        for _ in range(2):
            checker.prepare()
            self._page.announce(kernel)
            checked.call()
            self._page.announce(NOTHING)
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
        """What this core can do at most."""
        given = message.body["device"]
        device = Device.from_record(given) if given else self._device
        target = cpu.target_of(device)
        return peaks_to_json(measure(device, target, self._loader, self._timer))

    def time(self, message: wire.Message) -> dict[str, Any]:
        """Time kernels in interleaved blocks, a sentinel between the rounds."""
        body = message.body
        kernels: list[int] = body["kernels"]
        if not self._warmed:
            self._sentinel.sample(1, 200)  # a core that slept needs a while to reach its clock
            self._warmed = True
        for kernel in kernels:
            self._calibrate(kernel, body["sample_ns"])
        with pinned(self._cores):  # now that the first calls have started all threads
            return {"blocks": self._rounds(kernels, body["blocks"], body["samples"])}

    def _rounds(self, kernels: list[int], count: int, samples: int) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        before = self._beat()
        for round_ in range(count):
            self._round += 1
            # Rotating the order keeps a neighbour's after-effects from hitting always the same one.
            start = round_ % len(kernels)
            for kernel in [*kernels[start:], *kernels[:start]]:
                blocks.append(self._block(kernel, round_, samples))
            after = self._beat()
            for block in blocks[-len(kernels) :]:
                block["sentinel_ns"] = [before, after]
            before = after
        return blocks

    def _beat(self) -> float:
        """The sentinel's time: the best of three, so that one interruption does not count."""
        return float(self._sentinel.sample(1, 3).min())

    def _calibrate(self, kernel: int, sample_ns: int) -> None:
        if kernel in self._calls:
            return
        self._page.announce(kernel)
        timed = self._kernels[kernel][1]
        if self._checked_ns.get(kernel, 0.0) > _LONG_NS:
            touching_ns = _TOUCH_NS * workspace_bytes(self._native_slots.get(kernel, []))
            if touching_ns > _NOTICED * self._checked_ns[kernel]:
                timed.at(self._round + 1).call()  # brings pages to its workspace where it runs next
            self._calls[kernel], self._slow[kernel] = 1, True
            self._page.announce(NOTHING)
            return
        once = float(timed.sample(1, 1).min())
        if once < _SLOW_NS:
            once = float(timed.sample(1, 1).min())  # the first call also warmed caches up
        if once < sample_ns:
            once = float(timed.sample(max(1, int(sample_ns / 4 / max(once, 1.0))), 2).min())
        most = _MOST_COLD_CALLS if self._cold else sample_ns
        self._calls[kernel] = max(1, min(most, round(sample_ns / max(once, 1.0))))
        self._slow[kernel] = once > _SLOW_NS
        self._page.announce(NOTHING)

    def _block(self, kernel: int, round_: int, samples: int) -> dict[str, Any]:
        self._page.announce(kernel)
        calls, slow = self._calls[kernel], self._slow[kernel]
        placed = self._kernels[kernel][1]
        # A slow call is long enough by itself, and what the caches held before hardly matters. All
        # kernels of a round are timed at one place.
        places = [placed.at(self._round)] if slow else placed.places
        taken = take_samples(places, calls, 1 if slow else samples, self._watch, warm=not slow)
        self._page.announce(NOTHING)
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
