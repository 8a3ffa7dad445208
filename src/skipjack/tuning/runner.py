"""A candidate in the run session: what it is made of, and how fast it was so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skipjack.bank import Launch
from skipjack.core.trial import Candidate
from skipjack.execute.statistics import Block
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.gpu.plan import from_slots, scratch_sizes
from skipjack.native.slots import workspace_bytes


@dataclass(slots=True)
class Runner:
    """A candidate that was built and loaded, or a library's function."""

    candidate: Candidate
    version: int
    source_digest: str | None
    kernel: int
    artifact_digest: str = ""
    symbol: str = ""
    abi: str = ""
    slots: tuple[str | int, ...] = ()
    time_ns: float = float("inf")
    spread: float = 0.0
    error_ratio: float = 0.0
    checked_ns: float = 0.0
    """How long the call took that was checked."""
    cut_short: bool = False
    """It was left out of the final, being long and far behind: one call is all that is known."""
    compiler: str = ""
    """Name and version of what compiled it."""
    anywhere: bool = False
    """It was right on arrays that are not aligned, too."""
    blocks: list[Block] = field(default_factory=list)
    """All that was timed of it, for those that were timed beside others again and again."""
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def solver(self) -> str:
        """The solver's name."""
        return self.candidate.solver

    def launch(self, compat: str) -> Launch | None:
        """How its machine code, which loads where `compat` does, is called; None for a library."""
        if not self.artifact_digest:
            return None
        return Launch(
            self.artifact_digest,
            self.symbol,
            self.abi,
            self.slots,
            self.workspace_bytes,
            compat,
        )

    @property
    def workspace_bytes(self) -> int:
        """Memory that it borrows for a call."""
        if self.abi == GPU_ABI:
            return sum(scratch_sizes(from_slots(self.slots)).values())
        return workspace_bytes(self.slots)
