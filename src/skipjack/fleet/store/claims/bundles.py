"""Bundles in the store: built jobs are exported, and results are imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Connection, func, select

from skipjack.core import digest_of
from skipjack.errors import StorageError
from skipjack.fleet.bundle.format import BundledOutcome, BundledTask, JobSlice
from skipjack.fleet.model import (
    ArtifactLost,
    Claim,
    Claimed,
    Done,
    Failed,
    JobStage,
    JobState,
    Released,
    Task,
    claim_result_of,
)
from skipjack.fleet.store.catalog import devices, labels
from skipjack.fleet.store.claims import coordinator_leases, finished_claims
from skipjack.fleet.store.claims.task_inputs import task_inputs
from skipjack.fleet.store.jobs import jobs, transitions
from skipjack.fleet.store.jobs.transitions import JobRow, Transition
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among
from skipjack.fleet.store.sql.transactions import StoreDatabase
from skipjack.processes import ProcessIdentity
from skipjack.reading import numbered

_PAGE = 50
"""Jobs whose facts and machine code are in memory at the same time."""
_LEASE_S = 60.0
_MARK = "bundle"


@dataclass(frozen=True, slots=True)
class BundleSelection:
    """The built jobs of a label to export."""

    label: str
    device: str | None = None
    part: JobSlice = field(default_factory=JobSlice)


@dataclass(frozen=True, slots=True)
class BuiltPage:
    """A page of built jobs of a label, ordered by id."""

    tasks: tuple[BundledTask, ...] = ()
    lost: int = 0
    """Jobs that must be built again, because their machine code is damaged or missing."""
    failed: int = 0
    """Jobs that cannot become tasks; an evaluation here reports the reason."""
    last: int | None = None
    """The id after which the next page begins; None at the end."""


class Reception(StrEnum):
    """What was done with a result from a bundle."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportedResult:
    """What was done with one result, and the reason of a refusal."""

    reception: Reception
    reason: str = ""


