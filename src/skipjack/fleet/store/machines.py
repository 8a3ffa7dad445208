"""Machines: who can work, who was told to stop, and who keeps failing and is set aside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, RowMapping, func, select, update

from skipjack.fleet.engine import Host
from skipjack.fleet.records import Machine
from skipjack.fleet.states import Built, Event, Failed, Lost, Told
from skipjack.fleet.store import clock, registrations, tables
from skipjack.fleet.store.architectures import stopped_from_the_start
from skipjack.fleet.store.batches import among
from skipjack.fleet.store.bulk import insert_new
from skipjack.fleet.store.devices import record_of
from skipjack.fleet.store.moments import spelled

MOST_FAILURES = 5
"""In a row, of whatever jobs, after which a machine gets no more."""


def register(connection: Connection, host: Host, engine: str) -> Machine:
    """The machine of this name, as it was just found; its devices are from now on known as real."""
    why = registrations.why_disabled(connection, host.name)
    aborted = registrations.is_aborted(connection, host.name)
    now = clock.read(connection)
    _see_devices(connection, host, now)
    names = json.dumps([device.name for device in host.devices])
    found = {
        "engine": engine,
        "cores": host.cores,
        "memory_bytes": host.memory_bytes,
        "devices": names,
        "seen": now,
    }
    table = tables.machines
    fresh = {"name": host.name, "set_aside": "", "aborted": aborted}
    insert_new(connection, table, [{**fresh, **found}])
    here = table.c.name == host.name
    if why:
        connection.execute(update(table).where(here, table.c.set_aside == "").values(set_aside=why))
    connection.execute(update(table).where(here).values(found))
    return _machine(connection.execute(select(table).where(here)).mappings().one())


def seen(connection: Connection, names: Sequence[str]) -> list[Machine]:
    """Note that these are still there, as they were; gives them as they stand."""
    table = tables.machines
    there = among(connection, table.c.name, names)
    # In the order of their ids, as all who lock machines do.
    connection.execute(select(table.c.id).where(there).order_by(table.c.id).with_for_update())
    connection.execute(update(table).where(there).values(seen=clock.now()))
    return [_machine(row) for row in connection.execute(select(table).where(there)).mappings()]


def machines(connection: Connection) -> list[Machine]:
    """All machines that were ever seen, by name."""
    rows = connection.execute(select(tables.machines).order_by(tables.machines.c.name)).mappings()
    return [_machine(row) for row in rows]


def note(connection: Connection, events: Mapping[int, Sequence[tuple[int, Event]]]) -> None:
    """Count what went wrong on each machine, by job; one that only fails is set aside.

    A job that fails again does not count again, nor does one that no machine could do; and what is
    lost together, as when a node is gone with all its workers, counts once.
    """
    table = tables.machines
    concerned = select(table).where(among(connection, table.c.id, events)).order_by(table.c.id)
    for row in connection.execute(concerned.with_for_update(key_share=True)).all():
        failures, last, reason, lost = row.failures, row.failed_job, "", False
        for job, event in events[row.id]:
            if isinstance(event, Built | Told):
                failures, last = 0, None
            elif isinstance(event, Lost):
                failures, last, reason = failures + (job != last and not lost), job, event.reason
                lost = True
            elif isinstance(event, Failed) and not event.hopeless:
                failures, last, reason = failures + (job != last), job, event.reason
        changes: dict[str, object] = {"failures": failures, "failed_job": last}
        if failures >= MOST_FAILURES and not row.set_aside:
            changes["set_aside"] = f"{failures} jobs in a row failed, the last: {reason}"
        connection.execute(update(table).where(table.c.id == row.id).values(changes))


def _see_devices(connection: Connection, host: Host, now: float) -> None:
    table = tables.devices
    records = {device.name: record_of(device) for device in host.devices}
    stopped = stopped_from_the_start(connection, records)
    rows = [
        {"name": name, "record": record, "created": now, "aborted": stopped[name]}
        for name, record in sorted(records.items())
    ]
    insert_new(connection, table, rows)
    for name, record in sorted(records.items()):
        # The newest counts: what is detected changes with drivers and with ourselves.
        older = (table.c.name == name) & (func.coalesce(table.c.record, "") != record)
        connection.execute(update(table).where(older).values(record=record))


def _machine(row: RowMapping) -> Machine:
    return Machine(
        row["id"],
        row["name"],
        row["engine"],
        row["cores"],
        row["memory_bytes"],
        tuple(json.loads(row["devices"])),
        bool(row["aborted"]),
        row["set_aside"],
        row["failures"],
        spelled(row["seen"]),
    )
