"""What other jobs found out about the same problem on the same device: where a find begins, and
which kernel is to be packed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, select

from skipjack.fleet.records import MIOPEN, Claim, JobKind, Known
from skipjack.fleet.states import Inapplicable, Stage, State
from skipjack.fleet.store.claims import miopen_lines
from skipjack.fleet.store.jobs import transitions, verdicts
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.machines.devices import same_class
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among
from skipjack.fleet.store.sql.stored_json import stored
from skipjack.fleet.task import Task
from skipjack.fleet.winners import Result, known_of, winner_of, worth_trying

_NEWEST = 6
"""Evaluated jobs of a problem that are looked into."""


def begins_with(task: Task) -> bool:
    """Whether it is the first build of a find or of kernels, which begins with what is known."""
    first = task.stage is Stage.BUILD and task.round == 0
    return first and task.plan.kind is not JobKind.TUNE


def informed(
    connection: Connection, claimed: Sequence[tuple[Claim, Task]]
) -> list[tuple[Claim, Task | Inapplicable]]:
    """Claims with what other jobs found out, or why there is nothing to be done.

    Apart from the claim, which locks jobs: this reads the results of many others.
    """
    asking = [task.job for _, task in claimed if begins_with(task)]
    mine = among(connection, tables.jobs.c.id, asking)
    rows = {row.id: row for row in connection.execute(transitions.reading().where(mine))}
    return [
        (claim, _informed(connection, rows[task.job], task) if begins_with(task) else task)
        for claim, task in claimed
    ]


def _informed(connection: Connection, row: JobRow, task: Task) -> Task | Inapplicable:
    known = known_for(connection, row)
    packs = task.plan.kind is JobKind.KERNELS and not task.plan.by_miopen
    if packs and not known:
        return Inapplicable("no job of the label found a kernel that could be packed")
    return replace(task, known=known)


def known_for(connection: Connection, row: JobRow) -> tuple[Known, ...]:
    """For a find, good configs of each solver; for kernels the winner, if there is any."""
    kind = JobKind(row.kind)
    if row.driver == MIOPEN:
        return miopen_lines.known_for(connection, row)
    if kind is JobKind.FIND:
        return worth_trying(_of_any_label(connection, row))
    if kind is JobKind.KERNELS:
        job = tables.jobs.c
        mine = _evaluated(row).where(job.label == row.label, job.kind != str(JobKind.KERNELS))
        winner = winner_of(list(map(_result, connection.execute(mine))))
        return (winner,) if winner else ()
    return ()


def winners(connection: Connection, label: str) -> dict[tuple[str, str], Known]:
    """What the evaluated jobs of a label say that is to be packed, by problem and device.

    Where MIOpen packs, lines of its databases, as its kernel jobs are told them.
    """
    found: dict[tuple[str, str], list[Result]] = {}
    for one in verdicts.verdicts(connection, label):
        pair = one.problem, one.device
        found.setdefault(pair, []).append((one.kind, _short(one.result)))
    chosen = {pair: winner_of(results) for pair, results in found.items()}
    ours = {pair: winner for pair, winner in chosen.items() if winner}
    return ours | miopen_lines.rankings(connection, label)


def packed(connection: Connection, label: str) -> dict[tuple[str, str], Known]:
    """What the kernel jobs of a label have packed."""
    done = [one for one in verdicts.verdicts(connection, label) if one.kind is JobKind.KERNELS]
    found = {(one.problem, one.device): _packed(one.result) for one in done}
    return {pair: known for pair, known in found.items() if known}


def _packed(result: Mapping[str, Any]) -> Known | None:
    if MIOPEN in result:
        return miopen_lines.known_of([result], [result])
    return known_of(result) if result.get("code") else None


_DECIDING = (
    *("solver", "config", "solver_version", "time_ns", "vendor", "vendor_ns", "code"),
    *("baseline", "speedups"),
)


def _short(result: Mapping[str, Any]) -> dict[str, Any]:
    """As much of a result as decides who wins: a label may have very many."""
    return {name: result[name] for name in (*_DECIDING, "verdict") if name in result}


def _evaluated(row: JobRow) -> Select[Any]:
    """Evaluated jobs of the same problem and device, newest first."""
    job = tables.jobs.c
    return (
        select(job.id, job.kind, job.result)
        .where(job.problem == row.problem, same_class(row.label, row.device), job.id != row.id)
        .where(job.state == str(State.EVALUATED), job.driver == "")
        .order_by(job.updated.desc(), job.id.desc())
    )


def _of_any_label(connection: Connection, row: JobRow) -> Iterator[Result]:
    """Results of jobs, each before what its searches found of other solvers than the winner."""
    for one in connection.execute(_evaluated(row).limit(_NEWEST)).all():
        yield _result(one)
        if one.kind == JobKind.TUNE:
            yield from _searched(connection, one.id)


def _result(row: Row[Any]) -> Result:
    return JobKind(row.kind), stored(row.result)


def _searched(connection: Connection, id: int) -> Iterator[Result]:
    """The best trial of each solver of a job, as if it were the result of one."""
    # Of all that use the store, few read facts, and the ledger takes its time to load.
    from skipjack.fleet.store.schema.ledger_tables import TABLES

    job, of, told = tables.jobs.c, TABLES["studies"].c, TABLES["study_log"].c
    same = and_(job.id == of.job, job.epoch == of.job_epoch)
    studies = select(of.id, of.solver).join(tables.jobs, same).where(of.job == id)
    solvers = {row.id: row.solver for row in connection.execute(studies)}
    trials = (
        select(told.study, told.config, told.value)
        .join(tables.jobs, and_(job.id == told.job, job.epoch == told.job_epoch))
        .where(told.job == id, told.kind == "tell", told.status == "ok", told.value.is_not(None))
        .order_by(told.round, told.stage, told.place)
    )
    best: dict[str, tuple[float, Mapping[str, Any]]] = {}
    for study, config, value in connection.execute(trials):
        if value < best.get(study, (math.inf, {}))[0]:
            best[study] = (value, stored(config))
    for study, (value, config) in best.items():
        if study in solvers:
            yield JobKind.TUNE, {"solver": solvers[study], "config": config, "time_ns": value}
