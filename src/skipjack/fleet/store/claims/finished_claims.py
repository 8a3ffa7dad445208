"""Results of claims: stored in one transaction, each exactly once.

A claim is valid while the job has the same owner and the same attempt. A result that was stored but
not acknowledged may be sent again: it is accepted, and nothing is stored twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from skipjack.fleet.model import (
    LONGEST_LOG,
    Built,
    Claim,
    ClaimResult,
    Event,
    Failed,
    IllegalStepError,
    JobStage,
    Lost,
    Told,
    advance,
)
from skipjack.fleet.store.catalog import machines
from skipjack.fleet.store.claims import task_inputs
from skipjack.fleet.store.jobs import facts, job_history, transitions
from skipjack.fleet.store.jobs.transitions import (
    LONGEST_GPU,
    JobRow,
    Transition,
    event_name,
    storable_text,
)
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import among, found, insert_long_rows, insert_rows

MOST_LOGS = 20
"""Logs kept for a job: the newest ones."""


_READ = (
    *("owner", "trials", "failed_trials", "best_ns", "result", "toolchain", "device_seconds"),
    *("first_ns", "updated", "eval_machine", "gpu"),
)
"""Columns of a job that are read in addition to its status."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A result whose claim is valid, and its event."""

    row: JobRow
    claim_result: ClaimResult
    event: Event

    @property
    def replaced(self) -> tuple[int, int]:
        """Trials, and failed ones, of an earlier build of the same round, which it replaces."""
        if not isinstance(self.event, Built) or self.row.built_by is None:
            return 0, 0
        return self.row.built_trials, self.row.built_failed


def finish(
    connection: Connection, owner: str, claim_results: Sequence[ClaimResult], *, key: bytes
) -> list[Claim]:
    """Store results of claims; returns the claims that were lost."""
    wanted = {claim_result.claim.job: claim_result for claim_result in claim_results}
    if not wanted:
        return []
    rows = {row.id: row for row in _locked(connection, wanted)}
    held, others = [], []
    for claim_result in claim_results:
        row = rows.get(claim_result.claim.job)
        if row is not None and _holds(row, owner, claim_result.claim):
            held.append(_Accepted(row, claim_result, _legal(row, claim_result.event)))
            del rows[row.id]  # a second result for the same job is a repetition
        else:
            others.append(claim_result)
    if held:
        _write(connection, held, key)
    return _refused(connection, others)


def _locked(connection: Connection, wanted: Mapping[int, ClaimResult]) -> Sequence[JobRow]:
    building = any(
        one.claim.stage is JobStage.BUILD or isinstance(one.event, Built) for one in wanted.values()
    )
    return found(connection, _in_hand(dialect_of(connection), building), ids=sorted(wanted))


@cache
def _in_hand(dialect: Dialect, building: bool) -> Select[Any]:
    """The jobs by id, with what may have to be replaced or reset."""
    job, of, machine = tables.jobs.c, tables.rounds.c, tables.machines.c
    bad = machine.failures + machine.losses
    evaluator = select(bad).where(machine.id == job.eval_machine)
    query = transitions.select_jobs(*_READ).add_columns(
        evaluator.scalar_subquery().label("eval_failures")
    )
    if building:
        there = (
            of.job == job.id,
            of.epoch == job.epoch,
            of.round == job.round,
            of.stage == str(JobStage.BUILD),
        )
        builder = select(bad).where(machine.id == job.build_machine)
        query = query.add_columns(
            select(of.attempt).where(*there).scalar_subquery().label("built_by"),
            select(of.trials).where(*there).scalar_subquery().label("built_trials"),
            select(of.failed_trials).where(*there).scalar_subquery().label("built_failed"),
            builder.scalar_subquery().label("build_failures"),
        )
    return query.where(dialect.listed(job.id, "ids")).order_by(job.id).with_for_update()


def _holds(row: JobRow, owner: str, claim: Claim) -> bool:
    return bool(row.owner == owner and row.attempt == claim.attempt)


def _legal(row: JobRow, event: Event) -> Event:
    """The event, or a failure if it is impossible, so that other results are still stored."""
    try:
        advance(transitions.job_status(row), event)
    except IllegalStepError as error:
        return Failed(f"a worker sent an impossible result: {error}")
    return event


def _write(connection: Connection, held: Sequence[_Accepted], key: bytes) -> None:
    now = held[0].row.now
    new = {d: data for one in held for d, data in one.claim_result.artifacts.items()}
    task_inputs.store_artifacts(connection, key, new, now)
    _write_rounds(
        connection,
        [one for one in held if isinstance(one.event, Built | Told) or _failed_with_facts(one)],
    )
    transitions.apply(connection, [_step(one) for one in held])
    _write_logs(connection, [one for one in held if one.claim_result.log])
    _note_machines(connection, held)


def _failed_with_facts(one: _Accepted) -> bool:
    return isinstance(one.event, Failed) and bool(one.claim_result.facts)


def _step(one: _Accepted) -> Transition:
    claim = one.claim_result.claim
    gpu = "" if claim.stage is JobStage.BUILD else (claim.gpu or claim.slot)[:LONGEST_GPU]
    return Transition(one.row, one.event, claim.machine, gpu, changes=_sums(one))


