"""How an entry's machine code is called, and where the entry came from. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skipjack.core.device import Device
from skipjack.core.digest import digest_of


@dataclass(frozen=True, slots=True)
class LaunchData:
    """What is needed to call a kernel without its solver, beside the code itself.

    It was written by whoever made the entry. Whoever merged a bank has checked none of it: code
    whose digest is not known to be verified on this machine, with these slots, is not run.
    """

    artifact: str
    """SHA-256 of the machine code, by which the artifact store keeps it."""
    symbol: str = ""
    """The function in it."""
    abi: str = ""
    """How it takes its arguments."""
    slots: tuple[str | int, ...] = ()
    """Its arguments in order: names of arrays, numbers, workspace; on a GPU the launch plan."""
    workspace_bytes: int = 0
    """Memory that it borrows for a call, as the slots say."""
    compat: str = ""
    """`Device.compat_key` of what the code was built for: where it can load."""

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "artifact": self.artifact,
            "symbol": self.symbol,
            "abi": self.abi,
            "slots": list(self.slots),
            "workspace_bytes": self.workspace_bytes,
            "compat": self.compat,
        }


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """Who made an entry; empty in entries of format 1."""

    command: str = ""
    """What ran: ``tune`` or ``find``, of a user or of a fleet's job."""
    machine: str = ""
    """A digest of `Device.instance_key`: entries of one machine have the same."""

    @classmethod
    def of(cls, command: str, device: Device) -> EntryOrigin:
        """That of an entry which is made on this device."""
        return cls(command, digest_of(device.instance_key)[:16])

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"command": self.command, "machine": self.machine}
