"""A candidate that was built and loaded, and the checks of its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.bank import LaunchData
from skipjack.core import Candidate, Device, TimingProtocol
from skipjack.execute import Block, Failure, Loadable
from skipjack.gpu import ABI as GPU_ABI
from skipjack.gpu import from_slots, scratch_sizes
from skipjack.ledger import CandidateKey, MeasurementRecord, MetricSamples
from skipjack.native import workspace_bytes
from skipjack.tuning.study.context import TuningContext


class TimingPlace(Protocol):
    """Where and how samples are taken."""

    id: str
    """Distinguishes the measurements of this context from those of others."""
    device: Device
    protocol: TimingProtocol


@dataclass(slots=True)
class LoadedCandidate:
    """A kernel that was built and loaded, a library's function, or anything else to time."""

    candidate: Candidate
    kernel: int
    """Its number in blocks of samples."""
    version: int = 1
    """The solver's version."""
    code: Loadable | None = None
    """The machine code for a run session; None for a library, and for calls in this process."""
    source_digest: str | None = None
    compiler: str = ""
    """Name and version of the compiler."""
    resources: Mapping[str, float] = field(default_factory=dict)
    time_ns: float = float("inf")
    spread: float = 0.0
    error_ratio: float = 0.0
    checked_ns: float = 0.0
    """How long the checked call took."""
    cut_short: bool = False
    """Whether it was left out of the final as slow and far behind: only one call was timed."""
    verified_unaligned: bool = False
    """Whether it was right on unaligned arrays, too."""
    blocks: list[Block] = field(default_factory=list)
    """Its blocks so far, if it is timed next to other candidates repeatedly."""

    @property
    def solver(self) -> str:
        """The solver's name."""
        return self.candidate.solver

    @property
    def is_library(self) -> bool:
        """Whether nothing was built and it has no settings."""
        return self.code is None and not self.candidate.config

    @property
    def artifact_digest(self) -> str:
        """The digest of its machine code; empty for a library."""
        return self.code.digest if self.code else ""

    def launch(self, compat: str) -> LaunchData | None:
        """How to call its machine code, which is for `compat`; None for a library."""
        if self.code is None:
            return None
        code = self.code
        return LaunchData(
            code.digest, code.symbol, code.abi, code.slots, self.workspace_bytes, compat
        )

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory that a call needs."""
        if self.code is None:
            return 0
        if self.code.abi == GPU_ABI:
            return sum(scratch_sizes(from_slots(self.code.slots)).values())
        return workspace_bytes(self.code.slots)

    def measurement(self, context: TimingPlace, block: Block, number: int) -> MeasurementRecord:
        """The record of a block; `number` distinguishes it from others of its context."""
        sentinel = block.sentinel_ns
        return MeasurementRecord(
            CandidateKey.of(self.candidate, self.version),
            self.source_digest,
            context.device.instance_key,
            context.device.class_key,
            context.protocol.key,
            context.id,
            number,
            {
                "time_ns": MetricSamples("ns", block.samples_ns),
                "calls": MetricSamples("1", (float(block.calls),)),
            },
            sum(sentinel) / len(sentinel) if sentinel else None,
            block.dropped + (len(block.samples_ns) if block.disturbed else 0),
        )


class KernelChecks:
    """Verifies kernels of one problem and records the result on each `LoadedCandidate`."""

    def __init__(self, context: TuningContext) -> None:
        self._context = context
        self._known: dict[tuple[str, tuple[str | int, ...]], Failure | tuple[float, float]] = {}

    def check(self, loaded: LoadedCandidate) -> Failure | None:
        """Check a kernel; None if it is right. `loaded` gets the error and the time of the call."""
        slots = loaded.code.slots if loaded.code else ()
        key = (loaded.source_digest or loaded.solver, slots)
        if key not in self._known:
            self._known[key] = self.again(loaded) or (loaded.error_ratio, loaded.checked_ns)
        known = self._known[key]
        if isinstance(known, Failure):
            return known
        loaded.error_ratio, loaded.checked_ns = known
        return None

    def again(self, loaded: LoadedCandidate) -> Failure | None:
        """Check a kernel even if the result is known."""
        session = self._context.session
        with self._context.tracer.span(f"verify {loaded.candidate.config}", "run"):
            failure, error = session.verify(loaded.kernel)
        if failure is None:
            loaded.error_ratio = error
            loaded.checked_ns = session.checked_ns(loaded.kernel)
        return failure

    def unaligned(self, loaded: LoadedCandidate) -> Failure | None:
        """Check a kernel on unaligned arrays; None if it is right."""
        with self._context.tracer.span(f"verify {loaded.candidate.config} unaligned", "run"):
            failure, _ = self._context.session.verify(loaded.kernel, unaligned=True)
        loaded.verified_unaligned = failure is None
        return failure
