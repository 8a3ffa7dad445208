"""What a coordinator needs of a store: a small part of `fleet.store.store.Store`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from skipjack.fleet.engine import Host, RunningLog
from skipjack.fleet.exchange import Ask, Exchanged
from skipjack.fleet.records import Claim, JobKind, Machine, Settlement
from skipjack.fleet.states import State
from skipjack.processes import ProcessIdentity


class JobStore(Protocol):
    """What a coordinator needs of a store; see `fleet.store.store.Store`."""

    def sign_in(self, process: ProcessIdentity, lease_s: float) -> str:
        """Become an owner."""
        ...

    def renew(self, owner: str) -> Mapping[int, int] | None:
        """Prolong the lease; the owner's jobs with their attempts, None if it was lost."""
        ...

    def devices_of(self, label: str, *, built: bool = False) -> Mapping[str, bool]:
        """Devices that jobs of a label are for, or `built` for, and whether one was ever seen."""
        ...

    def release(self, owner: str, jobs: Collection[int], reason: str) -> int:
        """Give back jobs that the owner does not work on."""
        ...

    def sign_out(self, owner: str, reason: str) -> int:
        """Give back what is left."""
        ...

    def others(self, owner: str) -> int:
        """How many other owners are alive."""
        ...

    def register(self, host: Host, engine: str, *, evaluates: bool = True) -> Machine:
        """Know a machine, and whether its devices are measured on."""
        ...

    def seen(self, names: Sequence[str]) -> list[Machine]:
        """Machines that are still as they were registered, as others have marked them since."""
        ...

    def exchange(
        self,
        owner: str,
        settlements: Sequence[Settlement],
        asks: Sequence[Ask],
        *,
        label: str,
        kind: JobKind,
        only: Sequence[str] = (),
    ) -> Exchanged:
        """Write down what came of claims and take further jobs for workers, all at once."""
        ...

    def note_logs(self, owner: str, said: Sequence[RunningLog]) -> int:
        """Keep what workers have said so far of jobs that the owner holds."""
        ...

    def settle(self, owner: str, settlements: Sequence[Settlement]) -> list[Claim]:
        """Write down what came of claims; gives those that were lost in the meantime."""
        ...

    def sweep(self) -> int:
        """Free the jobs of owners whose lease has expired, or who are known to be dead."""
        ...

    def live(self, label: str, kind: JobKind, devices: Sequence[str] = ()) -> Mapping[State, int]:
        """How many jobs of a kind there are in each state, for some devices or for all."""
        ...
