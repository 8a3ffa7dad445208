"""The queue of jobs for coordinators: leases, claims and results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from skipjack.fleet.model import ClaimResult, Inapplicable, JobStage, QueueReply, StageRequest
from skipjack.fleet.store.catalog import devices, machines
from skipjack.fleet.store.claims import claims, coordinator_leases, finished_claims, prior_results
from skipjack.fleet.store.jobs import device_time, failed_builds, job_counts, job_history
from skipjack.fleet.store.sql.transactions import StoreDatabase

if TYPE_CHECKING:
    from skipjack.fleet.model import (
        Claim,
        Host,
        JobKind,
        JobProgress,
        JobState,
        LabelBudget,
        Machine,
        RunningLog,
        Task,
        WorkRequest,
    )
    from skipjack.ledger import Facts
    from skipjack.processes import ProcessIdentity


class Queue:
    """The `JobQueue` of an SQL database: it gives jobs to owners and stores their results."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    # owners and their leases

    def start_lease(self, process: ProcessIdentity, lease_s: float) -> str:
        """Start a lease, which must be renewed; returns the owner's id."""
        self._key()  # refuses a machine with another key
        return self._database.transaction(coordinator_leases.start_lease, process, lease_s)

    def renew(self, owner: str) -> dict[int, int] | None:
        """Renew the lease; jobs that are still ours with their attempts, None if it was lost."""
        return self._database.transaction(coordinator_leases.renew, owner)

    def end_lease(self, owner: str, reason: str) -> int:
        """Give all jobs back and end the lease; returns the number of jobs."""
        return self._database.transaction(coordinator_leases.end_lease, owner, reason)

    def release(self, owner: str, jobs: Iterable[int], reason: str) -> int:
        """Give back jobs that are not worked on; returns their number."""
        return self._database.transaction(coordinator_leases.release, owner, list(jobs), reason)

    def others(self, owner: str) -> int:
        """Number of other coordinators that are alive."""
        return self._database.read(coordinator_leases.others, owner)

    def sweep(self) -> int:
        """Free the jobs of owners with an expired lease, and of dead processes of this machine."""
        return self._database.transaction(coordinator_leases.sweep)

    # machines that work

    def register(self, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
        """Register a machine with its devices, and whether jobs are evaluated on them."""
        return self._database.transaction(machines.register, host, engine, evaluates=evaluates)

    def seen(self, names: Sequence[str]) -> list[Machine]:
        """Note that registered machines are unchanged; returns their current records."""
        return self._database.transaction(machines.seen, names)

    # jobs

    def live(
        self, label: str | None = None, kind: JobKind | None = None, devices: Sequence[str] = ()
    ) -> dict[JobState, int]:
        """The number of jobs in each state, of one kind or all, for some devices or all."""
        return self._database.read(job_counts.live, label, kind, devices)

    def built_for(self, label: str) -> dict[str, bool]:
        """Devices that jobs of a label are built for, and whether a real one was ever seen."""
        return self._database.read(devices.devices_of, label, built=True)

    def failed_builds(self, after: float | None) -> tuple[Facts, float]:
        """Builds that failed for good, in any job, since a date; and the date of the next call."""
        return self._database.read(failed_builds.since, after)

    # device time

    def usual_rate(self, label: str) -> float | None:
        """How fast searches of other labels for the same operations gained, if that is known."""
        return self._database.read(device_time.usual_rate, label)

    def device_seconds_left(self, label: str) -> float:
        """What is left of the label's device-seconds."""
        return self._database.read(device_time.left, label)

    def slice_progress(
        self, label: str, devices: Collection[str] | None
    ) -> tuple[list[JobProgress], LabelBudget, dict[int, str]]:
        """What decides about the next rounds of a label, and the problem of each job."""
        return self._database.read(device_time.progress, label, devices)

    def begin_slices(self, slices: Sequence[int], verdicts: Sequence[int]) -> None:
        """Prepare jobs for a further round, or for their verdict."""
        self._database.transaction(device_time.begin, slices, verdicts)

    def ending(self, label: str) -> list[int]:
        """Jobs that are built for their verdict."""
        return self._database.read(device_time.ending, label)

    def claim(
        self,
        owner: str,
        stage: JobStage,
        requests: Sequence[WorkRequest],
        *,
        label: str | None = None,
        kind: JobKind | None = None,
        only: Sequence[str] = (),
    ) -> list[tuple[Claim, Task]]:
        """Claim waiting jobs for workers: those with higher priority and fewer failures first.

        `label`, `kind` and `only` (names of devices) restrict the jobs.
        """
        stage_request = StageRequest(stage, tuple(requests))
        return list(
            self.finish_and_claim(
                owner, (), [stage_request], label=label, kind=kind, only=only
            ).claimed
        )

    def finish(self, owner: str, claim_results: Sequence[ClaimResult]) -> list[Claim]:
        """Store results of claims; returns lost claims, whose results are not stored."""
        return self._database.transaction(
            finished_claims.finish, owner, claim_results, key=self._key()
        )

    def finish_and_claim(
        self,
        owner: str,
        claim_results: Sequence[ClaimResult],
        stage_requests: Sequence[StageRequest],
        *,
        label: str | None = None,
        kind: JobKind | None = None,
        only: Sequence[str] = (),
    ) -> QueueReply:
        """Store results, then claim jobs for each requested stage, in one transaction.

        Prior results for these jobs are read afterwards.
        """
        key = self._key()  # before the transaction: the check of the key has its own
        # Evaluators first: the first one decides between devices of one name.
        ordered = sorted(
            stage_requests, key=lambda stage_request: stage_request.stage is JobStage.BUILD
        )

        def both(connection: Connection, given: Sequence[ClaimResult]) -> QueueReply:
            refused = finished_claims.finish(connection, owner, given, key=key)
            claimed: list[tuple[Claim, Task]] = []
            for stage_request in ordered:
                claimed += claims.claim(
                    *(connection, owner, stage_request.stage, stage_request.requests, label),
                    key=key,
                    kind=kind,
                    only=only,
                    chosen=stage_request.jobs,
                )
            return QueueReply(tuple(refused), tuple(claimed))

        refused: tuple[Claim, ...] = ()
        for _ in range(claims.TIMES_AT_ONCE):
            done = self._database.transaction_once(
                partial(both, given=claim_results),
                committed=lambda connection, done: claims.holds(connection, owner, done.claimed),
            )
            refused += done.refused
            informed = self._informed(owner, done.claimed)
            if informed or not done.claimed:
                return QueueReply(refused, tuple(informed))
            claim_results = ()  # all claimed jobs ended: there may be more
        return QueueReply(refused, ())

    def _informed(
        self, owner: str, claimed: Sequence[tuple[Claim, Task]]
    ) -> Sequence[tuple[Claim, Task]]:
        """Claims with prior results; jobs that cannot be done without them end."""
        if not any(prior_results.needs_prior_results(task) for _, task in claimed):
            return claimed
        told = self._database.read(prior_results.with_prior_results, claimed)
        ended = [ClaimResult(claim, one) for claim, one in told if isinstance(one, Inapplicable)]
        if ended:
            self.finish(owner, ended)
        return [(claim, one) for claim, one in told if not isinstance(one, Inapplicable)]

    def store_logs(self, owner: str, logs: Sequence[RunningLog]) -> int:
        """Store the logs so far of jobs that the owner holds; returns their number."""
        return self._database.transaction(job_history.store_logs, owner, logs)
