"""What a coordinator needs of a store; `Store.queue` provides it for SQL databases."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from skipjack.errors import StorageError, StoreUnavailableError
from skipjack.fleet.model import (
    Claim,
    ClaimResult,
    Failed,
    Host,
    JobKind,
    JobProgress,
    JobState,
    LabelBudget,
    Machine,
    QueueReply,
    RunningLog,
    StageRequest,
)
from skipjack.ledger import Facts
from skipjack.processes import ProcessIdentity

log = logging.getLogger(__name__)

REFUSALS = (StorageError, ValueError, OverflowError)
"""What a store and its driver raise for a result that they cannot store."""


class JobQueue(Protocol):
    """The queue of jobs: claims, leases and results."""

    def start_lease(self, process: ProcessIdentity, lease_s: float) -> str:
        """Start a lease; returns the id of the new owner."""
        ...

    def renew(self, owner: str) -> Mapping[int, int] | None:
        """Renew the lease; the owner's jobs with their attempts, or None if it was lost."""
        ...

    def built_for(self, label: str) -> Mapping[str, bool]:
        """Devices that jobs of a label are built for, and whether a real one was ever seen."""
        ...

    def release(self, owner: str, jobs: Collection[int], reason: str) -> int:
        """Give back jobs that the owner does not work on."""
        ...

    def end_lease(self, owner: str, reason: str) -> int:
        """Give back all jobs and end the lease."""
        ...

    def others(self, owner: str) -> int:
        """Number of other owners that are alive."""
        ...

    def register(self, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
        """Register a machine, and whether jobs are evaluated on its devices."""
        ...

    def seen(self, names: Sequence[str]) -> list[Machine]:
        """Note that registered machines are unchanged; returns their current records."""
        ...

    def finish_and_claim(
        self,
        owner: str,
        claim_results: Sequence[ClaimResult],
        stage_requests: Sequence[StageRequest],
        *,
        label: str,
        kind: JobKind,
        only: Sequence[str] = (),
    ) -> QueueReply:
        """Store results of claims and claim further jobs, in one transaction."""
        ...

    def store_logs(self, owner: str, logs: Sequence[RunningLog]) -> int:
        """Store the logs so far of jobs that the owner holds."""
        ...

    def failed_builds(self, after: float | None) -> tuple[Facts, float]:
        """Builds that failed for good since a date, and the date to ask for the next time."""
        ...

    def usual_rate(self, label: str) -> float | None:
        """How fast searches of other labels for the same operations gained, if that is known."""
        ...

    def device_seconds_left(self, label: str) -> float:
        """What is left of the label's device-seconds."""
        ...

    def slice_progress(
        self, label: str, devices: Collection[str] | None
    ) -> tuple[list[JobProgress], LabelBudget, dict[int, str]]:
        """What decides about the next rounds of a label, and the problem of each job."""
        ...

    def begin_slices(self, slices: Sequence[int], verdicts: Sequence[int]) -> None:
        """Prepare jobs for a further round, or for their verdict."""
        ...

    def ending(self, label: str) -> list[int]:
        """Jobs that are built for their verdict."""
        ...

    def finish(self, owner: str, claim_results: Sequence[ClaimResult]) -> list[Claim]:
        """Store results of claims; returns the claims that were lost in the meantime."""
        ...

    def sweep(self) -> int:
        """Free the jobs of owners whose lease has expired or whose process is dead."""
        ...

    def live(
        self, label: str, kind: JobKind, devices: Sequence[str] = ()
    ) -> Mapping[JobState, int]:
        """Number of jobs of a kind in each state, for some devices or for all."""
        ...


def finish_one_by_one(
    queue: JobQueue, owner: str, claim_results: Sequence[ClaimResult]
) -> list[Claim]:
    """Store results one by one: a result that cannot be stored fails, and blocks no other.

    Returns the claims that were lost.
    """
    refused: list[Claim] = []
    for one in claim_results:
        try:
            refused += queue.finish(owner, [one])
        except StoreUnavailableError:
            raise
        except REFUSALS as error:
            log.error("the result of job %d cannot be stored: %s", one.claim.job, error)
            failed = Failed(f"its result cannot be stored: {error}")
            refused += queue.finish(owner, [ClaimResult(one.claim, failed)])
    return refused
