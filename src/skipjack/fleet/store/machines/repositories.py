"""Machines and devices of the store: those that were seen, and those that people registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from skipjack.fleet.store.machines import devices, machines, registrations
from skipjack.fleet.store.sql.database import StoreDatabase

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.fleet.machines.registration import Registration
    from skipjack.fleet.records import Machine
    from skipjack.fleet.store.machines.devices import SeenClass


class Machines:
    """Machines that an engine found, and their devices."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def all(self) -> list[Machine]:
        """All machines that were ever seen."""
        return self._database.read(machines.machines)

    def devices_at(self, machine: str, label: str) -> tuple[str, ...]:
        """Devices of a machine that jobs of a label are for; `UsageError` if there are none."""
        return self._database.read(machines.devices_at, machine, label)

    def known_device(self, name: str, label: str = "") -> Device | None:
        """The real device that a label is for, or without one the device that was seen last."""
        return self._database.read(devices.known_device, name, label)

    def device_classes(self, name: str) -> list[SeenClass]:
        """The different devices of this name that machines have."""
        return self._database.read(devices.classes_of, name)

    def stopped_devices(self) -> list[str]:
        """Devices that get no jobs until they are resumed."""
        return self._database.read(devices.stopped_devices)

    def stopped_architectures(self) -> list[str]:
        """Architectures whose devices get no jobs until they are resumed."""
        return self._database.read(devices.stopped_architectures)


class Registrations:
    """Machines as people register them, whether or not one was ever seen."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    def add(self, registration: Registration, *, replace: bool = False) -> bool:
        """Write down a machine; whether it replaced one of its name, which `replace` allows."""
        return self._database.transaction(registrations.add, registration, replace=replace)

    def all(self, enabled_only: bool = False) -> list[Registration]:
        """All machines by name, or those that are in use."""
        return self._database.read(registrations.registrations, enabled_only=enabled_only)

    def get(self, name: str) -> Registration:
        """The machine of this name; `UsageError` with near names if there is none."""
        return self._database.read(registrations.registration, name)

    def remove(self, names: Iterable[str]) -> list[Registration]:
        """Forget machines, all or none; gives what they were."""
        return self._database.transaction(registrations.remove, list(names))

    def enable(self, names: Iterable[str]) -> list[str]:
        """Let machines have jobs again, also those that were set aside."""
        return self._database.transaction(registrations.enable, list(names))

    def disable(self, names: Iterable[str], why: str) -> list[str]:
        """Give machines no jobs until they are enabled, also if they turn up later."""
        return self._database.transaction(registrations.disable, list(names), why)
