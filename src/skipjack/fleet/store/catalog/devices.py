"""Devices in the store: real ones as JSON records, others only by name.

Two devices with one name may differ: a hypervisor hides part of the instruction set, or the model
is another. Each label is for one class of them, so that its results are comparable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    delete,
    exists,
    or_,
    select,
    true,
    update,
)

from skipjack.core import Device, arch_of, display_names
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.store.catalog.labels import unknown_name
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.column_types import parse_stored
from skipjack.fleet.store.sql.statements import insert_new


def record_of(device: Device) -> str:
    """The device as JSON."""
    return json.dumps(asdict(device), sort_keys=True)


@lru_cache(maxsize=1024)
def of_record(record: str) -> Device:
    """Read a device that `record_of` wrote."""
    return Device.from_record(parse_stored(record))


@lru_cache(maxsize=1024)
def by_name(name: str) -> Device:
    """A device as its name describes it; `UsageError` if the name is unknown."""
    # Loads LLVM, which a coordinator with real devices does not need.
    from skipjack.devices import describe

    return describe(name)


def describable(name: str) -> bool:
    """Whether the name suffices to build for the device: a compiler knows it."""
    try:
        by_name(name)
    except SkipjackError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of real devices, and the machines that have one."""

    device: Device
    machines: tuple[str, ...] = ()


def add_devices(connection: Connection, found: Iterable[Device], now: float) -> None:
    """Store real devices. Their names exist already."""
    table = tables.device_classes
    by_class = {device.class_key: device for device in found}
    rows = [
        {"class_key": key, "device": device.name, "record": record_of(device), "seen": now}
        for key, device in sorted(by_class.items())
    ]
    insert_new(connection, table, rows)
    for row in rows:
        # The newest record counts: detection changes with drivers and with Skipjack.
        mine = table.c.class_key == row["class_key"]
        new = {"record": row["record"], "seen": now}
        connection.execute(update(table).where(mine).values(new))


def classes_of(connection: Connection, name: str) -> list[DeviceClass]:
    """The classes of devices with this name that machines have now, by key."""
    machine, known = tables.machines.c, tables.device_classes.c
    having: dict[str, list[str]] = {}
    listed = select(machine.name, machine.classes).where(machine.classes.is_not(None))
    for owner, classes in connection.execute(listed.order_by(machine.name)):
        for key in parse_stored(classes):
            having.setdefault(key, []).append(owner)
    of_name = select(known.class_key, known.record).where(known.device == name)
    rows = connection.execute(of_name.order_by(known.class_key)).all()
    return [
        DeviceClass(of_record(row.record), tuple(having[row.class_key]))
        for row in rows
        if row.class_key in having
    ]


def any_machine_has(connection: Connection, class_key: str) -> bool:
    """Whether any machine has a device of this class now."""
    has = tables.machines.c.classes
    lists = connection.execute(select(has).where(has.contains(class_key, autoescape=True)))
    return any(class_key in parse_stored(text) for text in lists.scalars())


def is_of(class_key: str, name: str) -> bool:
    """Whether the devices of a class have this name."""
    return class_key.split(":")[1:2] == [name]


def bind(
    connection: Connection, label: int, names: Iterable[str], chosen: Mapping[str, Device]
) -> None:
    """Bind each device name of a label to a class of real devices, unless that was done before.

    This is the chosen one, else the only one that machines have; `UsageError` if there are
    several. If none was seen yet, the label is bound later, to the first that is seen.
    """
    table = tables.label_devices
    bound = connection.execute(
        select(table.c.device, table.c.class_key).where(table.c.label == label)
    )
    known = {str(row.device): row.class_key for row in bound}
    rows = []
    for name in sorted(name for name in names if known.get(name) is None):
        device = chosen.get(name) or _only(name, classes_of(connection, name))
        if device is not None:
            add_devices(connection, [device], clock.read(connection))
        key = device.class_key if device else None
        rows.append({"label": label, "device": name, "class_key": key})
        unbound = (table.c.label == label) & (table.c.device == name) & table.c.class_key.is_(None)
        connection.execute(update(table).where(unbound).values(class_key=key))
    insert_new(connection, table, rows)


def bind_unbound(connection: Connection, found: Iterable[Device], label: int | None) -> None:
    """Bind device names without a class, of one label or of all, to a device that was found, else
    to one that any machine has.
    """
    table = tables.label_devices
    unbound: list[ColumnElement[bool]] = [table.c.class_key.is_(None)]
    if label is not None:
        unbound.append(table.c.label == label)
    names = set(connection.execute(select(table.c.device).where(*unbound)).scalars())
    if not names:
        return
    here = {one.name: one for one in found}
    for name in sorted(names):
        seen = [] if name in here else classes_of(connection, name)
        device = here.get(name) or (seen[0].device if seen else None)
        if device is not None:
            add_devices(connection, [device], clock.read(connection))
            mine = (*unbound, table.c.device == name)
            connection.execute(update(table).where(*mine).values(class_key=device.class_key))


def rebind(connection: Connection, before: str, device: Device) -> None:
    """Bind labels that have not begun from a class that no machine has any more to its successor.
    Labels that have begun wait for their device.
    """
    table, job = tables.label_devices, tables.jobs.c
    begun = exists().where(
        job.label == table.c.label, job.device == table.c.device, job.device_record.is_not(None)
    )
    mine = (table.c.class_key == before) & (table.c.device == device.name)
    connection.execute(update(table).where(mine, ~begun).values(class_key=device.class_key))


