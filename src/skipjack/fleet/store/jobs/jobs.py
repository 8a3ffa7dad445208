"""Jobs: how they are added, and what users, releases and the bank read of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, or_, select

from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.fleet.model import Job, JobKind, JobPlan, JobState, Label
from skipjack.fleet.store.catalog import devices
from skipjack.fleet.store.catalog.devices import stopped_from_the_start
from skipjack.fleet.store.catalog.labels import add_label, id_of, unknown_name
from skipjack.fleet.store.jobs.problems import calls_of, digest_of, ids_of
from skipjack.fleet.store.jobs.transitions import JobRow, job_status
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock, statements
from skipjack.fleet.store.sql.clock import iso_time
from skipjack.fleet.store.sql.column_types import parse_stored

# Jobs: adding them, listing them, and reading their results.

_JOBS_PER_PAGE = 100
"""Jobs whose facts are in memory at the same time."""
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AddedJobs:
    """The result of adding jobs."""

    added: int = 0
    known: int = 0
    """Jobs that the label had already; they are unchanged."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """An evaluated job with its facts, in order."""

    job: Job
    facts: list[str]


def add_jobs(
    connection: Connection,
    label: Label,
    plans: Iterable[JobPlan],
    *,
    priority: int = 0,
    epoch: int = 0,
    chosen: Mapping[str, Device] | None = None,
    tag: str | None = None,
) -> AddedJobs:
    """Add the jobs that the label does not have yet; the label is created if necessary.

    `chosen` has the real device of names that several devices have. A job with an `epoch` above 0
    counts as one that was started over. Numbers of calls are those of the `tag`, or of all tags.
    """
    label_id = add_label(connection, label)
    now = clock.read(connection)
    added = known = 0
    for chunk in statements.chunks(plans):
        ids = _problem_ids(connection, chunk)
        names = sorted({plan.device for plan in chunk})
        stopped = stopped_from_the_start(connection, names)
        fresh = [{"name": name, "created": now, "aborted": stopped[name]} for name in names]
        statements.insert_new(connection, tables.devices, fresh)
        devices.bind(connection, label_id, names, chosen or {})
        fixed = {"label": label_id, "priority": priority, "created": now, "updated": now}
        fixed["epoch"] = epoch
        calls = calls_of(connection, ids.values(), tag)
        rows = [
            {
                **_plan_row(plan, ids[plan.problem]),
                **fixed,
                "calls": calls.get(ids[plan.problem]),
            }
            for plan in chunk
        ]
        new = statements.insert_new(connection, tables.jobs, rows)
        added += new
        known += len(chunk) - new
    return AddedJobs(added, known)


def _problem_ids(connection: Connection, plans: Sequence[JobPlan]) -> dict[str, int]:
    digests = {plan.problem: digest_of(plan.problem) for plan in plans}
    found = ids_of(connection, digests.values())
    missing = sorted(key for key, digest in digests.items() if digest not in found)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(f"the store does not know {missing[0]}{more}; import it first")
    return {key: found[digest] for key, digest in digests.items()}


def _plan_row(plan: JobPlan, problem: int) -> dict[str, Any]:
    for what, number in (("budget", plan.budget), ("round", plan.round)):
        if not 0 < number <= _LARGEST:
            raise UsageError(f"the {what} of a job is {number}; give a number from 1 to {_LARGEST}")
    if not 0 <= plan.seed <= _LARGEST:
        raise UsageError(f"the seed of a job is {plan.seed}; give a number from 0 to {_LARGEST}")
    return {
        "problem": problem,
        "device": plan.device,
        "solver": plan.solver,
        "searcher": plan.searcher,
        "seed": plan.seed,
        "budget": plan.budget,
        "round_size": plan.round,
        "kind": str(plan.kind),
        "driver": plan.driver,
        "reason": "",
    }


def plans_of(connection: Connection, label: str) -> list[JobPlan]:
    """The plans of the label's jobs, to copy them to another label."""
    columns = tables.jobs.c
    found = connection.execute(
        select(tables.jobs, tables.problems.c.key.label("problem_key"))
        .join(tables.problems, tables.problems.c.id == columns.problem)
        .where(columns.label == id_of(connection, label))
        .order_by(columns.id)
    )
    return [plan_of(row, row.problem_key) for row in found]


