"""Bundles, as the store sees them: what is built goes out, and what was found comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import Connection, func, select

from skipjack.core.digest import digest_of
from skipjack.errors import StorageError
from skipjack.fleet.bundle.contents import BundledOutcome, BundledTask
from skipjack.fleet.bundle.manifest import Slice
from skipjack.fleet.engine import Done
from skipjack.fleet.records import Claim
from skipjack.fleet.settlements import settlement_of
from skipjack.fleet.states import ArtifactLost, Claimed, Failed, Released, Stage, State
from skipjack.fleet.store.claims import leases, settling
from skipjack.fleet.store.claims.supplies import supply
from skipjack.fleet.store.jobs import jobs, labels, transitions
from skipjack.fleet.store.jobs.transitions import JobRow, Step
from skipjack.fleet.store.machines import devices
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.database import StoreDatabase
from skipjack.fleet.store.sql.statements import among
from skipjack.fleet.task import Task
from skipjack.processes import ProcessIdentity
from skipjack.reading import numbered

_PAGE = 50
"""Jobs whose facts and machine code are in memory at once."""
_LEASE_S = 60.0
_MARK = "bundle"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of a label's built jobs are to be bundled."""

    label: str
    device: str | None = None
    part: Slice = field(default_factory=Slice)


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs of a label that are built, by id."""

    tasks: tuple[BundledTask, ...] = ()
    lost: int = 0
    """Jobs that are new again, because their machine code is damaged or gone."""
    failed: int = 0
    """Jobs that cannot be handed out; an evaluation here says why."""
    last: int | None = None
    """The id to go on after; None at the end."""


class Reception(StrEnum):
    """What became of a result that a bundle brought."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Received:
    """What became of one result, and why if it was refused."""

    reception: Reception
    reason: str = ""


class Bundles:
    """Built jobs for bundles, and the results that bundles bring."""

    def __init__(self, database: StoreDatabase, key: Callable[[], bytes]) -> None:
        self._database, self._key = database, key

    def origin(self, label: str) -> str:
        """What tells this label of this store from all others."""
        return self._database.read(origin, label)

    def built(self, wanted: Wanted, after: int) -> Page:
        """Built jobs as tasks for a bundle, those after an id; they stay built."""
        return self._database.transaction(built, wanted, after, key=self._key())

    def accept(
        self, label: str, results: Sequence[BundledOutcome], machines: Mapping[str, int]
    ) -> list[Received]:
        """Take in what a bundle brings, each result once; machines' ids are by their names."""
        return self._database.transaction(accept, label, results, machines, key=self._key())


def origin(connection: Connection, label: str) -> str:
    """A text that tells this label of this store from all others, wherever the store moves."""
    known = tables.labels.c
    row = connection.execute(
        select(known.id, known.name, known.created).where(
            known.id == labels.id_of(connection, label)
        )
    ).one()
    parts = [row.id, row.name, f"{row.created:.3f}"]
    return digest_of(parts)[:32]


def built(connection: Connection, wanted: Wanted, after: int, *, key: bytes) -> Page:
    """The next jobs that are built, as tasks. They stay as they are, but for lost machine code."""
    job = tables.jobs.c
    real = devices.real_record()
    record = func.coalesce(job.device_record, real)
    columns = (tables.problems.c.key.label("key"), record.label("record"), real.label("real"))
    query = (
        transitions.reading()
        .add_columns(*columns)
        .join(tables.problems, tables.problems.c.id == job.problem)
        .where(job.label == labels.id_of(connection, wanted.label), job.id > after)
        .where(job.state == str(State.BUILT), job.id % wanted.part.of == wanted.part.number - 1)
        .order_by(job.id)
        .limit(_PAGE)
    )
    if wanted.device is not None:
        jobs.check_device(connection, wanted.device)
        query = query.where(job.device == wanted.device)
    rows = connection.execute(query).all()
    if not rows:
        return Page()
    supplied = supply(connection, Stage.EVALUATE, rows, key)
    builds = _attempts(connection, [row.id for row in rows])
    tasks = [
        BundledTask(task, builds[task.job, task.epoch, task.round, str(Stage.BUILD)])
        for task in supplied
        if isinstance(task, Task)
    ]
    faults = {row.id: fault for row, fault in zip(rows, supplied, strict=True)}
    lost = {id: fault for id, fault in faults.items() if isinstance(fault, ArtifactLost)}
    _build_again(connection, lost)
    failed = sum(isinstance(fault, Failed) for fault in supplied)
    return Page(tuple(tasks), len(lost), failed, rows[-1].id)


