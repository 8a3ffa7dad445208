"""The inputs of a task: its device, the facts so far, and signed machine code."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, delete, select, update

from skipjack.core import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.model import MIOPEN, ArtifactLost, Failed, Inapplicable, JobStage, Task
from skipjack.fleet.signature import is_signed, sign
from skipjack.fleet.store.catalog import devices
from skipjack.fleet.store.jobs import facts
from skipjack.fleet.store.jobs.jobs import plan_of
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import among, found, insert_new
from skipjack.gpu import named_gpu

# Machine code in the store, by digest and signed with the fleet's key.
#
# Code that is missing, damaged or signed with another key is lost: it is built again, never
# loaded.

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FetchedArtifacts:
    """The artifacts of the requested digests."""

    whole: Mapping[str, bytes] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    """The reason why each other digest cannot be used."""


def store_artifacts(
    connection: Connection, key: bytes, artifacts: Mapping[str, bytes], now: float
) -> None:
    """Add artifacts that the store does not have yet."""
    if not artifacts:
        return
    table = tables.artifacts
    there = select(table.c.digest).where(among(connection, table.c.digest, artifacts))
    known = set(connection.execute(there).scalars())
    # Sorted by digest, so that two coordinators with the same ones do not deadlock.
    rows = [
        {
            "digest": digest,
            "size": len(artifacts[digest]),
            "seal": sign(key, digest),
            "data": artifacts[digest],
            "created": now,
        }
        for digest in sorted(artifacts.keys() - known)
    ]
    insert_new(connection, table, rows)


def fetch_artifacts(connection: Connection, key: bytes, digests: Iterable[str]) -> FetchedArtifacts:
    """The artifacts with these digests; unusable ones are removed from the store."""
    wanted = set(digests)
    if not wanted:
        return FetchedArtifacts()
    table = tables.artifacts.c
    columns = (table.digest, table.seal, table.data)
    found = connection.execute(select(*columns).where(among(connection, table.digest, wanted)))
    whole: dict[str, bytes] = {}
    lost: dict[str, str] = {}
    for digest, written, data in found:
        reason = _artifact_fault(key, digest, written, data)
        if reason:
            lost[digest] = reason
        else:
            whole[digest] = bytes(data)
    if lost:
        _remove_artifacts(connection, lost)
    missing = dict.fromkeys(wanted - whole.keys() - lost.keys(), "is not in the store")
    return FetchedArtifacts(whole, lost | missing)


def _artifact_fault(key: bytes, digest: str, written: str, data: bytes) -> str:
    if not is_signed(key, digest, written):
        return "is not signed with this fleet's key"
    if hashlib.sha256(data).hexdigest() != digest:
        return "is damaged in the store"
    return ""


def _remove_artifacts(connection: Connection, lost: Mapping[str, str]) -> None:
    """Remove lost artifacts, so that the next build of the same code can be stored."""
    for digest, reason in lost.items():
        log.warning("artifact %s %s; it was removed and will be built again", digest, reason)
    table = tables.artifacts
    connection.execute(delete(table).where(among(connection, table.c.digest, lost)))


# The inputs of a task: the device, the facts so far, and machine code.

Fault = Inapplicable | Failed | ArtifactLost
"""The event of a job that cannot be done."""


@dataclass(frozen=True, slots=True)
class _StageResult:
    """The result of one stage of one round."""

    round: int
    stage: str
    facts: str
    """Empty if there are none."""
    digests: tuple[str, ...]


def task_inputs(
    connection: Connection, stage: JobStage, rows: Sequence[JobRow], key: bytes
) -> list[Task | Fault]:
    """A task for each job, or the event if it cannot be done.

    Rows also have ``key``, ``record`` (the device that the job is built for) and ``real`` (the
    device that it is measured on, if one was seen).
    """
    if stage is JobStage.EVALUATE:
        _forget_what_cannot_run(connection, rows)
    pasts = _stage_results(connection, [row.id for row in rows if row.attempt > 0])
    needed = {
        row.id: _needed(row.round, pasts.get(row.id, ())) if stage is JobStage.EVALUATE else ()
        for row in rows
    }
    wanted = {digest for digests in needed.values() for digest in digests or ()}
    fetched = fetch_artifacts(connection, key, wanted)
    return [_task(stage, row, pasts.get(row.id, ()), needed[row.id], fetched) for row in rows]


def _runs(row: JobRow) -> bool:
    """Whether the job's code runs on the device that it is measured on."""
    if row.record is None or row.real is None or row.driver == MIOPEN:  # MIOpen compiles there
        return True
    real = devices.of_record(row.real)
    return devices.of_record(row.record).compat_key in real.loadable


