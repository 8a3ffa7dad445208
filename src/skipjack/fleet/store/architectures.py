"""All devices of an architecture at once, whatever their units, those still to come too."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, select, update

from skipjack.core.device import arch_of
from skipjack.fleet.store import clock, tables
from skipjack.fleet.store.bulk import insert_new
from skipjack.fleet.store.near import unknown

_table = tables.stopped_architectures


def devices_of_arch(connection: Connection, arch: str) -> list[str]:
    """Devices of this architecture that jobs are for, or that were seen."""
    names = connection.execute(select(tables.devices.c.name).order_by(tables.devices.c.name))
    return [name for name in names.scalars() if arch_of(name) == arch]


def must_be_known(connection: Connection, arch: str) -> None:
    """`UsageError` with near ones if no job, machine or stop has to do with it."""
    columns = (tables.devices.c.name, tables.registrations.c.device, _table.c.name)
    found = {name for column in columns for name in connection.execute(select(column)).scalars()}
    known = {arch_of(name) for name in found if name}
    if arch not in known:
        raise unknown("architecture", arch, known, "load jobs for it first")


def flag(connection: Connection, arch: str, *, aborted: bool) -> list[str]:
    """Stop an architecture or let it go on; its devices so far, which do likewise."""
    if aborted:
        insert_new(connection, _table, [{"name": arch, "created": clock.read(connection)}])
    else:
        connection.execute(delete(_table).where(_table.c.name == arch))
    names = devices_of_arch(connection, arch)
    device = tables.devices
    connection.execute(update(device).where(device.c.name.in_(names)).values(aborted=aborted))
    return names


def stopped_architectures(connection: Connection) -> list[str]:
    """Those whose devices get no jobs until they are resumed."""
    return [*connection.execute(select(_table.c.name).order_by(_table.c.name)).scalars()]


def stopped_from_the_start(connection: Connection, devices: Iterable[str]) -> dict[str, bool]:
    """For each device, whether it is aborted as soon as it turns up."""
    stopped = set(stopped_architectures(connection))
    return {name: arch_of(name) in stopped for name in devices}