def _build_again(connection: Connection, lost: Mapping[int, ArtifactLost]) -> None:
    if lost:
        job = tables.jobs.c
        waiting = job.state == str(State.BUILT)
        rows = transitions.locked(connection, among(connection, job.id, lost), waiting)
        transitions.take(connection, [Step(row, lost[row.id]) for row in rows])


def accept(
    connection: Connection,
    label: str,
    results: Sequence[BundledOutcome],
    machines: Mapping[str, int],
    *,
    key: bytes,
) -> list[Received]:
    """Take results as if their jobs had been claimed and evaluated just now, each one once.

    `machines` has the id of every host by its name. A job that somebody else evaluates is taken
    away from them: the first result wins.
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
    """Which attempt did each stage of each round of these jobs."""
    done = tables.rounds.c
    columns = (done.job, done.epoch, done.round, done.stage, done.attempt)
    found = connection.execute(select(*columns).where(among(connection, done.job, ids)))
    return {(job, epoch, round, stage): attempt for job, epoch, round, stage, attempt in found}


def _marks(connection: Connection, ids: Mapping[int, object]) -> set[tuple[int, str]]:
    """Results of bundles that these jobs have had: one that failed leaves no other trace."""
    line = tables.story.c
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
) -> Received:
    if row is None:
        return Received(Reception.REFUSED, "the label has no such job")
    round = (row.id, result.epoch, result.round)
    if (row.id, _mark(result)) in marks or (*round, str(Stage.EVALUATE)) in attempts:
        return Received(Reception.DUPLICATE)
    if (row.epoch, row.round) != round[1:]:
        return Received(Reception.REFUSED, "the job was started over since")
    if row.state not in (State.BUILT, State.EVALUATING):
        return Received(Reception.REFUSED, _REASONS[State(row.state)])
    if attempts.get((*round, str(Stage.BUILD))) != result.build:
        return Received(Reception.REFUSED, "the round was built again since")
    return Received(Reception.ACCEPTED)


_REASONS = {
    State.NEW: "the job was reset, and its round waits to be built again",
    State.BUILDING: "the job was reset, and its round is being built again",
    State.ABORTED: "the job is aborted; resume it and import again",
    State.ERROR: "the job is in error; reset it to built and import again",
    State.EVALUATED: "the job is evaluated already",
    State.NOT_APPLICABLE: "the job is not applicable",
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
    owner = leases.sign_in(connection, ProcessIdentity(_MARK, 0), _LEASE_S)
    busy = [row for row in rows if row.state == State.EVALUATING]
    first = Released("a bundle brought its result first")
    transitions.take(connection, [Step(row, first, row.eval_machine, row.gpu) for row in busy])
    job = tables.jobs.c
    waiting = transitions.locked(connection, among(connection, job.id, [row.id for row in rows]))
    claims = [_claim(row, results[row.id], machines) for row in waiting]
    steps = [
        Step(
            row,
            Claimed(_mark(results[row.id])),
            claim.machine,
            claim.slot,
            owner,
            {"attempt": claim.attempt, "eval_machine": claim.machine, "gpu": claim.slot},
        )
        for row, claim in zip(waiting, claims, strict=True)
    ]
    transitions.take(connection, steps)
    settlements = [
        settlement_of(claim, Done(claim.slot, claim.job, results[claim.job].outcome))
        for claim in claims
    ]
    refused = settling.settle(connection, owner, settlements, key=key)
    if refused:
        raise StorageError(
            f"the results of {numbered(len(refused), 'job')} could not be settled; import again"
        )
    leases.sign_out(connection, owner, _MARK)


def _claim(row: JobRow, result: BundledOutcome, machines: Mapping[str, int]) -> Claim:
    slot = result.gpu[: transitions.LONGEST_GPU]
    return Claim(row.id, row.attempt + 1, Stage.EVALUATE, machines[result.host.name], slot)