class Bundles:
    """Export of built jobs for bundles, and import of their results."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    def origin(self, label: str) -> str:
        """A text that identifies this label of this store."""
        return self._database.read(origin, label)

    def built(self, wanted: BundleSelection, after: int) -> BuiltPage:
        """The next page of built jobs after an id, as tasks; they stay built."""
        return self._database.transaction(built, wanted, after, key=self._key())

    def accept(
        self, label: str, results: Sequence[BundledOutcome], machines: Mapping[str, int]
    ) -> list[ImportedResult]:
        """Store results of a bundle, each once; `machines` has machine ids by name."""
        return self._database.transaction(accept, label, results, machines, key=self._key())


def origin(connection: Connection, label: str) -> str:
    """A text that identifies this label of this store, even after the store was moved."""
    known = tables.labels.c
    row = connection.execute(
        select(known.id, known.name, known.created).where(
            known.id == labels.id_of(connection, label)
        )
    ).one()
    parts = [row.id, row.name, f"{row.created:.3f}"]
    return digest_of(parts)[:32]


def built(connection: Connection, wanted: BundleSelection, after: int, *, key: bytes) -> BuiltPage:
    """The next built jobs, as tasks. They stay built unless their machine code is lost."""
    job = tables.jobs.c
    real = devices.real_record()
    record = func.coalesce(job.device_record, real)
    columns = (tables.problems.c.key.label("key"), record.label("record"), real.label("real"))
    query = (
        transitions.select_jobs()
        .add_columns(*columns)
        .join(tables.problems, tables.problems.c.id == job.problem)
        .where(job.label == labels.id_of(connection, wanted.label), job.id > after)
        .where(job.state == str(JobState.BUILT), job.id % wanted.part.of == wanted.part.number - 1)
        .order_by(job.id)
        .limit(_PAGE)
    )
    if wanted.device is not None:
        jobs.check_device(connection, wanted.device)
        query = query.where(job.device == wanted.device)
    rows = connection.execute(query).all()
    if not rows:
        return BuiltPage()
    supplied = task_inputs(connection, JobStage.EVALUATE, rows, key)
    builds = _attempts(connection, [row.id for row in rows])
    tasks = [
        BundledTask(task, builds[task.job, task.epoch, task.round, str(JobStage.BUILD)])
        for task in supplied
        if isinstance(task, Task)
    ]
    faults = {row.id: fault for row, fault in zip(rows, supplied, strict=True)}
    lost = {id: fault for id, fault in faults.items() if isinstance(fault, ArtifactLost)}
    _build_again(connection, lost)
    failed = sum(isinstance(fault, Failed) for fault in supplied)
    return BuiltPage(tuple(tasks), len(lost), failed, rows[-1].id)


def _build_again(connection: Connection, lost: Mapping[int, ArtifactLost]) -> None:
    if lost:
        job = tables.jobs.c
        waiting = job.state == str(JobState.BUILT)
        rows = transitions.locked(connection, among(connection, job.id, lost), waiting)
        transitions.apply(connection, [Transition(row, lost[row.id]) for row in rows])


def accept(
    connection: Connection,
    label: str,
    results: Sequence[BundledOutcome],
    machines: Mapping[str, int],
    *,
    key: bytes,
) -> list[ImportedResult]:
    """Store results as if their jobs had been claimed and evaluated just now, each once.

    `machines` has the id of every host by name. A job that another coordinator is evaluating is
    taken from it: the first result counts.
    """
    by_job = {result.outcome.job: result for result in results}
    label_id = labels.id_of(connection, label)
    found = {device.name: device for result in results for device in result.host.devices}
    devices.bind_unbound(connection, found.values(), label_id)
    rows = _locked(connection, label_id, by_job)
    attempts = _attempts(connection, rows)
    marks = _marks(connection, rows)
    received = {
        id: _received(rows.get(id), result, attempts, marks) for id, result in by_job.items()
    }
    taken = [rows[id] for id, one in received.items() if one.reception is Reception.ACCEPTED]
    _take_over(connection, taken, by_job, machines, key)
    return [received[result.outcome.job] for result in results]


def _locked(connection: Connection, label: int, ids: Mapping[int, object]) -> dict[int, JobRow]:
    mine = tables.jobs.c.label == label
    rows = transitions.locked(connection, among(connection, tables.jobs.c.id, ids), mine)
    return {row.id: row for row in rows}


_Key = tuple[int, int, int, str]


def _attempts(connection: Connection, ids: Mapping[int, object] | Sequence[int]) -> dict[_Key, int]:
    """The attempt that did each stage of each round of these jobs."""
    done = tables.rounds.c
    columns = (done.job, done.epoch, done.round, done.stage, done.attempt)
    found = connection.execute(select(*columns).where(among(connection, done.job, ids)))
    return {(job, epoch, round, stage): attempt for job, epoch, round, stage, attempt in found}


def _marks(connection: Connection, ids: Mapping[int, object]) -> set[tuple[int, str]]:
    """Bundle results that these jobs have had; the history is the only trace of a failed one."""
    line = tables.history.c
    mine = among(connection, line.job, ids)
    claimed = select(line.job, line.reason).where(mine, line.event == "claimed", line.reason != "")
    return {(job, reason) for job, reason in connection.execute(claimed)}


def _mark(result: BundledOutcome) -> str:
    return f"{_MARK} {result.id}"


def _received(
    row: JobRow | None,
    result: BundledOutcome,
    attempts: Mapping[_Key, int],
    marks: set[tuple[int, str]],
) -> ImportedResult:
    if row is None:
        return ImportedResult(Reception.REFUSED, "the label has no such job")
    round = (row.id, result.epoch, result.round)
    if (row.id, _mark(result)) in marks or (*round, str(JobStage.EVALUATE)) in attempts:
        return ImportedResult(Reception.DUPLICATE)
    if (row.epoch, row.round) != round[1:]:
        return ImportedResult(Reception.REFUSED, "the job was started over since the export")
    if row.state not in (JobState.BUILT, JobState.EVALUATING):
        return ImportedResult(Reception.REFUSED, _REASONS[JobState(row.state)])
    if attempts.get((*round, str(JobStage.BUILD))) != result.build:
        return ImportedResult(Reception.REFUSED, "the round was built again since the export")
    return ImportedResult(Reception.ACCEPTED)


_REASONS = {
    JobState.NEW: "the job was reset, and its round is waiting to be built again",
    JobState.BUILDING: "the job was reset, and its round is being built again",
    JobState.ABORTED: "the job is aborted; resume it and import again",
    JobState.ERROR: "the job is in error; reset it to built and import again",
    JobState.EVALUATED: "the job is evaluated already",
    JobState.NOT_APPLICABLE: "the job is not applicable",
}


def _take_over(
    connection: Connection,
    rows: Sequence[JobRow],
    results: Mapping[int, BundledOutcome],
    machines: Mapping[str, int],
    key: bytes,
) -> None:
    if not rows:
        return
    owner = coordinator_leases.start_lease(connection, ProcessIdentity(_MARK, 0), _LEASE_S)
    busy = [row for row in rows if row.state == JobState.EVALUATING]
    first = Released("a bundle brought its result first")
    transitions.apply(
        connection, [Transition(row, first, row.eval_machine, row.gpu) for row in busy]
    )
    job = tables.jobs.c
    waiting = transitions.locked(connection, among(connection, job.id, [row.id for row in rows]))
    claims = [_claim(row, results[row.id], machines) for row in waiting]
    steps = [
        Transition(
            row,
            Claimed(_mark(results[row.id])),
            claim.machine,
            claim.slot,
            owner,
            {"attempt": claim.attempt, "eval_machine": claim.machine, "gpu": claim.slot},
        )
        for row, claim in zip(waiting, claims, strict=True)
    ]
    transitions.apply(connection, steps)
    claim_results = [
        claim_result_of(claim, Done(claim.slot, claim.job, results[claim.job].outcome))
        for claim in claims
    ]
    refused = finished_claims.finish(connection, owner, claim_results, key=key)
    if refused:
        raise StorageError(
            f"the results of {numbered(len(refused), 'job')} could not be stored; import again"
        )
    coordinator_leases.end_lease(connection, owner, _MARK)


def _claim(row: JobRow, result: BundledOutcome, machines: Mapping[str, int]) -> Claim:
    slot = result.gpu[: transitions.LONGEST_GPU]
    return Claim(row.id, row.attempt + 1, JobStage.EVALUATE, machines[result.host.name], slot)