def _forget_what_cannot_run(connection: Connection, rows: Sequence[JobRow]) -> None:
    """Clear the device of jobs that were built by its name, if the real device lacks features: the
    next build is for the real one.
    """
    ids = [row.id for row in rows if not _runs(row)]
    if ids:
        mine = among(connection, tables.jobs.c.id, ids)
        connection.execute(update(tables.jobs).where(mine).values(device_record=None))


def _stage_results(connection: Connection, ids: Sequence[int]) -> dict[int, list[_StageResult]]:
    """The results of the stages of each job in its current epoch, in order."""
    if not ids:
        return {}
    pasts: dict[int, list[_StageResult]] = {}
    rows = found(connection, _rounds_of(dialect_of(connection)), ids=list(ids))
    known = facts.texts(connection, [row[:4] for row in rows])
    for id, round, stage, _, digests in rows:
        text = known.get((id, round, stage), "")
        pasts.setdefault(id, []).append(
            _StageResult(round, stage, text, tuple(parse_stored(digests)))
        )
    for list_ in pasts.values():
        list_.sort(key=lambda past: (past.round, past.stage))  # "build" is before "evaluate"
    return pasts


@cache
def _rounds_of(dialect: Dialect) -> Select[Any]:
    of, job = tables.rounds.c, tables.jobs.c
    columns = (of.job, of.round, of.stage, of.ledger_rows, of.digests)
    same = (of.job == job.id) & (of.epoch == job.epoch)
    return select(*columns).join(tables.jobs, same).where(dialect.listed(job.id, "ids"))


def _needed(round: int, pasts: Sequence[_StageResult]) -> tuple[str, ...] | None:
    """Digests of the build of this round; None if it was not built."""
    for past in pasts:
        if past.round == round and past.stage == JobStage.BUILD:
            return past.digests
    return None


def _task(
    stage: JobStage,
    row: JobRow,
    pasts: Sequence[_StageResult],
    digests: tuple[str, ...] | None,
    fetched: FetchedArtifacts,
) -> Task | Fault:
    if digests is None:
        return ArtifactLost(f"the build of round {row.round} is not in the store")
    if stage is JobStage.EVALUATE and not _runs(row):
        built, real = devices.of_record(row.record), devices.of_record(row.real)
        return ArtifactLost(
            f"it was built for {built.compat_key}, which this {real.name} ({real.compat_key}) lacks"
        )
    for digest in digests:
        if digest in fetched.lost:
            return ArtifactLost(f"artifact {digest} {fetched.lost[digest]}")
    device = _device(stage, row)
    if not isinstance(device, Device):
        return device
    plan = plan_of(row, row.key)
    if row.trial_limit is not None:  # it ends here, because the label's device time does
        plan = replace(plan, budget=min(plan.budget, row.trial_limit))
    return Task(
        row.id,
        stage,
        plan,
        device,
        row.epoch,
        row.round,
        tuple(past.facts for past in pasts if past.facts and not _replaced(stage, row, past)),
        {digest: fetched.whole[digest] for digest in digests},
        row.attempt + 1,
    )


def _replaced(stage: JobStage, row: JobRow, past: _StageResult) -> bool:
    """Whether this task's outcome will replace it: a repeated build starts from what was told."""
    return stage is JobStage.BUILD and past.round == row.round and past.stage == JobStage.BUILD


def _device(stage: JobStage, row: JobRow) -> Device | Fault:
    if row.record is not None:
        return devices.of_record(row.record)
    try:
        return devices.by_name(row.device)
    except UsageError as error:
        if row.driver == MIOPEN:
            return named_gpu(row.device)
        # Only a build may end as not applicable.
        return (Inapplicable if stage is JobStage.BUILD else Failed)(str(error))
    except SkipjackError as error:
        return Failed(str(error))
