"""What a worker needs to go on with a job: the device, the facts so far, and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, select, update

from skipjack.core.device import Device
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.records import MIOPEN
from skipjack.fleet.states import ArtifactLost, Failed, Inapplicable, Stage
from skipjack.fleet.store.claims import artifacts
from skipjack.fleet.store.jobs import facts
from skipjack.fleet.store.jobs.jobs import plan_of
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.machines import devices
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import among, found
from skipjack.fleet.store.sql.stored_json import stored
from skipjack.fleet.task import Task
from skipjack.gpu.describing import named_gpu

Fault = Inapplicable | Failed | ArtifactLost
"""Why a job cannot be done, as what happens to it."""


@dataclass(frozen=True, slots=True)
class _Past:
    """What came of one stage of one round."""

    round: int
    stage: str
    facts: str
    """Empty if there are none."""
    digests: tuple[str, ...]


def supply(
    connection: Connection, stage: Stage, rows: Sequence[JobRow], key: bytes
) -> list[Task | Fault]:
    """A task for each job, or why there is none.

    Rows also have ``key``, ``record`` (what the job is or will be built for) and ``real`` (the
    device that it is measured on, if one was seen).
    """
    if stage is Stage.EVALUATE:
        _forget_what_cannot_run(connection, rows)
    pasts = _pasts(connection, [row.id for row in rows if row.attempt > 0])
    needed = {
        row.id: _needed(row.round, pasts.get(row.id, ())) if stage is Stage.EVALUATE else ()
        for row in rows
    }
    wanted = {digest for digests in needed.values() for digest in digests or ()}
    fetched = artifacts.fetch(connection, key, wanted)
    return [_task(stage, row, pasts.get(row.id, ()), needed[row.id], fetched) for row in rows]


def _runs(row: JobRow) -> bool:
    """Whether code for what the job was built for runs on the device that it is measured on."""
    if row.record is None or row.real is None or row.driver == MIOPEN:  # which compiles there
        return True
    real = devices.of_record(row.real)
    return devices.of_record(row.record).compat_key in real.loadable


def _forget_what_cannot_run(connection: Connection, rows: Sequence[JobRow]) -> None:
    """Jobs that were built by a name before a device of it was seen, and the real one has less: the
    next build is for that one.
    """
    ids = [row.id for row in rows if not _runs(row)]
    if ids:
        mine = among(connection, tables.jobs.c.id, ids)
        connection.execute(update(tables.jobs).where(mine).values(device_record=None))


def _pasts(connection: Connection, ids: Sequence[int]) -> dict[int, list[_Past]]:
    """What came of the stages of each job in its present epoch, in order."""
    if not ids:
        return {}
    pasts: dict[int, list[_Past]] = {}
    rows = found(connection, _rounds_of(dialect_of(connection)), ids=list(ids))
    known = facts.texts(connection, [row[:4] for row in rows])
    for id, round, stage, _, digests in rows:
        text = known.get((id, round, stage), "")
        pasts.setdefault(id, []).append(_Past(round, stage, text, tuple(stored(digests))))
    for list_ in pasts.values():
        list_.sort(key=lambda past: (past.round, past.stage))  # "build" is before "evaluate"
    return pasts


@cache
def _rounds_of(dialect: Dialect) -> Select[Any]:
    of, job = tables.rounds.c, tables.jobs.c
    columns = (of.job, of.round, of.stage, of.ledger_rows, of.digests)
    same = (of.job == job.id) & (of.epoch == job.epoch)
    return select(*columns).join(tables.jobs, same).where(dialect.listed(job.id, "ids"))


def _needed(round: int, pasts: Sequence[_Past]) -> tuple[str, ...] | None:
    """Digests of what this round built; None if it was not built."""
    for past in pasts:
        if past.round == round and past.stage == Stage.BUILD:
            return past.digests
    return None


def _task(
    stage: Stage,
    row: JobRow,
    pasts: Sequence[_Past],
    digests: tuple[str, ...] | None,
    fetched: artifacts.Fetched,
) -> Task | Fault:
    if digests is None:
        return ArtifactLost(f"what round {row.round} built is not in the store")
    if stage is Stage.EVALUATE and not _runs(row):
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
    return Task(
        row.id,
        stage,
        plan_of(row, row.key),
        device,
        row.epoch,
        row.round,
        tuple(past.facts for past in pasts if past.facts and not _replaced(stage, row, past)),
        {digest: fetched.whole[digest] for digest in digests},
        row.attempt + 1,
    )


def _replaced(stage: Stage, row: JobRow, past: _Past) -> bool:
    """Whether it will give way to this task's outcome: a round is built anew from what was told."""
    return stage is Stage.BUILD and past.round == row.round and past.stage == Stage.BUILD


def _device(stage: Stage, row: JobRow) -> Device | Fault:
    if row.record is not None:
        return devices.of_record(row.record)
    try:
        return devices.by_name(row.device)
    except UsageError as error:
        if row.driver == MIOPEN:
            return named_gpu(row.device)
        # Only a build can find out that nothing is to be built.
        return (Inapplicable if stage is Stage.BUILD else Failed)(str(error))
    except SkipjackError as error:
        return Failed(str(error))
