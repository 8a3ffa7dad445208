"""Claims: many jobs at once into the hands of one owner, with all that their workers need.

Coordinators that claim at the same time pass over what another one is about to take. The owner and
the machines are locked against being swept or aborted in between; jobs are never waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from skipjack.fleet.records import Claim, JobKind, Want
from skipjack.fleet.states import ArtifactLost, Claimed, Failed, Inapplicable, Stage
from skipjack.fleet.store.claims import claim_sql
from skipjack.fleet.store.claims.supplies import Fault, supply
from skipjack.fleet.store.jobs import labels, transitions
from skipjack.fleet.store.jobs.transitions import LONGEST_GPU, JobRow, Step
from skipjack.fleet.store.machines import devices
from skipjack.fleet.store.machines.devices import record_of
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.fleet.store.sql.statements import among, found, found_together
from skipjack.fleet.task import Task

TIMES_AT_ONCE = 32
"""How often a claim looks further when all that it found came to an end at once: the lease is not
renewed meanwhile."""


def claim(
    connection: Connection,
    owner: str,
    stage: Stage,
    wants: Sequence[Want],
    label: str | None = None,
    *,
    key: bytes,
    kind: JobKind | None = None,
    only: Sequence[str] = (),
) -> list[tuple[Claim, Task]]:
    """Jobs for these workers, the most urgent first; fewer than wanted if fewer wait.

    Of one kind, if one is named, and for devices of these names `only`, if there are any.
    Nothing for an owner whose lease was swept, nor for a machine that is aborted or set aside. A
    job that turns out not to be doable is settled here, and is not among the answers.
    """
    if (
        stage is Stage.EVALUATE
    ):  # without a device there is nothing to measure on; builders build for all
        wants = [want for want in wants if want.devices]
    admitted = _admitted(connection, owner, stage, wants, label)
    asked = {"label": admitted.label, "only": list(only) or None}
    groups = _groups(stage, admitted)
    seen: list[int] = []
    for _ in range(TIMES_AT_ONCE):
        taken = _taken(connection, stage, groups, asked, seen, kind)
        if not taken:
            return []
        seen += [row.id for row, _ in taken]
        tasks = supply(connection, stage, [row for row, _ in taken], key)
        if claimed := _hand_over(connection, owner, stage, taken, tasks):
            return claimed
        # All of them came to an end here: nobody can build for their device, or code was lost.
    return []


def _taken(
    connection: Connection,
    stage: Stage,
    groups: Mapping[_Able, Sequence[Want]],
    asked: Mapping[str, Any],
    seen: Sequence[int],
    kind: JobKind | None,
) -> list[tuple[JobRow, Want]]:
    """Jobs for the wants, locked, but none that was seen before."""
    taken: list[tuple[JobRow, Want]] = []
    for able, group in groups.items():
        most = sum(want.count for want in group)
        passed = [*seen, *(row.id for row, _ in taken)]
        values = {**asked, "most": most, "taken": passed or None}
        values["devices"] = None if able.names is None else list(able.names)
        if asked["label"] is None:  # of a label it was looked up which names are meant
            values["classes"] = list(able.classes) or None
        rows = _waiting(connection, stage, kind, values)
        taken += zip(rows, _dealt(group), strict=False)
    return taken


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The wants of machines that may work, and what is known of the label, if one is named."""

    wants: Sequence[Want]
    label: int | None = None
    meant: Mapping[str, str] | None = None
    """The class of each device that it is for, where that matters: to evaluators."""


def _admitted(
    connection: Connection, owner: str, stage: Stage, wants: Sequence[Want], label: str | None
) -> _Admitted:
    """The machines that may work, once devices are bound to real ones."""
    dialect = dialect_of(connection)
    values: dict[str, Any] = {"owner": owner, "machines": sorted({want.machine for want in wants})}
    asked = [(claim_sql.gate(dialect, label is not None), values)]
    if label is not None:
        values["label"] = label
        if stage is Stage.EVALUATE:
            asked.append((claim_sql.meant(dialect), {"label": label}))
    rows, *classes = found_together(connection, *asked)
    if not rows:
        return _Admitted(())
    label_id = None
    if label is not None:
        known = rows[0].label
        label_id = labels.id_of(connection, label) if known is None else int(known)
        if rows[0].stopped:
            return _Admitted((), label_id)
    allowed = {row.id for row in rows}
    able = [want for want in wants if want.machine in allowed and want.count > 0]
    if rows[0].unbound:
        here = (one for want in able for one in want.devices)
        devices.bind_unbound(connection, here, label_id)
        classes = found_together(connection, *asked[1:])
    meant = {row.device: row.class_key for row in classes[0]} if classes else None
    return _Admitted(able, label_id, meant)


