"""The SQL of a claim.

A claim is one transaction of three statements, and further ones where jobs have been worked on
before:

1. `gate` locks the owner and the machines and finds the label; `meant`, for evaluators of a label,
   finds the devices that it is for;
2. `next_jobs` finds the jobs and locks them, passing over those that another claim has locked;
3. `supplies` reads what earlier rounds of these jobs stored, if there are any;
4. `transitions.take` writes the jobs' new state and owner, and a line of each job's story: one
   statement where the database can do both at once, else two.

What does not depend on the answer to another is sent with it where the database can do that: then a
claim waits for 1, 2 and 3, and for 4 together with its COMMIT.

``docs/fleet-store.md`` shows the text that each database is sent for a claim of one job, and
``tests/fleet/store/test_claim_sql.py`` compares it with what is sent.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, exists, func, select

from skipjack.fleet.records import MIOPEN, JobKind
from skipjack.fleet.states import Stage
from skipjack.fleet.store.jobs import transitions
from skipjack.fleet.store.machines import devices, machines
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.dialect import Dialect

_PLAN = ("device", "solver", "searcher", "seed", "budget", "round_size", "kind", "driver")
_READ = (*_PLAN, "build_machine", "eval_machine", "gpu")
"""Of a job that is claimed, beside where it stands."""


@cache
def gate(dialect: Dialect, labelled: bool) -> Select[Any]:
    """Machines that may work, if the owner is there; with each, what is known of the label.

    That is ``unbound``, whether a device that jobs name stands for no real one yet, and for one
    label its id as ``label`` and whether it is ``stopped``. Owner and machines are locked, so that
    they are not swept or stopped before the claim is written.
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
def meant(dialect: Dialect) -> Select[Any]:
    """The class of each device that a label is for: evaluators get jobs of their very device."""
    of, batch = tables.label_devices.c, tables.labels.c
    ours = select(batch.id).where(batch.name == bindparam("label"))
    return select(of.device, of.class_key).where(of.label == ours.scalar_subquery())


@cache
def next_jobs(
    dialect: Dialect, stage: Stage, kind: JobKind | None, given: tuple[str, ...]
) -> Select[Any]:
    """Jobs that wait for the stage, the most urgent first, passing over those that others lock.

    `given` names the conditions, which are the parameters: ``label``, ``only`` (names of devices),
    ``devices`` and ``classes`` (what the workers have), ``taken`` (jobs to leave out); ``most`` is
    the limit.
    """
    job, device = tables.jobs.c, tables.devices.c
    stopped = select(device.name).where(device.aborted.is_(True))
    problem = select(tables.problems.c.key).where(tables.problems.c.id == job.problem)
    real = devices.real_record()
    query = (
        transitions.reading(*_READ)
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
        query = query.where(able | (job.driver == MIOPEN) if stage is Stage.BUILD else able)
    if "classes" in given:
        of = tables.label_devices.c
        mine = (of.label == job.label, of.device == job.device)
        query = query.where(exists().where(*mine, dialect.listed(of.class_key, "classes")))
    if "taken" in given:
        query = query.where(~dialect.listed(job.id, "taken"))
    return query.limit(bindparam("most")).with_for_update(skip_locked=True)