def same_class(label: ColumnElement[int] | int, device: str) -> ColumnElement[bool]:
    """Condition that a job is for the same class of this device as the jobs of a label."""
    job, ours = tables.jobs.c, tables.label_devices.alias("ours")
    theirs = tables.label_devices.alias("theirs")
    alike = (
        select(theirs.c.label)
        .join(ours, (ours.c.device == theirs.c.device) & (ours.c.class_key == theirs.c.class_key))
        .where(ours.c.label == label, ours.c.device == device)
    )
    return (job.device == device) & or_(job.label == label, job.label.in_(alike))


def real_record() -> ScalarSelect[Any]:
    """An expression for statements that read jobs: the record of the real device of the job's
    label, or NULL.
    """
    job, of, known = tables.jobs.c, tables.label_devices.c, tables.device_classes.c
    mine = select(known.record).join(tables.label_devices, of.class_key == known.class_key)
    return mine.where(of.label == job.label, of.device == job.device).scalar_subquery()


def known_device(connection: Connection, name: str, label: str = "") -> Device | None:
    """The real device of a label, or without a label the device with this name that was seen last;
    None if there is none.
    """
    known, of = tables.device_classes.c, tables.label_devices.c
    mine = (
        select(known.record)
        .join(tables.label_devices, of.class_key == known.class_key)
        .join(tables.labels, tables.labels.c.id == of.label)
        .where(tables.labels.c.name == label, of.device == name)
    )
    last = select(known.record).where(known.device == name).order_by(known.seen.desc()).limit(1)
    text = connection.execute(mine if label else last).scalar()
    return of_record(text) if text else None


def names_by_class(connection: Connection) -> dict[str, str]:
    """Display names of the devices of each class, which distinguish devices with one name."""
    records = connection.execute(select(tables.device_classes.c.record)).scalars()
    return display_names(map(of_record, records))


def distinguishing_names(found: Sequence[DeviceClass]) -> str:
    """A text that distinguishes devices with one name, with their machines."""
    texts = display_names(one.device for one in found)
    alike = len(set(texts.values())) < len(found)
    return ", ".join(
        f"{texts[one.device.class_key]}{f', {one.device.model},' if alike else ''} "
        f"on {' and '.join(one.machines)}"
        for one in found
    )


def ambiguous_device(name: str, found: Sequence[DeviceClass]) -> UsageError:
    """The error if the user did not choose between several devices with one name."""
    return UsageError(
        f"{len(found)} different devices are called {name}: {distinguishing_names(found)}; choose "
        "one for the label with skipjack load --as-on MACHINE"
    )


def _only(name: str, found: Sequence[DeviceClass]) -> Device | None:
    if len(found) > 1:
        raise ambiguous_device(name, found)
    return found[0].device if found else None


def devices_of(connection: Connection, label: str, *, built: bool = False) -> dict[str, bool]:
    """Devices of a label's jobs, and whether a real one was ever seen.

    With `built`, only devices of jobs that need builds, which jobs of MIOpen do not.
    """
    jobs, labels, devices = tables.jobs.c, tables.labels.c, tables.devices.c
    seen = exists().where(tables.device_classes.c.device == devices.name)
    query = (
        select(devices.name, seen.label("seen"))
        .join(tables.jobs, jobs.device == devices.name)
        .join(tables.labels, labels.id == jobs.label)
        .where(labels.name == label, tables.jobs.c.driver == "" if built else true())
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


_table = tables.stopped_architectures


def devices_of_arch(connection: Connection, arch: str) -> list[str]:
    """Devices of this architecture that jobs are for, or that were seen."""
    names = connection.execute(select(tables.devices.c.name).order_by(tables.devices.c.name))
    return [name for name in names.scalars() if arch_of(name) == arch]


def check_architecture(connection: Connection, arch: str) -> None:
    """`UsageError` with similar names if no job, machine or abort has this architecture."""
    columns = (tables.devices.c.name, tables.registrations.c.device, _table.c.name)
    found = {name for column in columns for name in connection.execute(select(column)).scalars()}
    known = {arch_of(name) for name in found if name}
    if arch not in known:
        raise unknown_name("architecture", arch, known, "load jobs for it first")


def flag_architecture(connection: Connection, arch: str, *, aborted: bool) -> list[str]:
    """Abort or resume an architecture and its known devices; returns these."""
    if aborted:
        insert_new(connection, _table, [{"name": arch, "created": clock.read(connection)}])
    else:
        connection.execute(delete(_table).where(_table.c.name == arch))
    names = devices_of_arch(connection, arch)
    device = tables.devices
    connection.execute(update(device).where(device.c.name.in_(names)).values(aborted=aborted))
    return names


def stopped_architectures(connection: Connection) -> list[str]:
    """Architectures whose devices get no jobs until they are resumed."""
    return [*connection.execute(select(_table.c.name).order_by(_table.c.name)).scalars()]


def stopped_from_the_start(connection: Connection, devices: Iterable[str]) -> dict[str, bool]:
    """For each device, whether its architecture is aborted."""
    stopped = set(stopped_architectures(connection))
    return {name: arch_of(name) in stopped for name in devices}
