"""Is our kernel really faster than PyTorch's, called as the program calls it, through the hook?

The same paired test as everywhere (`skipjack.execute.confirm`). The operation itself is timed, with
the table's entry set to PyTorch's kernel and to ours in turn, on tensors like those of the call.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median
from typing import Any

from skipjack.execute.confirm import MIN_EFFECT, confirm
from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block, summarize
from skipjack.integrations.torch.calls import TorchCall
from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.racing.sample import SampleCall
from skipjack.integrations.torch.table import TableEntry

TORCH_KERNEL = 0
"""Its number in a session; ways to compute a call with ours are 1, 2 and so on."""
_SAMPLE_NS = 100_000
_GPU_SAMPLE_NS = 1_000_000
"""Waiting for a GPU takes microseconds, whatever it computed."""
_SAMPLES = 3
_LONG_NS = 20_000
"""In a program, calls that take longer find little in the caches."""
_HOPELESS = 1.3
"""What takes so many times as long as PyTorch in three calls is not raced."""
_AS_LONG = 1.0
"""On a GPU itself a kernel may not take longer."""
_QUEUED = 20


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """What came of it."""

    way: int | None
    """The number of the fastest way that beats PyTorch; None if there is none."""
    gain: float
    """How many times faster the best is."""
    before_ns: float
    after_ns: float | None
    reason: str
    is_sure: bool = True
    """Whether another race would give the same."""


class HookSession:
    """Times an entry of the table both ways; as a run session does for `confirm`."""

    def __init__(self, entry: TableEntry, plans: Sequence[int], sample: SampleCall) -> None:
        self._entry, self._plans, self._sample = entry, plans, sample
        self._calls: dict[int, int] = {}
        self._typical: dict[int, float] = {}

    def choose(self, kernel: int) -> None:
        """Which kernel runs from now on."""
        if kernel == TORCH_KERNEL:
            self._entry.torch()
        else:
            self._entry.ours(self._plans[kernel - 1])

    def typical_ns(self, kernel: int) -> float:
        """About how long a call takes."""
        if kernel not in self._typical:
            self.choose(kernel)
            self._sample()
            self._typical[kernel] = median(self._timed(1) for _ in range(_SAMPLES))
        return self._typical[kernel]

    def our_results(self) -> list[Any] | None:
        """What the kernel gives that is chosen; None if the sample is a call of another kind."""
        before = self._entry.our_calls
        results = self._sample.results()
        return results if self._entry.our_calls > before else None

    def gpu_ns(self, kernel: int) -> float:
        """What a call takes the GPU, however long the host needs to queue it."""
        self.choose(kernel)
        self._sample()
        return min(self._sample.queued_ns(_QUEUED) for _ in range(_SAMPLES))

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks; which one is first changes from round to round."""
        found = []
        for number in range(blocks):
            for kernel in kernels if number % 2 == 0 else reversed(kernels):
                found.append(self._block(kernel, number))
        return found, []

    def _block(self, kernel: int, number: int) -> Block:
        typical = self.typical_ns(kernel)
        sample_ns = _SAMPLE_NS if self._sample.gpu is None else _GPU_SAMPLE_NS
        calls = max(1, int(sample_ns / max(typical, 1.0)))
        samples = _SAMPLES if typical < 100 * _SAMPLE_NS else 1
        self.choose(kernel)
        quiet, disturbed = list[float](), list[float]()
        for _ in range(samples):
            if typical > _LONG_NS and self._sample.gpu is None:
                self._sample.flush()
            before = _switches()
            taken = self._timed(calls)
            (quiet if _switches() == before else disturbed).append(taken)
        return Block(
            *(kernel, number, calls, tuple(quiet or disturbed), ()),
            disturbed=not quiet and typical < 100 * _SAMPLE_NS,
            dropped=len(disturbed) if quiet else 0,
        )

    def _timed(self, calls: int) -> float:
        sample = self._sample
        sample.wait()
        began = time.perf_counter_ns()
        for _ in range(calls):
            sample()
        sample.wait()
        return (time.perf_counter_ns() - began) / calls


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def time_plainly(call: TorchCall) -> float:
    """Nanoseconds of a call with the kernel that runs now; roughly."""
    sample = SampleCall(call)
    sample()
    return min(_once(sample) for _ in range(_SAMPLES))


