"""Devices as the store holds them: records of real ones as JSON, others by their name alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

from sqlalchemy import Connection, select

from skipjack.core.device import Device
from skipjack.errors import SkipjackError
from skipjack.fleet.store import tables
from skipjack.fleet.store.stored_json import stored


def record_of(device: Device) -> str:
    """The device as JSON."""
    return json.dumps(asdict(device), sort_keys=True)


@lru_cache(maxsize=1024)
def of_record(record: str) -> Device:
    """The device that `record_of` wrote."""
    return Device.from_record(stored(record))


@lru_cache(maxsize=1024)
def by_name(name: str) -> Device:
    """A device that nobody has seen, as its name describes it; `UsageError` if that is unknown."""
    # Asks LLVM, which a coordinator that meets real devices only never needs.
    from skipjack.devices import describe

    return describe(name)


def describable(name: str) -> bool:
    """Whether its name alone says enough to build for it: a compiler knows it."""
    try:
        by_name(name)
    except SkipjackError:
        return False
    return True


def devices_of(connection: Connection, label: str) -> dict[str, bool]:
    """Devices that jobs of a label are for, and whether a real one was ever seen."""
    jobs, labels, devices = tables.jobs.c, tables.labels.c, tables.devices.c
    query = (
        select(devices.name, devices.record.is_not(None).label("seen"))
        .join(tables.jobs, jobs.device == devices.name)
        .join(tables.labels, labels.id == jobs.label)
        .where(labels.name == label)
        .distinct()
    )
    return {str(row.name): bool(row.seen) for row in connection.execute(query)}


def toolchains_of(connection: Connection, label: str) -> dict[str, list[str]]:
    """Toolchains that evaluated jobs of a label, by device."""
    jobs, labels = tables.jobs.c, tables.labels.c
    query = (
        select(jobs.device, jobs.toolchain)
        .join(tables.labels, labels.id == jobs.label)
        .where(labels.name == label, jobs.toolchain != "")
        .distinct()
        .order_by(jobs.device, jobs.toolchain)
    )
    found: dict[str, list[str]] = {}
    for device, toolchain in connection.execute(query):
        found.setdefault(str(device), []).append(str(toolchain))
    return found


def stopped_devices(connection: Connection) -> list[str]:
    """Devices that get no jobs until they are resumed."""
    devices = tables.devices.c
    query = select(devices.name).where(devices.aborted.is_(True)).order_by(devices.name)
    return [str(name) for name in connection.execute(query).scalars()]