def stale(
    connection: Connection, device: Device, toolchain: str, problem_ids: Iterable[int]
) -> set[int]:
    """Problems that were never evaluated on such a device, or only with another toolchain."""
    job, of = tables.jobs.c, tables.label_devices.c
    alike = select(of.label).where(of.device == device.name, of.class_key == device.class_key)
    here = and_(job.device == device.name, job.label.in_(alike))
    today = and_(job.state == JobState.EVALUATED, job.toolchain == toolchain, here)
    found = select(job.problem).distinct().where(today, job.kind == str(JobKind.TUNE))
    return set(problem_ids).difference(connection.execute(found).scalars())


def job(connection: Connection, id: int) -> Job:
    """The job with this number; `UsageError` if there is none."""
    possible = 0 < id < 2**63  # drivers refuse larger numbers
    row = connection.execute(_jobs().where(tables.jobs.c.id == id)).first() if possible else None
    if row is None:
        raise UsageError(f"there is no job {id}; skipjack status lists the jobs")
    return _job(row, devices.names_by_class(connection))


def jobs(
    connection: Connection,
    *,
    label: str | None = None,
    state: JobState | None = None,
    device: str | None = None,
    limit: int | None = None,
) -> list[Job]:
    """The jobs that match, by number."""
    query = _jobs().order_by(tables.jobs.c.id).limit(limit)
    if label is not None:
        query = query.where(tables.jobs.c.label == id_of(connection, label))
    if state is not None:
        query = query.where(tables.jobs.c.state == state)
    if device is not None:
        check_device(connection, device)
        query = query.where(tables.jobs.c.device == device)
    names = devices.names_by_class(connection)
    return [_job(row, names) for row in connection.execute(query)]


def check_device(connection: Connection, device: str) -> None:
    """`UsageError` with similar names if no job or machine ever had this device."""
    name = tables.devices.c.name
    known = connection.execute(select(name)).scalars().all()
    if device not in known:
        raise unknown_name("device", device, known, "load jobs for one with skipjack load --device")


def results(connection: Connection, label: str) -> Iterator[JobResult]:
    """The label's evaluated jobs with the facts of their current epoch, by number."""
    known = tables.jobs.c
    mine = and_(known.label == id_of(connection, label), known.state == JobState.EVALUATED)
    last, names = 0, devices.names_by_class(connection)
    while True:
        page = _jobs().where(mine, known.id > last).order_by(known.id).limit(_JOBS_PER_PAGE)
        found = [_job(row, names) for row in connection.execute(page)]
        if not found:
            return
        facts = _facts(connection, found)
        yield from (JobResult(one, facts.get(one.id, [])) for one in found)
        last = found[-1].id


def _facts(connection: Connection, found: Sequence[Job]) -> Mapping[int, list[str]]:
    # Few programs read facts, and the ledger is slow to load.
    from skipjack.fleet.store.jobs import facts

    done = tables.rounds.c
    # In alphabetical order, a build precedes its evaluation.
    query = (
        select(done.job, done.round, done.stage, done.ledger_rows)
        .join(tables.jobs, and_(tables.jobs.c.id == done.job, tables.jobs.c.epoch == done.epoch))
        .where(done.job.in_([one.id for one in found]))
        .order_by(done.job, done.round, done.stage)
    )
    rounds = [(row[0], row[1], row[2], row[3]) for row in connection.execute(query)]
    known = facts.texts(connection, rounds)
    texts: dict[int, list[str]] = {}
    for id, number, stage, _ in rounds:
        if text := known.get((id, number, stage)):
            texts.setdefault(id, []).append(text)
    return texts


