"""Whether our kernel is faster than PyTorch's, called through the hook, and the stored results of
such races.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from math import isfinite
from pathlib import Path
from statistics import median
from threading import get_ident
from typing import Any

from skipjack.errors import MalformedError
from skipjack.execute import MIN_EFFECT, Block, Failure, confirm, summarize
from skipjack.integrations.torch.matching import TorchCall
from skipjack.integrations.torch.outcomes import TorchDecision
from skipjack.integrations.torch.selection.sample_calls import SampleCall
from skipjack.integrations.torch.stubs import TableEntry
from skipjack.reading import read_json
from skipjack.storage import ensure_directory

# Whether our kernel is faster than PyTorch's, called as in the program, through the hook.
#
# The test is the usual paired one (`skipjack.execute.confirmation`). The operation itself is timed
# on tensors like those of the call, with the table's entry set to PyTorch's kernel and to ours in
# turn.

TORCH_KERNEL = 0
"""Its number in a session; our ways to compute a call are 1, 2 and so on."""
_SAMPLE_NS = 100_000
_GPU_SAMPLE_NS = 1_000_000
"""Longer than for a CPU, since waiting for a GPU takes microseconds."""
_SAMPLES = 3
_LONG_NS = 20_000
"""Caches are flushed before longer calls, which find little in the caches of a program."""
_PRUNE_RATIO = 1.3
"""A kernel that takes this many times as long as PyTorch in three calls is not raced."""
_GPU_PRUNE_RATIO = 1.0
"""The same for the time on a GPU itself."""
_QUEUED = 20


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The result of a race."""

    way: int | None
    """The number of the fastest way that is faster than PyTorch; None if there is none."""
    gain: float
    """The speedup of the best way."""
    before_ns: float
    after_ns: float | None
    reason: str
    is_sure: bool = True
    """Whether another race would have the same result."""


class HookSession:
    """Times a call with each kernel; a session for `confirm`."""

    def __init__(self, entry: TableEntry, plans: Sequence[int], sample: SampleCall) -> None:
        self._entry, self._plans, self._sample = entry, plans, sample
        self._calls: dict[int, int] = {}
        self._typical: dict[int, float] = {}

    def choose(self, kernel: int) -> None:
        """Use this kernel from now on."""
        if kernel == TORCH_KERNEL:
            self._entry.torch()
        else:
            self._entry.ours(self._plans[kernel - 1])

    def typical_ns(self, kernel: int) -> float:
        """The approximate time of a call."""
        if kernel not in self._typical:
            self.choose(kernel)
            self._sample()
            self._typical[kernel] = median(self._timed(1) for _ in range(_SAMPLES))
        return self._typical[kernel]

    def our_results(self) -> list[Any] | None:
        """The results of the chosen kernel; None if the sample is a call of another kind."""
        before = self._entry.our_calls
        results = self._sample.results()
        return results if self._entry.our_calls > before else None

    def gpu_ns(self, kernel: int) -> float:
        """The time of a call on the GPU, without the time to queue it."""
        self.choose(kernel)
        self._sample()
        return min(self._sample.queued_ns(_QUEUED) for _ in range(_SAMPLES))

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks, in alternating order."""
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


def time_current_kernel(call: TorchCall) -> float:
    """The approximate nanoseconds of a call with the current kernel."""
    sample = SampleCall(call)
    sample()
    return min(_once(sample) for _ in range(_SAMPLES))


def _once(sample: SampleCall) -> float:
    sample.wait()
    began = time.perf_counter_ns()
    sample()
    sample.wait()
    return float(time.perf_counter_ns() - began)


def race_kernels(
    entry: TableEntry,
    plans: Sequence[int],
    call: TorchCall,
    stop: Callable[[], bool],
    detour_ns: float = 0.0,
) -> RaceResult:
    """Race our ways to compute a call against PyTorch. Leaves PyTorch's kernel in the entry.

    `detour_ns` is the overhead of the hook for a call of PyTorch's kernel: our kernel must be
    faster than PyTorch without it.
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
    """The decision with the time of PyTorch's kernel, if it runs and was not timed yet."""
    if decision.is_ours or decision.problem is None or decision.before_ns is not None:
        return decision
    counts = entry.our_calls, entry.torch_calls
    try:
        time_ns = HookSession(entry, (), SampleCall(call)).typical_ns(TORCH_KERNEL)
        return replace(decision, before_ns=time_ns)
    finally:
        entry.forget_counts(*counts)


def _without_detour(verdict: RaceResult, detour_ns: float) -> RaceResult:
    before_ns = verdict.before_ns - detour_ns
    if not detour_ns or verdict.way is None or verdict.after_ns is None:
        return replace(verdict, before_ns=max(before_ns, 0.0))
    gain = before_ns / verdict.after_ns
    reason = f"{gain:.2f} times the speed of PyTorch without the hook"
    if gain < 1.0 + MIN_EFFECT:
        return RaceResult(None, gain, before_ns, None, reason)
    return replace(verdict, gain=gain, before_ns=before_ns, reason=f"{gain:.2f} times faster")


