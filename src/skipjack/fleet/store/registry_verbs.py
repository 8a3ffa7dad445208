"""The store's verbs on machines as people register them."""

from __future__ import annotations

from collections.abc import Iterable

from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.store.machines import registrations
from skipjack.fleet.store.sql.transacting import Transacting


class RegistryVerbs(Transacting):
    """Who there is to be, whether or not it was ever seen."""

    def add_registration(self, registration: Registration, *, replace: bool = False) -> bool:
        """Write down a machine; whether it replaced one of its name, which `replace` allows."""
        return self._transaction(registrations.add, registration, replace=replace)

    def registrations(self, enabled_only: bool = False) -> list[Registration]:
        """All of them by name, or those that are in use."""
        return self._reading(registrations.registrations, enabled_only=enabled_only)

    def registration(self, name: str) -> Registration:
        """That of this name."""
        return self._reading(registrations.registration, name)

    def remove_registrations(self, names: Iterable[str]) -> list[Registration]:
        """Forget machines, all or none; gives what they were."""
        return self._transaction(registrations.remove, list(names))

    def enable(self, names: Iterable[str]) -> list[str]:
        """Let machines have jobs again, also those that were set aside."""
        return self._transaction(registrations.enable, list(names))

    def disable(self, names: Iterable[str], why: str) -> list[str]:
        """Give machines no jobs until they are enabled, also if they turn up later."""
        return self._transaction(registrations.disable, list(names), why)
