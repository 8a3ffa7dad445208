"""Settlements: what came of claims, all in one transaction, each exactly once.

A claim counts while the job has the same owner and the same attempt. A settlement that
was written but never acknowledged may be sent again: it is accepted, and nothing is written twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, delete, select

from skipjack.fleet.records import LONGEST_LOG, Claim, Settlement
from skipjack.fleet.states import Built, Event, Failed, IllegalStepError, Lost, Stage, Told, advance
from skipjack.fleet.store.claims import artifacts
from skipjack.fleet.store.jobs import facts, stories, transitions
from skipjack.fleet.store.jobs.transitions import LONGEST_GPU, JobRow, Step, event_name, readable
from skipjack.fleet.store.machines import machines
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import among, found, insert_long_rows, insert_rows

MOST_LOGS = 20
"""Of one job; the newest are kept."""


_READ = ("owner", "trials", "failed_trials", "best_ns", "result", "toolchain")
"""Of a job that is settled, beside where it stands."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A settlement whose claim holds, and what happens to the job."""

    row: JobRow
    settlement: Settlement
    event: Event

    @property
    def replaced(self) -> tuple[int, int]:
        """Trials, and failed ones, of the build of the same round whose place it takes."""
        if not isinstance(self.event, Built) or self.row.built_by is None:
            return 0, 0
        return self.row.built_trials, self.row.built_failed


def settle(
    connection: Connection, owner: str, settlements: Sequence[Settlement], *, key: bytes
) -> list[Claim]:
    """Write what came of these claims; those that were lost are refused, and answered."""
    wanted = {settlement.claim.job: settlement for settlement in settlements}
    if not wanted:
        return []
    rows = {row.id: row for row in _locked(connection, wanted)}
    held, others = [], []
    for settlement in settlements:
        row = rows.get(settlement.claim.job)
        if row is not None and _holds(row, owner, settlement.claim):
            held.append(_Accepted(row, settlement, _legal(row, settlement.event)))
            del rows[row.id]  # what is there twice is a repetition
        else:
            others.append(settlement)
    if held:
        _write(connection, held, key)
    return _refused(connection, others)


def _locked(connection: Connection, wanted: Mapping[int, Settlement]) -> Sequence[JobRow]:
    building = any(
        one.claim.stage is Stage.BUILD or isinstance(one.event, Built) for one in wanted.values()
    )
    return found(connection, _in_hand(dialect_of(connection), building), ids=sorted(wanted))


