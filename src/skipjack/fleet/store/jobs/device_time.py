"""Device time: what the jobs of a label have used, its budget, and what decides how it is spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, case, func, select, update

from skipjack.fleet.model import (
    MIOPEN,
    Continued,
    DeviceTime,
    JobKind,
    JobProgress,
    JobStage,
    JobState,
    LabelBudget,
    SliceRecord,
    expected_verdict,
    rate_of_searches,
)
from skipjack.fleet.store.catalog.labels import id_of
from skipjack.fleet.store.jobs import transitions
from skipjack.fleet.store.jobs.transitions import Transition
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql.statements import among

_TUNE = str(JobKind.TUNE)
_RECENT = 500
"""Evaluated jobs of other labels that the expected gain is estimated from."""


def set_budget(connection: Connection, label: str, seconds: float) -> int:
    """Limit the device-seconds of a label's tuning jobs; returns the number of these jobs."""
    label_id, job, of = id_of(connection, label), tables.jobs.c, tables.labels
    mine = select(func.count()).where(job.label == label_id, job.kind == _TUNE)
    count = int(connection.execute(mine).scalar_one())
    if count:
        connection.execute(update(of).where(of.c.id == label_id).values(device_seconds=seconds))
    return count


def device_time(connection: Connection, label: str) -> DeviceTime:
    """The device time of a label's tuning jobs, and the time per call that they have won."""
    job, of = tables.jobs.c, tables.labels.c
    label_id = id_of(connection, label)
    budget = connection.execute(select(of.device_seconds).where(of.id == label_id)).scalar_one()
    calls = func.coalesce(job.calls, 1.0)
    won = case((job.first_ns > job.best_ns, (job.first_ns - job.best_ns) * calls), else_=0.0)
    used, won_ns, known = connection.execute(
        select(func.sum(job.device_seconds), func.sum(won), func.count(job.calls)).where(
            job.label == label_id, job.kind == _TUNE
        )
    ).one()
    return DeviceTime(budget, float(used or 0.0), float(won_ns or 0.0), bool(known))


def left(connection: Connection, label: str) -> float:
    """The device-seconds that are left of a label's budget."""
    job, of = tables.jobs.c, tables.labels.c
    used = func.sum(job.device_seconds)
    query = select(of.device_seconds, used).join(tables.jobs, job.label == of.id)
    query = query.where(of.name == label, job.kind == _TUNE).group_by(of.id, of.device_seconds)
    row = connection.execute(query).first()
    return max(0.0, (row[0] or 0.0) - (row[1] or 0.0)) if row else 0.0


def progress(
    connection: Connection, label: str, devices: Collection[str] | None
) -> tuple[list[JobProgress], LabelBudget, dict[int, str]]:
    """What decides about the next slices: jobs that may go on or are in work, and the budget.

    `devices` are those that can be built for; None for all. The last part has the problems' keys.
    """
    label_id, job = id_of(connection, label), tables.jobs.c
    time = device_time(connection, label)
    device = tables.devices.c
    stopped = select(device.name).where(device.aborted.is_(True))
    columns = (job.id, job.state, job.epoch, job.trials, job.budget, job.first_ns, job.priority)
    rows = connection.execute(
        select(
            *columns,
            job.calls,
            job.device,
            job.failures,
            job.losses,
            job.trial_limit,
            job.driver,
            tables.problems.c.key,
        )
        .join(tables.problems, tables.problems.c.id == job.problem)
        .where(job.label == label_id, job.kind == _TUNE, job.device.not_in(stopped))
    ).all()
    slices, verdicts = _slices(connection, label_id)
    found, keys = [], {}
    for row in rows:
        state = JobState(row.state)
        ended = state is JobState.EVALUATED and (row.trial_limit or row.budget) < row.budget
        waiting = ended or state is JobState.NEW
        if not (waiting or state.claimed or state is JobState.BUILT):
            continue
        able = devices is None or row.device in devices or row.driver == MIOPEN
        if waiting and not able:
            continue
        keys[row.id] = row.key
        found.append(
            JobProgress(
                row.id,
                tuple(slices.get((row.id, row.epoch), ())),
                row.first_ns,
                row.budget,
                row.trials,
                1.0 if row.calls is None else row.calls,
                row.priority,
                row.failures + row.losses,
                waiting=waiting,
                evaluating=state is JobState.EVALUATING,
                ended=ended,
                device=row.device,
            )
        )
    return found, LabelBudget(time.budget_s or 0.0, time.used_s, expected_verdict(verdicts)), keys