def _sums(one: _Accepted) -> dict[str, Any]:
    """The sums over all rounds in the job's row."""
    row, claim_result = one.row, one.claim_result
    seconds = claim_result.device_seconds
    if not seconds and isinstance(one.event, Lost):
        used = transitions.device_time_until([row]).get(row.id, row.device_seconds)
        seconds = used - row.device_seconds
    time = {"device_seconds": row.device_seconds + seconds} if seconds else {}
    if not isinstance(one.event, Built | Told):
        return time
    # A repeated build reports its failed configs again.
    again_trials, again_failed = one.replaced
    times = [time for time in (row.best_ns, claim_result.best_ns) if time is not None]
    sums = {
        "trials": row.trials - again_trials + claim_result.trials,
        "failed_trials": row.failed_trials - again_failed + claim_result.failed_trials,
        "best_ns": min(times, default=None),
        **time,
    }
    if row.first_ns is None and (first_ns := _first_time(claim_result)) is not None:
        sums["first_ns"] = first_ns
    if isinstance(one.event, Told) and one.event.finished:
        result = dict(claim_result.result or {})
        sums["result"] = storable_text(json.dumps(result, sort_keys=True))
        sums["toolchain"] = str(result.get("toolchain", ""))[:255]
    return sums


def _first_time(claim_result: ClaimResult) -> float | None:
    """The time of the first config that ran."""
    for entry in claim_result.facts.get("study_log", ()):
        if entry["kind"] == "tell" and entry["status"] == "ok" and entry["value"]:
            return float(entry["value"])
    return None


def _write_rounds(connection: Connection, done: Sequence[_Accepted]) -> None:
    # A round whose machine code was lost is built again: the new build replaces the old one. Of a
    # build that failed as a whole, what it found out is kept for other builders.
    for one in done:
        if isinstance(one.event, Built | Failed) and one.row.built_by is not None:
            connection.execute(delete(tables.rounds).where(*_same_round(one.row)))
    rounds = [_round(one) for one in done]
    insert_long_rows(connection, tables.rounds, rows=rounds)
    found_out = (one.claim_result.facts for one in done)
    facts.write(connection, zip(rounds, found_out, strict=True))


def _same_round(row: JobRow) -> tuple[Any, ...]:
    of = tables.rounds.c
    return (
        of.job == row.id,
        of.epoch == row.epoch,
        of.round == row.round,
        of.stage == str(JobStage.BUILD),
    )


def _round(one: _Accepted) -> dict[str, Any]:
    row, claim_result = one.row, one.claim_result
    return {
        "job": row.id,
        "epoch": row.epoch,
        "round": row.round,
        "stage": str(claim_result.claim.stage),
        "ledger_rows": facts.counted(claim_result.facts),
        "digests": json.dumps(claim_result.digests),
        "trials": claim_result.trials,
        "failed_trials": claim_result.failed_trials,
        "best_ns": claim_result.best_ns,
        "device_seconds": claim_result.device_seconds,
        "attempt": row.attempt,
        "machine": claim_result.claim.machine,
        "created": row.now,
    }


def _write_logs(connection: Connection, logs: Sequence[_Accepted]) -> None:
    # For a lost worker, the partial log is all there is.
    whole = [
        one for one in logs if one.claim_result.log_started and not isinstance(one.event, Lost)
    ]
    if whole:
        job_history.forget_logs(connection, [(one.row.id, one.row.attempt) for one in whole])
    insert_rows(connection, tables.logs, [_log(one) for one in logs])
    for one in logs:
        if 2 * one.row.attempt > MOST_LOGS:  # each attempt writes two at most
            _forget_old_logs(connection, one.row.id)


def _log(one: _Accepted) -> dict[str, Any]:
    return {
        "job": one.row.id,
        "stage": str(one.claim_result.claim.stage),
        "epoch": one.row.epoch,
        "round": one.row.round,
        "attempt": one.row.attempt,
        "machine": one.claim_result.claim.machine,
        "text": storable_text(one.claim_result.log[-LONGEST_LOG:]),
        "created": one.row.now,
    }


def _forget_old_logs(connection: Connection, job: int) -> None:
    log = tables.logs.c
    newest = select(log.id).where(log.job == job).order_by(log.id.desc())
    old = connection.execute(newest.limit(MOST_LOGS).offset(MOST_LOGS)).scalars().all()
    if old:
        connection.execute(delete(tables.logs).where(log.job == job, log.id <= old[0]))


def _note_machines(connection: Connection, held: Sequence[_Accepted]) -> None:
    """Update machines, only if one failed, or succeeded after failures."""
    events: dict[int, list[tuple[int, Event]]] = {}
    telling = set()
    for one in held:
        machine = one.claim_result.claim.machine
        events.setdefault(machine, []).append((one.row.id, one.event))
        building = one.claim_result.claim.stage is JobStage.BUILD
        before = one.row.build_failures if building else one.row.eval_failures
        if isinstance(one.event, Failed | Lost) or (before and isinstance(one.event, Built | Told)):
            telling.add(machine)
    if telling:
        machines.note(connection, {machine: events[machine] for machine in sorted(telling)})


def _refused(connection: Connection, others: Sequence[ClaimResult]) -> list[Claim]:
    """Lost claims, without those whose result was stored by an earlier call."""
    if not others:
        return []
    line = tables.history.c
    jobs = sorted({claim_result.claim.job for claim_result in others})
    lines = select(line.job, line.attempt, line.event).where(among(connection, line.job, jobs))
    written = {tuple(row) for row in connection.execute(lines)}
    return [
        claim_result.claim
        for claim_result in others
        if (claim_result.claim.job, claim_result.claim.attempt, event_name(claim_result.event))
        not in written
    ]