@cache
def _in_hand(dialect: Dialect, building: bool) -> Select[Any]:
    """The jobs in the order of their ids, with what may have to be replaced or reset."""
    job, of, machine = tables.jobs.c, tables.rounds.c, tables.machines.c
    bad = machine.failures + machine.losses
    evaluator = select(bad).where(machine.id == job.eval_machine)
    query = transitions.reading(*_READ).add_columns(
        evaluator.scalar_subquery().label("eval_failures")
    )
    if building:
        there = (
            of.job == job.id,
            of.epoch == job.epoch,
            of.round == job.round,
            of.stage == str(Stage.BUILD),
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
    """The event, or that the worker talks nonsense: its job must not keep others from theirs."""
    try:
        advance(transitions.standing(row), event)
    except IllegalStepError as error:
        return Failed(f"a worker answered what cannot be: {error}")
    return event


def _write(connection: Connection, held: Sequence[_Accepted], key: bytes) -> None:
    now = held[0].row.now
    new = {d: data for one in held for d, data in one.settlement.artifacts.items()}
    artifacts.keep(connection, key, new, now)
    _write_rounds(connection, [one for one in held if isinstance(one.event, Built | Told)])
    transitions.take(connection, [_step(one) for one in held])
    _write_logs(connection, [one for one in held if one.settlement.log])
    _note_machines(connection, held)


def _step(one: _Accepted) -> Step:
    claim = one.settlement.claim
    gpu = "" if claim.stage is Stage.BUILD else (claim.gpu or claim.slot)[:LONGEST_GPU]
    return Step(one.row, one.event, claim.machine, gpu, changes=_sums(one))


def _sums(one: _Accepted) -> dict[str, Any]:
    """What the job's row says about all rounds together."""
    row, settlement = one.row, one.settlement
    if not isinstance(one.event, Built | Told):
        return {}
    # A round that is built again tells anew what did not build.
    again_trials, again_failed = one.replaced
    times = [time for time in (row.best_ns, settlement.best_ns) if time is not None]
    sums = {
        "trials": row.trials - again_trials + settlement.trials,
        "failed_trials": row.failed_trials - again_failed + settlement.failed_trials,
        "best_ns": min(times, default=None),
    }
    if isinstance(one.event, Told) and one.event.finished:
        result = dict(settlement.result or {})
        sums["result"] = readable(json.dumps(result, sort_keys=True))
        sums["toolchain"] = str(result.get("toolchain", ""))[:255]
    return sums


def _write_rounds(connection: Connection, done: Sequence[_Accepted]) -> None:
    # A round whose machine code was lost is built again: the new build takes the old one's place.
    for one in done:
        if isinstance(one.event, Built) and one.row.built_by is not None:
            connection.execute(delete(tables.rounds).where(*_same_round(one.row)))
    rounds = [_round(one) for one in done]
    insert_long_rows(connection, tables.rounds, rows=rounds)
    found_out = (one.settlement.facts for one in done)
    facts.write(connection, zip(rounds, found_out, strict=True))


def _same_round(row: JobRow) -> tuple[Any, ...]:
    of = tables.rounds.c
    return (
        of.job == row.id,
        of.epoch == row.epoch,
        of.round == row.round,
        of.stage == str(Stage.BUILD),
    )


def _round(one: _Accepted) -> dict[str, Any]:
    row, settlement = one.row, one.settlement
    return {
        "job": row.id,
        "epoch": row.epoch,
        "round": row.round,
        "stage": str(settlement.claim.stage),
        "ledger_rows": facts.counted(settlement.facts),
        "digests": json.dumps(settlement.digests),
        "trials": settlement.trials,
        "failed_trials": settlement.failed_trials,
        "best_ns": settlement.best_ns,
        "attempt": row.attempt,
        "machine": settlement.claim.machine,
        "created": row.now,
    }


def _write_logs(connection: Connection, said: Sequence[_Accepted]) -> None:
    # Of a worker that was lost, what it said before is all there is.
    whole = [one for one in said if one.settlement.overheard and not isinstance(one.event, Lost)]
    if whole:
        stories.forget_logs(connection, [(one.row.id, one.row.attempt) for one in whole])
    insert_rows(connection, tables.logs, [_log(one) for one in said])
    for one in said:
        if 2 * one.row.attempt > MOST_LOGS:  # each attempt writes two at most
            _forget_old_logs(connection, one.row.id)


def _log(one: _Accepted) -> dict[str, Any]:
    return {
        "job": one.row.id,
        "stage": str(one.settlement.claim.stage),
        "epoch": one.row.epoch,
        "round": one.row.round,
        "attempt": one.row.attempt,
        "machine": one.settlement.claim.machine,
        "text": readable(one.settlement.log[-LONGEST_LOG:]),
        "created": one.row.now,
    }


def _forget_old_logs(connection: Connection, job: int) -> None:
    log = tables.logs.c
    newest = select(log.id).where(log.job == job).order_by(log.id.desc())
    old = connection.execute(newest.limit(MOST_LOGS).offset(MOST_LOGS)).scalars().all()
    if old:
        connection.execute(delete(tables.logs).where(log.job == job, log.id <= old[0]))


def _note_machines(connection: Connection, held: Sequence[_Accepted]) -> None:
    """Machines are touched only if one failed, or did something again after it had failed."""
    events: dict[int, list[tuple[int, Event]]] = {}
    telling = set()
    for one in held:
        machine = one.settlement.claim.machine
        events.setdefault(machine, []).append((one.row.id, one.event))
        building = one.settlement.claim.stage is Stage.BUILD
        before = one.row.build_failures if building else one.row.eval_failures
        if isinstance(one.event, Failed | Lost) or (before and isinstance(one.event, Built | Told)):
            telling.add(machine)
    if telling:
        machines.note(connection, {machine: events[machine] for machine in sorted(telling)})


def _refused(connection: Connection, others: Sequence[Settlement]) -> list[Claim]:
    """Those whose claim was lost, but not those that were written by an earlier call."""
    if not others:
        return []
    line = tables.story.c
    jobs = sorted({settlement.claim.job for settlement in others})
    lines = select(line.job, line.attempt, line.event).where(among(connection, line.job, jobs))
    written = {tuple(row) for row in connection.execute(lines)}
    return [
        settlement.claim
        for settlement in others
        if (settlement.claim.job, settlement.claim.attempt, event_name(settlement.event))
        not in written
    ]