def _raced(
    session: HookSession,
    sample: SampleCall,
    way: int,
    theirs: Sequence[Any],
    stop: Callable[[], bool],
) -> RaceResult:
    """One way against PyTorch."""
    before_ns = session.typical_ns(TORCH_KERNEL)
    session.choose(way)
    ours = session.our_results()
    if ours is None:
        reason = "no similar call can be made to time it"
        return RaceResult(None, 0.0, before_ns, None, reason)
    if wrong := sample.differs(ours, theirs):
        reason = f"its results differ from PyTorch's: {wrong}"
        return RaceResult(None, 0.0, before_ns, None, reason)
    slower = session.typical_ns(way) / before_ns
    if sample.gpu is not None:
        # A quicker launch could win although the kernel is slower on the GPU.
        slower = max(slower, session.gpu_ns(way) / session.gpu_ns(TORCH_KERNEL))
    if slower > (_PRUNE_RATIO if sample.gpu is None else _GPU_PRUNE_RATIO):
        # On a busy machine three calls are not conclusive, and repeating them is cheap.
        reason = f"PyTorch is {slower:.2f} times faster"
        return RaceResult(None, 1.0 / slower, before_ns, None, reason, is_sure=False)
    confirmation = confirm(session, way, [TORCH_KERNEL], stop=stop)
    gain = confirmation.gains[TORCH_KERNEL].ratio
    if not isfinite(gain):
        reason = "the machine was too busy to decide whether it is faster than PyTorch"
        return RaceResult(None, 1.0, before_ns, None, reason, is_sure=False)
    if not confirmation.confirmed(TORCH_KERNEL):
        reason = f"{gain:.2f} times the speed of PyTorch, which is not a significant gain"
        is_sure = confirmation.decided(TORCH_KERNEL)
        return RaceResult(None, gain, before_ns, None, reason, is_sure)
    before_ns = summarize(confirmation.blocks[TORCH_KERNEL]).time_ns
    return RaceResult(way, gain, before_ns, before_ns / gain, f"{gain:.2f} times faster")


# Stored results of races against PyTorch, so that other processes need not repeat them.
#
# A result is for a call, a version of PyTorch, a class of devices and particular machine code. The
# first one written stays, so ranks of a program that race at the same time agree.

FOLDER = "torch"
FORMAT = 2
_MOST_READ = 4096


def race_key(parts: Sequence[object]) -> str:
    """The key of a race."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RaceSubject:
    """The operation, backend and version of PyTorch of a race."""

    op: str
    """PyTorch's name, as ``aten::mm``."""
    backend: str
    """``cpu`` or ``cuda``."""
    torch: str
    """The version of PyTorch."""


@dataclass(frozen=True, slots=True)
class StoredRace:
    """The contents of a file."""

    subject: RaceSubject
    verdict: RaceResult


class RaceResults:
    """Stored results: small files in the user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def find(self, key: str) -> RaceResult | None:
        """The result of a race; None if there is none, or its file cannot be read."""
        try:
            return _stored(self._folder / f"{key}.json").verdict
        except (OSError, MalformedError):
            return None

    def all(self) -> Iterator[StoredRace]:
        """All results that can be read."""
        for path in islice(self._folder.glob("*.json"), _MOST_READ):
            with suppress(OSError, MalformedError):
                yield _stored(path)

    def put(
        self,
        key: str,
        verdict: RaceResult,
        subject: RaceSubject,
        instead: RaceResult | None = None,
    ) -> RaceResult:
        """Store a result, unless there is one other than `instead`; returns the valid one."""
        text = json.dumps({"format": FORMAT, **asdict(StoredRace(subject, verdict))})
        path = self._folder / f"{key}.json"
        draft = self._folder / f"{key}.{os.getpid()}.{get_ident()}.draft"
        try:
            ensure_directory(self._folder)
            try:
                draft.write_text(text)
                if not _linked(draft, path) and self.find(key) in (None, instead):
                    draft.replace(path)  # the old one cannot be read, or was not sure
            finally:
                draft.unlink(missing_ok=True)
        except OSError:
            return verdict  # the next process repeats the race
        return self.find(key) or verdict


def _linked(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    return True


def _stored(path: Path) -> StoredRace:
    found = read_json(path.read_bytes())
    stored = found.without("format", FORMAT).of(StoredRace)
    if stored.verdict.way is not None and stored.verdict.way < 1:
        raise MalformedError(f"{path.name}: way {stored.verdict.way} does not exist")
    return stored
