"""Sums over the jobs of each label."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from skipjack.fleet.store.schema import tables


@dataclass(frozen=True, slots=True)
class LabelTotals:
    """Sums over the jobs of a label."""

    label: str
    device_seconds: float
    """Of all evaluations, also of earlier epochs."""
    trials: int
    """Of the present epochs."""
    failed_trials: int


def label_totals(connection: Connection) -> list[LabelTotals]:
    """The sums of all labels with jobs, by name."""
    job, label = tables.jobs.c, tables.labels.c
    sums = (func.sum(job.device_seconds), func.sum(job.trials), func.sum(job.failed_trials))
    query = (
        select(label.name, *sums)
        .select_from(tables.jobs.join(tables.labels, job.label == label.id))
        .group_by(label.name)
        .order_by(label.name)
    )
    return [
        LabelTotals(name, float(seconds), int(trials), int(failed))
        for name, seconds, trials, failed in connection.execute(query)
    ]
