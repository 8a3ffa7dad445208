"""Machines: which of them can work, and which are aborted, quarantined or paused.

A worker that reports a failure, such as a full disk, names a problem that the user has to solve:
after several failures the machine is quarantined. Lost workers, for example after a lack of memory,
may succeed later: the machine is paused, longer each time, until one of its jobs is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, or_, select, update

from skipjack.errors import UsageError
from skipjack.fleet.model import Built, Event, Failed, Host, Lost, Machine, Told
from skipjack.fleet.store.catalog import devices, labels, registrations
from skipjack.fleet.store.catalog.devices import stopped_from_the_start
from skipjack.fleet.store.catalog.labels import unknown_name
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.clock import iso_time
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.statements import among, insert_new

MOST_FAILURES = 5
"""Failures in a row, of any jobs, after which a machine is quarantined."""
MOST_LOSSES = 5
"""Losses in a row, of any jobs, after which a machine is paused."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 300.0
_LONGEST_WHY = 255


def register(connection: Connection, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
    """Register a machine as it was just detected, with its devices.

    If it does not evaluate, its devices are not available for jobs.
    """
    why = registrations.why_disabled(connection, host.name)
    aborted = registrations.is_aborted(connection, host.name)
    now = clock.read(connection)
    _see_devices(connection, host, now)
    names = json.dumps(list(dict.fromkeys(device.name for device in host.devices)))
    found: dict[str, object] = {
        "engine": engine,
        "cores": host.cores,
        "memory_bytes": host.memory_bytes,
        "devices": names,
        "seen": now,
    }
    if evaluates:
        found["classes"] = json.dumps(sorted({device.class_key for device in host.devices}))
    table = tables.machines
    fresh = {"name": host.name, "set_aside": "", "aborted": aborted}
    insert_new(connection, table, [{**fresh, **found}])
    here = table.c.name == host.name
    before = connection.execute(select(table.c.classes).where(here).with_for_update()).scalar()
    if why:
        connection.execute(update(table).where(here, table.c.set_aside == "").values(set_aside=why))
    connection.execute(update(table).where(here).values(found))
    if evaluates:
        _replace_classes(connection, host, parse_stored(before or "[]"))
    return _machine(connection.execute(_reading().where(here)).mappings().one())


def seen(connection: Connection, names: Sequence[str]) -> list[Machine]:
    """Note that registered machines are unchanged; returns their current records."""
    table = tables.machines
    there = among(connection, table.c.name, names)
    # In the order of their ids, as everywhere.
    connection.execute(select(table.c.id).where(there).order_by(table.c.id).with_for_update())
    connection.execute(update(table).where(there).values(seen=clock.now()))
    return [_machine(row) for row in connection.execute(_reading().where(there)).mappings()]


def machines(connection: Connection) -> list[Machine]:
    """All machines that were ever seen, by name."""
    rows = connection.execute(_reading().order_by(tables.machines.c.name)).mappings()
    return [_machine(row) for row in rows]


def devices_at(connection: Connection, name: str, label: str) -> tuple[str, ...]:
    """Devices of a machine that jobs of a label are for; `UsageError` if there are none.

    For a machine that never worked, this is the device of its registration.
    """
    machine, job, of = tables.machines.c, tables.jobs.c, tables.label_devices.c
    row = connection.execute(select(tables.machines).where(machine.name == name)).first()
    if row is None:
        registered = registrations.registrations(connection)
        its = [one.device for one in registered if one.name == name]
        if not its:
            known = {
                *(one.name for one in registered),
                *connection.execute(select(machine.name)).scalars(),
            }
            raise unknown_name("machine", name, known, "register one with skipjack machine add")
        classes = None
    else:
        its, classes = parse_stored(row.devices), row.classes
    bound = (of.label == job.label) & (of.device == job.device)
    mine = (
        select(job.device, of.class_key)
        .outerjoin(tables.label_devices, bound)
        .where(job.label == labels.id_of(connection, label))
        .distinct()
    )
    there = {str(row.device): row.class_key for row in connection.execute(mine)}
    meant = there.values() if classes is None else (None, *parse_stored(classes))
    found = sorted(one for one in there if one in its and there[one] in meant)
    if not found:
        has = f"has {', '.join(its)}" if any(its) else "is registered without a device"
        raise UsageError(
            f"no job of {label} is for a device of {name}, which {has}; its jobs are for "
            f"{', '.join(sorted(there)) or 'no device'}"
        )
    return tuple(found)


def note(connection: Connection, events: Mapping[int, Sequence[tuple[int, Event]]]) -> None:
    """Count failures and losses of each machine: after several failures in a row it is quarantined,
    and after several losses in a row it is paused.

    Repeated failures of one job count once, and impossible jobs do not count. Simultaneous losses,
    as when a node is lost with all its workers, count once.
    """
    table = tables.machines
    concerned = select(table).where(among(connection, table.c.id, events)).order_by(table.c.id)
    for row in connection.execute(concerned.with_for_update(key_share=True)).all():
        failures, losses, last = row.failures, row.losses, row.failed_job
        failed = lost = ""
        for job, event in events[row.id]:
            if isinstance(event, Built | Told):
                failures, losses, last = 0, 0, None
            elif isinstance(event, Lost):
                losses, last, lost = losses + (job != last and not lost), job, event.reason
            elif isinstance(event, Failed) and not event.hopeless:
                failures, last, failed = failures + (job != last), job, event.reason
        changes: dict[str, object] = {"failures": failures, "losses": losses, "failed_job": last}
        if failures >= MOST_FAILURES and not row.set_aside:
            changes["set_aside"] = f"{failures} jobs in a row failed, the last: {failed}"
        if losses > row.losses and (pause_s := pause_after(losses)):
            changes["paused_until"] = clock.now() + pause_s
            why = f"pauses for {pause_s:g} s: {losses} workers in a row were lost, the last: {lost}"
            changes["paused_why"] = why[:_LONGEST_WHY]
        connection.execute(update(table).where(table.c.id == row.id).values(changes))


def pause_after(losses: int) -> float:
    """Duration of the pause of a machine that lost this many workers in a row."""
    if losses < MOST_LOSSES:
        return 0.0
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(losses - MOST_LOSSES, 16)))