def _slices(
    connection: Connection, label: int
) -> tuple[dict[tuple[int, int], list[SliceRecord]], list[float]]:
    """The evaluated rounds by job and epoch, and the durations of verdicts in slices.

    A verdict has a round of its own, or is part of the last one.
    """
    done, job = tables.rounds.c, tables.jobs.c
    last = and_(job.state == str(JobState.EVALUATED), job.round == done.round)
    rows = connection.execute(
        select(
            *(done.job, done.epoch, done.stage, done.trials, done.best_ns, done.device_seconds),
            case((last, 1), else_=0),
        )
        .join(tables.jobs, job.id == done.job)
        .where(job.label == label, job.kind == _TUNE, job.epoch == done.epoch)
        .order_by(done.job, done.epoch, done.round, done.stage)
    )
    trials: dict[tuple[int, int], int] = defaultdict(int)
    slices: dict[tuple[int, int], list[SliceRecord]] = defaultdict(list)
    verdicts: list[float] = []
    for id, epoch, stage, count, best_ns, seconds, is_last in rows:
        key = id, epoch
        trials[key] += count
        if stage != JobStage.EVALUATE:
            continue
        before = [one.seconds for one in slices[key]]
        mean_s = sum(before) / len(before) if before else 0.0
        if mean_s and (is_last or not count):
            verdicts.append(max(0.0, seconds - (mean_s if count else 0.0)) / mean_s)
            seconds = mean_s
        if count:
            slices[key].append(SliceRecord(trials[key], best_ns, seconds))
    return slices, verdicts


def usual_rate(connection: Connection, label: str) -> float | None:
    """How fast the searches of other labels for the same operations gained; None if unknown."""
    job, problem = tables.jobs.c, tables.problems.c
    label_id = id_of(connection, label)
    mine = select(problem.operation).join(tables.jobs, job.problem == problem.id)
    gained = (
        select(job.first_ns, job.best_ns, job.trials, job.budget)
        .join(tables.problems, problem.id == job.problem)
        .where(job.label != label_id, job.kind == _TUNE, job.state == str(JobState.EVALUATED))
        .where(job.first_ns.is_not(None), job.best_ns.is_not(None))
        .where(problem.operation.in_(mine.where(job.label == label_id).distinct()))
        .order_by(job.updated.desc())
        .limit(_RECENT)
    )
    return rate_of_searches([(row[0], row[1], row[2]) for row in connection.execute(gained)])


def begin(connection: Connection, slices: Sequence[int], verdicts: Sequence[int]) -> None:
    """Prepare jobs for a further round, or for their verdict.

    Jobs that ended early continue; others that are in work by now stay as they are.
    """
    job = tables.jobs
    ids = [*slices, *verdicts]
    if not ids:
        return
    rows = transitions.locked(connection, among(connection, job.c.id, ids))
    wanted = set(slices)
    again = [row for row in rows if row.id in wanted and row.state == JobState.EVALUATED]
    transitions.apply(
        connection, [Transition(row, Continued(), changes={"trial_limit": None}) for row in again]
    )
    for row in rows:
        if row.state != JobState.NEW:
            continue
        limit = None if row.id in wanted else max(1, row.trials)
        if row.trial_limit != limit:
            mine = update(job).where(job.c.id == row.id)
            connection.execute(mine.values(trial_limit=limit))


def ending(connection: Connection, label: str) -> list[int]:
    """Jobs of a label that are built for their verdict."""
    job = tables.jobs.c
    query = select(job.id).where(job.label == id_of(connection, label), job.kind == _TUNE)
    built = query.where(job.state == str(JobState.BUILT), job.trial_limit.is_not(None))
    return [int(id) for id in connection.execute(built).scalars()]
