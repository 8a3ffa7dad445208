"""Claims: many jobs at once for one owner, with everything that their workers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, exists, func, select

from skipjack.fleet.model import (
    MIOPEN,
    ArtifactLost,
    Claim,
    Claimed,
    Failed,
    Inapplicable,
    JobKind,
    JobStage,
    Task,
    WorkRequest,
)
from skipjack.fleet.store.catalog import devices, labels, machines
from skipjack.fleet.store.catalog.devices import record_of
from skipjack.fleet.store.claims.task_inputs import Fault, task_inputs
from skipjack.fleet.store.jobs import transitions
from skipjack.fleet.store.jobs.transitions import LONGEST_GPU, JobRow, Transition
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of
from skipjack.fleet.store.sql.statements import among, found, found_together

# The SQL of a claim.
#
# A claim is one transaction of three statements, and more if jobs have had earlier rounds:
#
# 1. The gate locks the owner and the machines and finds the label; for evaluators of a label, a
#    second query finds the devices that the label is for.
# 2. The jobs are found and locked, skipping those that another claim has locked.
# 3. The results of earlier rounds of these jobs are read, if there are any.
# 4. The new state and owner of the jobs are written, and an event of each job's history: in one
#    statement if the database can do both at once, else in two.
#
# Independent statements are sent together if the database supports that: then a claim waits for 1,
# 2 and 3, and for 4 together with its COMMIT.
#
# ``docs/fleet-store.md`` shows the text that each database is sent for a claim of one job, and
# ``tests/fleet/store/test_claim_sql.py`` compares it with what is sent.

_PLAN = (
    *("device", "solver", "searcher", "seed", "budget", "round_size", "kind", "driver"),
    "trial_limit",
)
_READ = (*_PLAN, "build_machine", "eval_machine", "gpu")
"""Columns of a claimed job that are read in addition to its status."""


@cache
def gate_query(dialect: Dialect, labelled: bool) -> Select[Any]:
    """Machines that may work, if the owner exists, each with columns about the label.

    ``unbound`` is whether a device name of the jobs has no real device yet; for one label,
    ``label`` is its id and ``stopped`` whether it is aborted. Owner and machines are locked, so
    that they are not swept or aborted before the claim is written.
    """
    machine, batch, of = tables.machines.c, tables.labels.c, tables.label_devices.c
    named = batch.name == bindparam("label")
    unbound = exists().where(of.class_key.is_(None))
    if labelled:
        unbound = unbound.where(of.label == select(batch.id).where(named).scalar_subquery())
    gate = (
        select(machine.id, unbound.label("unbound"))
        .join(tables.owners, tables.owners.c.id == bindparam("owner"))
        .where(dialect.listed(machine.id, "machines"))
        .where(machine.aborted.is_(False), machine.set_aside == "", machines.may_work_now())
        .order_by(machine.id)
    )
    if labelled:
        gate = gate.add_columns(
            select(batch.id).where(named).scalar_subquery().label("label"),
            select(batch.aborted).where(named).scalar_subquery().label("stopped"),
        )
    return gate.with_for_update(read=True)


@cache
def label_devices_query(dialect: Dialect) -> Select[Any]:
    """The class of each device of a label: evaluators get jobs for exactly their device."""
    of, batch = tables.label_devices.c, tables.labels.c
    ours = select(batch.id).where(batch.name == bindparam("label"))
    return select(of.device, of.class_key).where(of.label == ours.scalar_subquery())


@cache
def next_jobs_query(
    dialect: Dialect, stage: JobStage, kind: JobKind | None, given: tuple[str, ...]
) -> Select[Any]:
    """Jobs that wait for the stage, the most urgent first, skipping those that others have locked.

    `given` names the conditions, which are also parameters: ``label``, ``only`` (names of devices),
    ``devices`` and ``classes`` (what the workers support), ``chosen`` (the only jobs to take),
    ``taken`` (jobs to leave out). ``most`` is the limit.
    """
    job, device = tables.jobs.c, tables.devices.c
    stopped = select(device.name).where(device.aborted.is_(True))
    problem = select(tables.problems.c.key).where(tables.problems.c.id == job.problem)
    real = devices.real_record()
    query = (
        transitions.select_jobs(*_READ)
        .add_columns(
            problem.scalar_subquery().label("key"),
            func.coalesce(job.device_record, real).label("record"),
            real.label("real"),
            job.device_record.is_(None).label("undescribed"),
        )
        .where(job.state == str(stage.waiting), job.device.not_in(stopped))
        .order_by(job.priority.desc(), job.failures, job.losses, job.id)
    )
    if kind is not None:
        query = query.where(job.kind == str(kind))
    if "label" in given:
        query = query.where(job.label == bindparam("label"))
        query = dialect.in_order(query, tables.jobs, "ix_jobs_waiting")
    else:
        halted = select(tables.labels.c.id).where(tables.labels.c.aborted.is_(True))
        query = query.where(job.label.not_in(halted))
    if "only" in given:
        query = query.where(dialect.listed(job.device, "only"))
    if "devices" in given:
        able = dialect.listed(job.device, "devices")
        query = query.where(able | (job.driver == MIOPEN) if stage is JobStage.BUILD else able)
    if "classes" in given:
        of = tables.label_devices.c
        mine = (of.label == job.label, of.device == job.device)
        query = query.where(exists().where(*mine, dialect.listed(of.class_key, "classes")))
    if "chosen" in given:
        query = query.where(dialect.listed(job.id, "chosen"))
    if "taken" in given:
        query = query.where(~dialect.listed(job.id, "taken"))
    return query.limit(bindparam("most")).with_for_update(skip_locked=True)


# Claims: an owner takes many jobs at once, with everything that their workers need.
#
# Coordinators that claim at the same time skip jobs that another one has locked, and never wait for
# jobs. The owner and the machines are locked, so that they are not swept or aborted meanwhile.

TIMES_AT_ONCE = 32
"""How often a claim continues if all jobs that it found ended at once: the lease is not renewed
meanwhile."""


def claim(
    connection: Connection,
    owner: str,
    stage: JobStage,
    requests: Sequence[WorkRequest],
    label: str | None = None,
    *,
    key: bytes,
    kind: JobKind | None = None,
    only: Sequence[str] = (),
    chosen: Sequence[int] | None = None,
) -> list[tuple[Claim, Task]]:
    """Jobs for these workers, the most urgent first; fewer than requested if fewer wait.

    `kind`, `only` (names of devices) and `chosen` (numbers of jobs) restrict the jobs. An owner
    whose lease was swept gets none, nor does a machine that is aborted or quarantined. A job that
    cannot be done ends here, and is not returned.
    """
    if stage is JobStage.EVALUATE:  # evaluators need a device; builders build for all
        requests = [request for request in requests if request.devices]
    admitted = _admitted(connection, owner, stage, requests, label)
    asked = {
        "label": admitted.label,
        "only": list(only) or None,
        "chosen": None if chosen is None else list(chosen),
    }
    groups = _groups(stage, admitted)
    seen: list[int] = []
    for _ in range(TIMES_AT_ONCE):
        taken = _taken(connection, stage, groups, asked, seen, kind)
        if not taken:
            return []
        seen += [row.id for row, _ in taken]
        tasks = task_inputs(connection, stage, [row for row, _ in taken], key)
        if claimed := _hand_over(connection, owner, stage, taken, tasks):
            return claimed
        # All of them ended here: their device cannot be built for, or code was lost.
    return []


def _taken(
    connection: Connection,
    stage: JobStage,
    groups: Mapping[_Capability, Sequence[WorkRequest]],
    asked: Mapping[str, Any],
    seen: Sequence[int],
    kind: JobKind | None,
) -> list[tuple[JobRow, WorkRequest]]:
    """Jobs for the requests, locked, without those seen before."""
    taken: list[tuple[JobRow, WorkRequest]] = []
    for able, group in groups.items():
        most = sum(request.count for request in group)
        passed = [*seen, *(row.id for row, _ in taken)]
        values = {**asked, "most": most, "taken": passed or None}
        values["devices"] = None if able.names is None else list(able.names)
        if asked["label"] is None:  # the devices of a label are known already
            values["classes"] = list(able.classes) or None
        rows = _waiting(connection, stage, kind, values)
        taken += zip(rows, _in_turns(group), strict=False)
    return taken


@dataclass(frozen=True, slots=True)
class _Admitted:
    """The requests of machines that may work, and the label, if one is named."""

    requests: Sequence[WorkRequest]
    label: int | None = None
    device_classes: Mapping[str, str] | None = None
    """The class of each device of the label, for evaluators."""


def _admitted(
    connection: Connection,
    owner: str,
    stage: JobStage,
    requests: Sequence[WorkRequest],
    label: str | None,
) -> _Admitted:
    """The requests that may be served, after names of devices are bound to real ones."""
    dialect = dialect_of(connection)
    values: dict[str, Any] = {
        "owner": owner,
        "machines": sorted({request.machine for request in requests}),
    }
    asked = [(gate_query(dialect, label is not None), values)]
    if label is not None:
        values["label"] = label
        if stage is JobStage.EVALUATE:
            asked.append((label_devices_query(dialect), {"label": label}))
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
    able = [request for request in requests if request.machine in allowed and request.count > 0]
    if rows[0].unbound:
        here = (one for request in able for one in request.devices)
        devices.bind_unbound(connection, here, label_id)
        classes = found_together(connection, *asked[1:])
    device_classes = {row.device: row.class_key for row in classes[0]} if classes else None
    return _Admitted(able, label_id, device_classes)


@dataclass(frozen=True, slots=True)
class _Capability:
    """What workers support: devices with these names, if they belong to one of these classes.

    None: all devices. Any builder takes jobs of MIOpen.
    """

    names: tuple[str, ...] | None
    classes: tuple[str, ...] = ()


def _groups(stage: JobStage, admitted: _Admitted) -> dict[_Capability, list[WorkRequest]]:
    """Requests grouped by what the workers support: each group is one query.

    An evaluator gets jobs of labels that are for exactly its device, and not for another one with
    the same name.
    """
    groups: dict[_Capability, list[WorkRequest]] = {}
    if stage is JobStage.BUILD:
        for request in admitted.requests:
            names = None if request.builds_for is None else tuple(sorted(set(request.builds_for)))
            groups.setdefault(_Capability(names), []).append(request)
        return groups
    device_classes = admitted.device_classes
    for request in admitted.requests:
        here = {device.class_key: device.name for device in request.devices}
        if device_classes is not None:
            here = {key: name for key, name in here.items() if device_classes.get(name) == key}
        if here:
            able = _Capability(tuple(sorted(set(here.values()))), tuple(sorted(here)))
            groups.setdefault(able, []).append(request)
    return groups


def _waiting(
    connection: Connection, stage: JobStage, kind: JobKind | None, values: Mapping[str, Any]
) -> Sequence[JobRow]:
    """Jobs that wait for the stage, locked, without those taken before."""
    given = tuple(name for name, value in values.items() if value is not None)
    statement = next_jobs_query(dialect_of(connection), stage, kind, given)
    return found(connection, statement, **{name: values[name] for name in given})


def _in_turns(group: Sequence[WorkRequest]) -> Iterator[WorkRequest]:
    """Each request as often as its count, in turns: few jobs are spread over all workers."""
    for turn in range(max(request.count for request in group)):
        yield from (request for request in group if request.count > turn)


def _hand_over(
    connection: Connection,
    owner: str,
    stage: JobStage,
    taken: Sequence[tuple[JobRow, WorkRequest]],
    tasks: Sequence[Task | Fault],
) -> list[tuple[Claim, Task]]:
    """Write the new owner of each job; jobs that cannot be done end at once."""
    pairs = [(*pair, task) for pair, task in zip(taken, tasks, strict=True)]
    transitions.apply(connection, _steps(owner, stage, pairs))
    faults = {row.id: task for row, _, task in pairs if isinstance(task, Inapplicable | Failed)}
    if faults:
        rows = transitions.locked(connection, among(connection, tables.jobs.c.id, faults))
        transitions.apply(connection, [Transition(row, faults[row.id]) for row in rows])
    return [
        (Claim(row.id, row.attempt + 1, stage, request.machine, request.slot, request.gpu), task)
        for row, request, task in pairs
        if isinstance(task, Task)
    ]


def _steps(
    owner: str, stage: JobStage, pairs: Sequence[tuple[JobRow, WorkRequest, Task | Fault]]
) -> list[Transition]:
    # If any job lacks its device's record, all of them are written with it: one statement.
    describing = stage is JobStage.BUILD and any(row.undescribed for row, _, _ in pairs)
    steps = []
    for row, request, task in pairs:
        if isinstance(task, ArtifactLost):  # noticed before it was claimed
            steps.append(Transition(row, task))
            continue
        gpu = "" if stage is JobStage.BUILD else (request.gpu or request.slot)[:LONGEST_GPU]
        changes: dict[str, Any] = {"attempt": row.attempt + 1}
        if stage is JobStage.BUILD:
            changes["build_machine"] = request.machine
        else:
            changes |= {"eval_machine": request.machine, "gpu": gpu}
        if describing:
            changes["device_record"] = _record(row, task)
        steps.append(Transition(row, Claimed(), request.machine, gpu, owner, changes))
    return steps


def _record(row: JobRow, task: Task | Fault) -> str | None:
    if row.record is None and isinstance(task, Task) and not task.plan.by_miopen:
        return record_of(task.device)
    record: str | None = row.record
    return record


def holds(connection: Connection, owner: str, taken: Sequence[tuple[Claim, Task]]) -> bool:
    """Whether a claim is in the database although its commit was not acknowledged."""
    held = select(tables.jobs.c.id, tables.jobs.c.attempt).where(
        tables.jobs.c.owner == owner, tables.jobs.c.id.in_([claim.job for claim, _ in taken])
    )
    found = {(row.id, row.attempt) for row in connection.execute(held)}
    return any((claim.job, claim.attempt) in found for claim, _ in taken)