def may_work_now() -> ColumnElement[bool]:
    """Condition that a machine is not paused. A pause with an impossible end is over: the clock was
    set back.
    """
    until = tables.machines.c.paused_until
    return or_(until <= clock.now(), until > clock.now() + LONGEST_PAUSE_S)


def _reading() -> Select[Any]:
    return select(tables.machines, clock.now().label("now"))


def _see_devices(connection: Connection, host: Host, now: float) -> None:
    names = sorted({device.name for device in host.devices})
    stopped = stopped_from_the_start(connection, names)
    rows = [{"name": name, "created": now, "aborted": stopped[name]} for name in names]
    insert_new(connection, tables.devices, rows)
    devices.add_devices(connection, host.devices, now)


def _replace_classes(connection: Connection, host: Host, before: Sequence[str]) -> None:
    """Bind labels that have not begun to the successors of devices that no longer exist."""
    gone = set(before) - {device.class_key for device in host.devices}
    for key in sorted(gone):
        successor = next((one for one in host.devices if devices.is_of(key, one.name)), None)
        if successor and not devices.any_machine_has(connection, key):
            devices.rebind(connection, key, successor)


def _pause_s(left_s: float) -> float:
    return left_s if 0.0 < left_s <= LONGEST_PAUSE_S else 0.0


def _machine(row: RowMapping) -> Machine:
    return Machine(
        row["id"],
        row["name"],
        row["engine"],
        row["cores"],
        row["memory_bytes"],
        tuple(parse_stored(row["devices"])),
        bool(row["aborted"]),
        row["set_aside"],
        row["failures"],
        iso_time(row["seen"]),
        row["losses"],
        _pause_s(row["paused_until"] - row["now"]),
        row["paused_why"],
    )
