"""What machines and devices do now."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from skipjack.fleet.model import JobState
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock

_job, _machine = tables.jobs.c, tables.machines.c


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The work of a machine now, and when it was last seen."""

    name: str
    seen: float
    """Seconds since 1970, by the database's clock."""
    building: int
    evaluating: int
    slots: tuple[str, ...]
    """GPUs or cores that evaluate."""
    now: float


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The jobs of a device, by its name."""

    name: str
    stopped: bool
    """Whether it is aborted."""
    classes: tuple[str, ...]
    """The keys of its classes that were seen."""
    jobs: dict[str, int]
    """By state."""


def machines(connection: Connection) -> list[MachineUse]:
    """All machines that were ever seen, by name."""
    now = clock.read(connection)
    building = _working(connection, JobState.BUILDING, _job.build_machine)
    evaluating = _working(connection, JobState.EVALUATING, _job.eval_machine)
    rows = connection.execute(
        select(_machine.id, _machine.name, _machine.seen).order_by(_machine.name)
    )
    return [
        MachineUse(
            row.name,
            row.seen,
            len(building[row.id]),
            len(evaluating[row.id]),
            tuple(sorted({gpu for gpu in evaluating[row.id] if gpu})),
            now,
        )
        for row in rows
    ]


def _working(connection: Connection, state: JobState, machine: Any) -> dict[int, list[str]]:
    """The slots of the jobs in a state, by machine."""
    found: dict[int, list[str]] = defaultdict(list)
    query = select(machine, _job.gpu).where(_job.state == str(state))
    for id, gpu in connection.execute(query):
        found[id].append(gpu)
    return found


def devices(connection: Connection) -> list[DeviceUse]:
    """All devices that jobs are for or that were seen, by name."""
    jobs: dict[str, dict[str, int]] = defaultdict(dict)
    counted = select(_job.device, _job.state, func.count()).group_by(_job.device, _job.state)
    for name, state, count in connection.execute(counted):
        jobs[name][state] = count
    classes: dict[str, list[str]] = defaultdict(list)
    known = tables.device_classes.c
    for name, key in connection.execute(
        select(known.device, known.class_key).order_by(known.class_key)
    ):
        classes[name].append(key)
    device = tables.devices.c
    rows = connection.execute(select(device.name, device.aborted).order_by(device.name))
    return [
        DeviceUse(row.name, bool(row.aborted), tuple(classes[row.name]), jobs[row.name])
        for row in rows
    ]
