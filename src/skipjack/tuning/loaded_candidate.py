"""A candidate that runs, and the checks that it goes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from skipjack.bank import LaunchData
from skipjack.core.device import Device
from skipjack.core.protocol import TimingProtocol
from skipjack.core.trial import Candidate
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.gpu.plan import from_slots, scratch_sizes
from skipjack.ledger import CandidateKey, MeasurementRecord, MetricSamples
from skipjack.native.slots import workspace_bytes
from skipjack.tuning.context import TuningContext


class TimingPlace(Protocol):
    """Where and how samples are taken."""

    id: str
    """Tells the measurements of this place from those of others."""
    device: Device
    protocol: TimingProtocol


@dataclass(slots=True)
class LoadedCandidate:
    """A kernel that was built and loaded, a library's function, or what else can be timed."""

    candidate: Candidate
    kernel: int
    """The number by which its blocks name it."""
    version: int = 1
    """The solver's."""
    code: Loadable | None = None
    """What was built for a run session; None for a library, and for calls in this process."""
    source_digest: str | None = None
    compiler: str = ""
    """Name and version of what compiled it."""
    resources: Mapping[str, float] = field(default_factory=dict)
    time_ns: float = float("inf")
    spread: float = 0.0
    error_ratio: float = 0.0
    checked_ns: float = 0.0
    """How long the call took that was checked."""
    cut_short: bool = False
    """It was left out of the final, being long and far behind: one call is all that is known."""
    anywhere: bool = False
    """It was right on arrays that are not aligned, too."""
    blocks: list[Block] = field(default_factory=list)
    """All that was timed of it, for those that were timed beside others again and again."""

    @property
    def solver(self) -> str:
        """The solver's name."""
        return self.candidate.solver

    @property
    def is_library(self) -> bool:
        """Whether nothing was built and there is nothing to set."""
        return self.code is None and not self.candidate.config

    @property
    def artifact_digest(self) -> str:
        """Of its machine code; empty for a library."""
        return self.code.digest if self.code else ""

    def launch(self, compat: str) -> LaunchData | None:
        """How its machine code, which loads where `compat` does, is called; None for a library."""
        if self.code is None:
            return None
        code = self.code
        return LaunchData(
            code.digest, code.symbol, code.abi, code.slots, self.workspace_bytes, compat
        )

    @property
    def workspace_bytes(self) -> int:
        """Memory that it borrows for a call."""
        if self.code is None:
            return 0
        if self.code.abi == GPU_ABI:
            return sum(scratch_sizes(from_slots(self.code.slots)).values())
        return workspace_bytes(self.code.slots)

    def measurement(self, context: TimingPlace, block: Block, number: int) -> MeasurementRecord:
        """What the ledger keeps of a block; `number` tells it from others of its context."""
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
        """What is wrong with it; `loaded` gets the error and the time of the checked call."""
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
        """The same, whatever is known already."""
        session = self._context.session
        with self._context.tracer.span(f"verify {loaded.candidate.config}", "run"):
            failure, error = session.verify(loaded.kernel)
        if failure is None:
            loaded.error_ratio = error
            loaded.checked_ns = session.checked_ns(loaded.kernel)
        return failure

    def elsewhere(self, loaded: LoadedCandidate) -> Failure | None:
        """What is wrong with it on arrays that are not aligned."""
        with self._context.tracer.span(f"verify {loaded.candidate.config} elsewhere", "run"):
            failure, _ = self._context.session.verify(loaded.kernel, elsewhere=True)
        loaded.anywhere = failure is None
        return failure