def _once(sample: SampleCall) -> float:
    sample.wait()
    began = time.perf_counter_ns()
    sample()
    sample.wait()
    return float(time.perf_counter_ns() - began)


def judge(
    entry: TableEntry,
    plans: Sequence[int],
    call: TorchCall,
    stop: Callable[[], bool],
    detour_ns: float = 0.0,
) -> HookVerdict:
    """Which way beats PyTorch, if any does. Leaves PyTorch's kernel in the entry.

    `detour_ns` is what a call of PyTorch's kernel takes longer for the hook: without the hook it
    would not, and a kernel has to beat that.
    """
    sample = SampleCall(call)
    session = HookSession(entry, plans, sample)
    calls = entry.our_calls, entry.torch_calls
    try:
        session.choose(TORCH_KERNEL)
        theirs = sample.results()
        verdicts = [
            _without_detour(_raced(session, sample, way, theirs, stop), detour_ns)
            for way in range(1, len(plans) + 1)
        ]
        best = max(verdicts, key=lambda one: (one.way is not None, one.gain))
        if best.way is None and not all(one.is_sure for one in verdicts):
            return replace(best, is_sure=False)
        return best
    finally:
        entry.torch()
        entry.forget_counts(*calls)


def with_torch_time(decision: TorchDecision, call: TorchCall, entry: TableEntry) -> TorchDecision:
    """The decision with what a call takes PyTorch's kernel, where that runs and nobody timed it."""
    if decision.is_ours or decision.problem is None or decision.before_ns is not None:
        return decision
    counts = entry.our_calls, entry.torch_calls
    try:
        time_ns = HookSession(entry, (), SampleCall(call)).typical_ns(TORCH_KERNEL)
        return replace(decision, before_ns=time_ns)
    finally:
        entry.forget_counts(*counts)


def _without_detour(verdict: HookVerdict, detour_ns: float) -> HookVerdict:
    before_ns = verdict.before_ns - detour_ns
    if not detour_ns or verdict.way is None or verdict.after_ns is None:
        return replace(verdict, before_ns=max(before_ns, 0.0))
    gain = before_ns / verdict.after_ns
    reason = f"{gain:.2f} times the speed of PyTorch without the hook"
    if gain < 1.0 + MIN_EFFECT:
        return HookVerdict(None, gain, before_ns, None, reason)
    return replace(verdict, gain=gain, before_ns=before_ns, reason=f"{gain:.2f} times faster")


def _raced(
    session: HookSession,
    sample: SampleCall,
    way: int,
    theirs: Sequence[Any],
    stop: Callable[[], bool],
) -> HookVerdict:
    """One way against PyTorch."""
    before_ns = session.typical_ns(TORCH_KERNEL)
    session.choose(way)
    ours = session.our_results()
    if ours is None:
        reason = "no call like it can be made up to time it"
        return HookVerdict(None, 0.0, before_ns, None, reason)
    if wrong := sample.differs(ours, theirs):
        reason = f"it does not compute what PyTorch does: {wrong}"
        return HookVerdict(None, 0.0, before_ns, None, reason)
    slower = session.typical_ns(way) / before_ns
    if sample.gpu is not None:
        # A call that is quicker to launch wins a race that the GPU would lose.
        slower = max(slower, session.gpu_ns(way) / session.gpu_ns(TORCH_KERNEL))
    if slower > (_HOPELESS if sample.gpu is None else _AS_LONG):
        # Three calls tell little on a busy machine, and three more cost little.
        reason = f"PyTorch is {slower:.2f} times faster"
        return HookVerdict(None, 1.0 / slower, before_ns, None, reason, is_sure=False)
    confirmation = confirm(session, way, [TORCH_KERNEL], stop=stop)
    gain = confirmation.gains[TORCH_KERNEL].ratio
    if not isfinite(gain):
        reason = "the machine was too busy to tell whether it is faster than PyTorch"
        return HookVerdict(None, 1.0, before_ns, None, reason, is_sure=False)
    if not confirmation.confirmed(TORCH_KERNEL):
        reason = f"{gain:.2f} times the speed of PyTorch, which is no sure gain"
        is_sure = confirmation.decided(TORCH_KERNEL)
        return HookVerdict(None, gain, before_ns, None, reason, is_sure)
    before_ns = summarize(confirmation.blocks[TORCH_KERNEL]).time_ns
    return HookVerdict(way, gain, before_ns, before_ns / gain, f"{gain:.2f} times faster")
