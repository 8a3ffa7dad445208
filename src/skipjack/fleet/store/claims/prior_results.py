"""What other jobs found out about the same problem on the same device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_, select

from skipjack.fleet.model import (
    MIOPEN,
    Claim,
    Inapplicable,
    JobKind,
    JobStage,
    JobState,
    PriorResult,
    Result,
    Task,
    known_of,
    winner_of,
    worth_trying,
)
from skipjack.fleet.store.catalog import labels
from skipjack.fleet.store.catalog.devices import same_class
from skipjack.fleet.store.jobs import jobs, transitions
from skipjack.fleet.store.jobs.transitions import JobRow
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.statements import among, chunks

# Database lines that earlier jobs of MIOpen found for the same problem and device.

_NEWEST = 6
"""Number of evaluated jobs of a problem that are read."""
_AT_ONCE = 200
_KERNELS = str(JobKind.KERNELS)


def miopen_lines_for(connection: Connection, row: JobRow) -> tuple[PriorResult, ...]:
    """The newest lines of any label: parameters preferably of a search, the ranking of a find.

    A find gets only the parameters: it times everything again. Builds of MIOpen may differ
    between jobs; MIOpen ignores parameters that a solver does not accept any more.
    """
    job = tables.jobs.c
    query = _evaluated_by_miopen().where(
        job.problem == row.problem, same_class(row.label, row.device), job.id != row.id
    )
    found = connection.execute(query.limit(_NEWEST))
    known = _newest([(JobKind(one.kind), parse_stored(one.result)) for one in found])
    return (known,) if known else ()


def miopen_rankings(connection: Connection, label: str) -> dict[tuple[str, str], PriorResult]:
    """What `miopen_lines_for` returns now for the finished kernel jobs of a label.

    Problems without a ranking are left out: their kernel jobs rank themselves.
    """
    job = tables.jobs.c
    label_id = labels.id_of(connection, label)
    mine = (
        select(job.problem, job.device, tables.problems.c.key)
        .join(tables.problems, tables.problems.c.id == job.problem)
        .where(job.label == label_id, job.kind == _KERNELS)
        .where(job.driver == MIOPEN, job.state == str(JobState.EVALUATED))
    )
    found: dict[tuple[str, str], PriorResult] = {}
    for chunk in chunks(connection.execute(mine).all(), _AT_ONCE):
        keys = {(row.problem, row.device): row.key for row in chunk}
        left: dict[tuple[int, str], list[Result]] = {}
        alike = or_(*(same_class(label_id, device) for device in {name for _, name in keys}))
        these = _evaluated_by_miopen().where(job.problem.in_({id for id, _ in keys}), alike)
        for one in connection.execute(these):
            result = JobKind(one.kind), parse_stored(one.result)
            left.setdefault((one.problem, one.device), []).append(result)
        for pair, key in keys.items():
            known = _newest(left.get(pair, ()))
            if known and _ranked(str(known.config["find_db"])):
                found[key, pair[1]] = known
    return found


def miopen_lines_of(
    finds: Sequence[Mapping[str, Any]], searches: Sequence[Mapping[str, Any]]
) -> PriorResult | None:
    """The lines of these results; earlier results take precedence. None if there are none."""
    lines = {
        "find_db": _first("find_db", *finds, *searches),
        "perf_db": _first("perf_db", *searches, *finds),
    }
    return PriorResult(MIOPEN, lines) if any(lines.values()) else None


def _evaluated_by_miopen() -> Select[Any]:
    """Evaluated tuning and find jobs, newest first."""
    job = tables.jobs.c
    return (
        select(job.problem, job.device, job.kind, job.result)
        .where(job.state == str(JobState.EVALUATED), job.driver == MIOPEN, job.kind != _KERNELS)
        .order_by(job.updated.desc(), job.id.desc())
    )


def _newest(left: Sequence[Result]) -> PriorResult | None:
    looked = left[:_NEWEST]
    finds = [result for kind, result in looked if kind is JobKind.FIND]
    searches = [result for kind, result in looked if kind is JobKind.TUNE]
    return miopen_lines_of(finds, searches)


def _ranked(line: str) -> bool:
    """Whether a line of the find-db has a valid time."""
    # Only jobs of MIOpen need these modules.
    from skipjack.interop.miopen import DatabaseRecord
    from skipjack.solvers.miopen import believable_record

    key, _, contents = line.partition("=")
    return bool(contents) and believable_record(DatabaseRecord.of_texts(key, contents)) is not None


def _first(which: str, *results: Mapping[str, Any]) -> str:
    """The first line of this database in the results."""
    for result in results:
        for line in result.get("miopen", {}).get(which, ()):
            return str(line)
    return ""


# Prior results of other jobs for the same problem and device: the first configs of a find, and
# the kernel to pack.


def needs_prior_results(task: Task) -> bool:
    """Whether it is the first build of a find or kernel job, which needs prior results."""
    first = task.stage is JobStage.BUILD and task.round == 0
    return first and task.plan.kind is not JobKind.TUNE


def with_prior_results(
    connection: Connection, claimed: Sequence[tuple[Claim, Task]]
) -> list[tuple[Claim, Task | Inapplicable]]:
    """Claims with prior results, or the reason why there is nothing to do.

    Not part of the claim's transaction, which locks jobs: this reads the results of many others.
    """
    asking = [task.job for _, task in claimed if needs_prior_results(task)]
    mine = among(connection, tables.jobs.c.id, asking)
    rows = {row.id: row for row in connection.execute(transitions.select_jobs().where(mine))}
    return [
        (
            claim,
            _with_prior_results(connection, rows[task.job], task)
            if needs_prior_results(task)
            else task,
        )
        for claim, task in claimed
    ]


def _with_prior_results(connection: Connection, row: JobRow, task: Task) -> Task | Inapplicable:
    known = prior_results_for(connection, row)
    packs = task.plan.kind is JobKind.KERNELS and not task.plan.by_miopen
    if packs and not known:
        return Inapplicable("no job of the label found a kernel to pack")
    return replace(task, known=known)


def prior_results_for(connection: Connection, row: JobRow) -> tuple[PriorResult, ...]:
    """For a find, good configs of each solver; for a kernel job the winner, if there is one."""
    kind = JobKind(row.kind)
    if row.driver == MIOPEN:
        return miopen_lines_for(connection, row)
    if kind is JobKind.FIND:
        return worth_trying(_of_any_label(connection, row))
    if kind is JobKind.KERNELS:
        job = tables.jobs.c
        mine = _evaluated(row).where(job.label == row.label, job.kind != str(JobKind.KERNELS))
        winner = winner_of(list(map(_result, connection.execute(mine))))
        return (winner,) if winner else ()
    return ()


def winners(connection: Connection, label: str) -> dict[tuple[str, str], PriorResult]:
    """What is to be packed according to the evaluated jobs of a label, by problem and device.

    For kernel jobs of MIOpen, the lines of its databases that they get.
    """
    found: dict[tuple[str, str], list[Result]] = {}
    for one in jobs.verdicts(connection, label):
        pair = one.problem, one.device
        found.setdefault(pair, []).append((one.kind, _short(one.result)))
    chosen = {pair: winner_of(results) for pair, results in found.items()}
    ours = {pair: winner for pair, winner in chosen.items() if winner}
    return ours | miopen_rankings(connection, label)


def packed(connection: Connection, label: str) -> dict[tuple[str, str], PriorResult]:
    """What the kernel jobs of a label have packed."""
    done = [one for one in jobs.verdicts(connection, label) if one.kind is JobKind.KERNELS]
    found = {(one.problem, one.device): _packed(one.result) for one in done}
    return {pair: known for pair, known in found.items() if known}


def _packed(result: Mapping[str, Any]) -> PriorResult | None:
    if MIOPEN in result:
        return miopen_lines_of([result], [result])
    return known_of(result) if result.get("code") else None


_DECIDING = (
    *("solver", "config", "solver_version", "time_ns", "vendor", "vendor_ns", "code"),
    *("baseline", "speedups"),
)


def _short(result: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a result that decide the winner: a label may have very many results."""
    return {name: result[name] for name in (*_DECIDING, "verdict") if name in result}


def _evaluated(row: JobRow) -> Select[Any]:
    """Evaluated jobs for the same problem and device, newest first."""
    job = tables.jobs.c
    return (
        select(job.id, job.kind, job.result)
        .where(job.problem == row.problem, same_class(row.label, row.device), job.id != row.id)
        .where(job.state == str(JobState.EVALUATED), job.driver == "")
        .order_by(job.updated.desc(), job.id.desc())
    )


def _of_any_label(connection: Connection, row: JobRow) -> Iterator[Result]:
    """Results of jobs, each followed by the best trials of its other solvers."""
    for one in connection.execute(_evaluated(row).limit(_NEWEST)).all():
        yield _result(one)
        if one.kind == JobKind.TUNE:
            yield from _searched(connection, one.id)


def _result(row: Row[Any]) -> Result:
    return JobKind(row.kind), parse_stored(row.result)


def _searched(connection: Connection, id: int) -> Iterator[Result]:
    """The best trial of each solver of a job, in the form of a result."""
    # Few programs read facts, and the ledger is slow to load.
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
            best[study] = (value, parse_stored(config))
    for study, (value, config) in best.items():
        if study in solvers:
            yield JobKind.TUNE, {"solver": solvers[study], "config": config, "time_ns": value}
