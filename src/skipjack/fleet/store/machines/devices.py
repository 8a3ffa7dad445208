"""Devices as the store holds them: records of real ones as JSON, others by their name alone.

Two devices of one name may differ: a hypervisor hides part of the instruction set, or the model is
another. Each label is for one class of them, so that what it found out belongs together.
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

from skipjack.core.device import Device, arch_of, display_names
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.store.jobs.labels import unknown
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.sql import clock
from skipjack.fleet.store.sql.statements import insert_new
from skipjack.fleet.store.sql.stored_json import stored


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


@dataclass(frozen=True, slots=True)
class SeenClass:
    """A class of real devices, and the machines that have one now."""

    device: Device
    machines: tuple[str, ...] = ()


def see(connection: Connection, found: Iterable[Device], now: float) -> None:
    """Know these devices as real. Their names are there already."""
    table = tables.device_classes
    by_class = {device.class_key: device for device in found}
    rows = [
        {"class_key": key, "device": device.name, "record": record_of(device), "seen": now}
        for key, device in sorted(by_class.items())
    ]
    insert_new(connection, table, rows)
    for row in rows:
        # The newest counts: what is detected changes with drivers and with ourselves.
        mine = table.c.class_key == row["class_key"]
        new = {"record": row["record"], "seen": now}
        connection.execute(update(table).where(mine).values(new))


def classes_of(connection: Connection, name: str) -> list[SeenClass]:
    """The classes of devices of this name that machines have now, by key."""
    machine, known = tables.machines.c, tables.device_classes.c
    having: dict[str, list[str]] = {}
    listed = select(machine.name, machine.classes).where(machine.classes.is_not(None))
    for owner, classes in connection.execute(listed.order_by(machine.name)):
        for key in stored(classes):
            having.setdefault(key, []).append(owner)
    of_name = select(known.class_key, known.record).where(known.device == name)
    rows = connection.execute(of_name.order_by(known.class_key)).all()
    return [
        SeenClass(of_record(row.record), tuple(having[row.class_key]))
        for row in rows
        if row.class_key in having
    ]


def somewhere(connection: Connection, class_key: str) -> bool:
    """Whether any machine has a device of this class now."""
    has = tables.machines.c.classes
    lists = connection.execute(select(has).where(has.contains(class_key, autoescape=True)))
    return any(class_key in stored(text) for text in lists.scalars())


def is_of(class_key: str, name: str) -> bool:
    """Whether a class is one of devices of this name."""
    return class_key.split(":")[1:2] == [name]


def bind(
    connection: Connection, label: int, names: Iterable[str], chosen: Mapping[str, Device]
) -> None:
    """Fix which device of each name a label is for, unless that was done before.

    The chosen one, else the only one that machines have; `UsageError` if there are several. While
    nobody has seen any, it is the first that turns up.
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
            see(connection, [device], clock.read(connection))
        key = device.class_key if device else None
        rows.append({"label": label, "device": name, "class_key": key})
        unbound = (table.c.label == label) & (table.c.device == name) & table.c.class_key.is_(None)
        connection.execute(update(table).where(unbound).values(class_key=key))
    insert_new(connection, table, rows)


def bind_unbound(connection: Connection, found: Iterable[Device], label: int | None) -> None:
    """A label, or each one, that is for any device of a name is for one that works there now: of
    those that were found, else of those that any machine has.
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
            see(connection, [device], clock.read(connection))
            mine = (*unbound, table.c.device == name)
            connection.execute(update(table).where(*mine).values(class_key=device.class_key))


def rebind(connection: Connection, before: str, device: Device) -> None:
    """A class is gone from all machines, and this took its place: labels that have not begun go
    over to it. What has begun waits for the device that it began with.
    """
    table, job = tables.label_devices, tables.jobs.c
    begun = exists().where(
        job.label == table.c.label, job.device == table.c.device, job.device_record.is_not(None)
    )
    mine = (table.c.class_key == before) & (table.c.device == device.name)
    connection.execute(update(table).where(mine, ~begun).values(class_key=device.class_key))


def same_class(label: ColumnElement[int] | int, device: str) -> ColumnElement[bool]:
    """Whether a row of jobs is for the same class of this device as those of a label."""
    job, ours = tables.jobs.c, tables.label_devices.alias("ours")
    theirs = tables.label_devices.alias("theirs")
    alike = (
        select(theirs.c.label)
        .join(ours, (ours.c.device == theirs.c.device) & (ours.c.class_key == theirs.c.class_key))
        .where(ours.c.label == label, ours.c.device == device)
    )
    return (job.device == device) & or_(job.label == label, job.label.in_(alike))


def real_record() -> ScalarSelect[Any]:
    """The record of the real device that the label of a row of jobs is for, NULL if there is none;
    for statements that read jobs.
    """
    job, of, known = tables.jobs.c, tables.label_devices.c, tables.device_classes.c
    mine = select(known.record).join(tables.label_devices, of.class_key == known.class_key)
    return mine.where(of.label == job.label, of.device == job.device).scalar_subquery()


def known_device(connection: Connection, name: str, label: str = "") -> Device | None:
    """The real device that a label is for, or without one the device of this name that was seen
    last; None if none was.
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
    """How tables name the device of each class: its name, and what tells it from others of it."""
    records = connection.execute(select(tables.device_classes.c.record)).scalars()
    return display_names(map(of_record, records))


def told_apart(found: Sequence[SeenClass]) -> str:
    """Which devices of one name there are, and where, in words."""
    texts = display_names(one.device for one in found)
    alike = len(set(texts.values())) < len(found)
    return ", ".join(
        f"{texts[one.device.class_key]}{f', {one.device.model},' if alike else ''} "
        f"on {' and '.join(one.machines)}"
        for one in found
    )


def several(name: str, found: Sequence[SeenClass]) -> UsageError:
    """The error to raise where nobody said which of several devices of one name is meant."""
    return UsageError(
        f"{len(found)} different devices are called {name}: {told_apart(found)}; say which one the "
        "label is for: skipjack load --as-on MACHINE"
    )


def _only(name: str, found: Sequence[SeenClass]) -> Device | None:
    if len(found) > 1:
        raise several(name, found)
    return found[0].device if found else None


def devices_of(connection: Connection, label: str, *, built: bool = False) -> dict[str, bool]:
    """Devices that jobs of a label are for, and whether a real one was ever seen.

    With `built`, those alone that something is built for, which jobs of MIOpen do without.
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
    """`UsageError` with near ones if no job, machine or stop has to do with it."""
    columns = (tables.devices.c.name, tables.registrations.c.device, _table.c.name)
    found = {name for column in columns for name in connection.execute(select(column)).scalars()}
    known = {arch_of(name) for name in found if name}
    if arch not in known:
        raise unknown("architecture", arch, known, "load jobs for it first")


def flag_architecture(connection: Connection, arch: str, *, aborted: bool) -> list[str]:
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
