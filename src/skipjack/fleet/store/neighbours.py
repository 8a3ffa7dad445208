"""Who else is there: other coordinators, and people whose labels a stop would touch."""

from __future__ import annotations

from sqlalchemy import Connection, func, or_, select

from skipjack.fleet.states import State
from skipjack.fleet.store import clock, tables
from skipjack.fleet.store.architectures import devices_of_arch

_GOING = [str(state) for state in State if state.going]


def others(connection: Connection, owner: str) -> int:
    """How many coordinators besides this one are alive."""
    owners = tables.owners.c
    alive = select(func.count()).where(owners.id != owner, owners.expires > clock.now())
    return int(connection.execute(alive).scalar_one())


def touched(
    connection: Connection,
    *,
    label: str | None = None,
    device: str | None = None,
    machine: str | None = None,
    arch: str | None = None,
) -> list[tuple[str, str]]:
    """Labels with jobs under way that stopping this one would touch, and their owners."""
    jobs, labels, machines = tables.jobs.c, tables.labels.c, tables.machines.c
    query = (
        select(labels.name, labels.owner)
        .distinct()
        .select_from(tables.jobs.join(tables.labels, jobs.label == labels.id))
        .where(jobs.state.in_(_GOING))
        .order_by(labels.name)
    )
    if label is not None:
        query = select(labels.name, labels.owner).where(labels.name == label)
    if device is not None:
        query = query.where(jobs.device == device)
    if arch is not None:
        query = query.where(jobs.device.in_(devices_of_arch(connection, arch)))
    if machine is not None:
        here = select(machines.id).where(machines.name == machine).scalar_subquery()
        query = query.where(
            jobs.owner.is_not(None), or_(jobs.build_machine == here, jobs.eval_machine == here)
        )
    return [(str(row.name), str(row.owner)) for row in connection.execute(query)]