@dataclass(frozen=True, slots=True)
class _Able:
    """What workers can work on: devices of these names, if they are of one of these classes.

    All devices for None. Jobs of MIOpen pass any builder.
    """

    names: tuple[str, ...] | None
    classes: tuple[str, ...] = ()


def _groups(stage: Stage, admitted: _Admitted) -> dict[_Able, list[Want]]:
    """Wants by what they can work on: each group is one query.

    An evaluator gets jobs of labels that are for its very device, and not for another one of the
    same name.
    """
    groups: dict[_Able, list[Want]] = {}
    if stage is Stage.BUILD:
        for want in admitted.wants:
            names = None if want.builds_for is None else tuple(sorted(set(want.builds_for)))
            groups.setdefault(_Able(names), []).append(want)
        return groups
    meant = admitted.meant
    for want in admitted.wants:
        here = {device.class_key: device.name for device in want.devices}
        if meant is not None:
            here = {key: name for key, name in here.items() if meant.get(name) == key}
        if here:
            able = _Able(tuple(sorted(set(here.values()))), tuple(sorted(here)))
            groups.setdefault(able, []).append(want)
    return groups


def _waiting(
    connection: Connection, stage: Stage, kind: JobKind | None, values: Mapping[str, Any]
) -> Sequence[JobRow]:
    """Jobs that wait for the stage, locked, but none of those that were taken before."""
    given = tuple(name for name, value in values.items() if value is not None)
    statement = claim_sql.next_jobs(dialect_of(connection), stage, kind, given)
    return found(connection, statement, **{name: values[name] for name in given})


def _dealt(group: Sequence[Want]) -> Iterator[Want]:
    """Each want as often as it has room, in turns: few jobs are spread over all workers."""
    for turn in range(max(want.count for want in group)):
        yield from (want for want in group if want.count > turn)


def _hand_over(
    connection: Connection,
    owner: str,
    stage: Stage,
    taken: Sequence[tuple[JobRow, Want]],
    tasks: Sequence[Task | Fault],
) -> list[tuple[Claim, Task]]:
    """Write which owner has which job from now on; what cannot be done is settled at once."""
    pairs = [(*pair, task) for pair, task in zip(taken, tasks, strict=True)]
    transitions.take(connection, _steps(owner, stage, pairs))
    faults = {row.id: task for row, _, task in pairs if isinstance(task, Inapplicable | Failed)}
    if faults:
        rows = transitions.locked(connection, among(connection, tables.jobs.c.id, faults))
        transitions.take(connection, [Step(row, faults[row.id]) for row in rows])
    return [
        (Claim(row.id, row.attempt + 1, stage, want.machine, want.slot, want.gpu), task)
        for row, want, task in pairs
        if isinstance(task, Task)
    ]


def _steps(
    owner: str, stage: Stage, pairs: Sequence[tuple[JobRow, Want, Task | Fault]]
) -> list[Step]:
    # Once any of them is seen for the first time, all get their device's record: one statement.
    describing = stage is Stage.BUILD and any(row.undescribed for row, _, _ in pairs)
    steps = []
    for row, want, task in pairs:
        if isinstance(task, ArtifactLost):  # noticed before anybody had it
            steps.append(Step(row, task))
            continue
        gpu = "" if stage is Stage.BUILD else (want.gpu or want.slot)[:LONGEST_GPU]
        changes: dict[str, Any] = {"attempt": row.attempt + 1}
        if stage is Stage.BUILD:
            changes["build_machine"] = want.machine
        else:
            changes |= {"eval_machine": want.machine, "gpu": gpu}
        if describing:
            changes["device_record"] = _record(row, task)
        steps.append(Step(row, Claimed(), want.machine, gpu, owner, changes))
    return steps


def _record(row: JobRow, task: Task | Fault) -> str | None:
    if row.record is None and isinstance(task, Task) and not task.plan.by_miopen:
        return record_of(task.device)
    record: str | None = row.record
    return record


def holds(connection: Connection, owner: str, taken: Sequence[tuple[Claim, Task]]) -> bool:
    """Whether a claim whose commit was not acknowledged is in the database."""
    held = select(tables.jobs.c.id, tables.jobs.c.attempt).where(
        tables.jobs.c.owner == owner, tables.jobs.c.id.in_([claim.job for claim, _ in taken])
    )
    found = {(row.id, row.attempt) for row in connection.execute(held)}
    return any((claim.job, claim.attempt) in found for claim, _ in taken)