def _jobs() -> Select[Any]:
    builder, evaluator = tables.machines.alias("builder"), tables.machines.alias("evaluator")
    job, of = tables.jobs.c, tables.label_devices.c
    return (
        select(
            tables.jobs,
            of.class_key,
            tables.problems.c.key.label("problem_key"),
            tables.labels.c.name.label("label_name"),
            builder.c.name.label("builder_name"),
            evaluator.c.name.label("evaluator_name"),
        )
        .join(tables.problems, tables.problems.c.id == tables.jobs.c.problem)
        .join(tables.labels, tables.labels.c.id == tables.jobs.c.label)
        .outerjoin(tables.label_devices, (of.label == job.label) & (of.device == job.device))
        .outerjoin(builder, builder.c.id == tables.jobs.c.build_machine)
        .outerjoin(evaluator, evaluator.c.id == tables.jobs.c.eval_machine)
    )


def _job(row: JobRow, names: Mapping[str, str]) -> Job:
    return Job(
        id=row.id,
        label=row.label_name,
        plan=plan_of(row, row.problem_key),
        status=job_status(row),
        priority=row.priority,
        attempt=row.attempt,
        trials=row.trials,
        failed_trials=row.failed_trials,
        best_ns=row.best_ns,
        result=parse_stored(row.result) if row.result else None,
        build_machine=row.builder_name or "",
        eval_machine=row.evaluator_name or "",
        gpu=row.gpu,
        created=iso_time(row.created),
        updated=iso_time(row.updated),
        device_class=row.class_key or "",
        device_text=names.get(row.class_key, row.device),
    )


def plan_of(row: JobRow, problem: str) -> JobPlan:
    """The plan of a job, given the key of its problem."""
    return JobPlan(
        problem=problem,
        device=row.device,
        solver=row.solver,
        searcher=row.searcher,
        seed=row.seed,
        budget=row.budget,
        round=row.round_size,
        kind=JobKind(row.kind),
        driver=row.driver,
    )


# Verdicts of a label's evaluated jobs without their facts, which is fast to read.

_PAGE = 500


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The verdict of a job."""

    job: int
    problem: str
    device: str
    solver: str
    """The solver in the job's plan: ``auto`` or a name."""
    result: Mapping[str, Any]
    toolchain: str
    updated: str
    built_for: str = ""
    """JSON of the device that its code was built for."""
    kind: JobKind = JobKind.TUNE
    driver: str = ""


def verdicts(connection: Connection, label: str, device: str | None = None) -> Iterator[JobVerdict]:
    """The verdicts of the label's evaluated jobs, grouped by problem, older jobs first."""
    job, problem = tables.jobs.c, tables.problems.c
    wanted = [job.label == id_of(connection, label), job.state == JobState.EVALUATED]
    if device is not None:
        check_device(connection, device)
        wanted.append(job.device == device)
    columns = (job.id, job.problem, problem.key, job.device, job.solver, job.result)
    query = (
        select(*columns, job.toolchain, job.updated, job.device_record, job.kind, job.driver)
        .join(tables.problems, problem.id == job.problem)
        .where(*wanted)
        .order_by(job.problem, job.id)
        .limit(_PAGE)
    )
    at = (0, 0)
    while True:
        beyond = or_(job.problem > at[0], and_(job.problem == at[0], job.id > at[1]))
        page = connection.execute(query.where(beyond)).all()
        for row in page:
            yield JobVerdict(
                row.id,
                row.key,
                row.device,
                row.solver,
                parse_stored(row.result),
                row.toolchain,
                iso_time(row.updated),
                row.device_record or "",
                JobKind(row.kind),
                row.driver,
            )
        if len(page) < _PAGE:
            return
        at = (page[-1].problem, page[-1].id)
