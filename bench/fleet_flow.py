"""Jobs through a real coordinator and store, timed from the first claim to the last result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skipjack.fleet.coordinator import Coordinator, JobStore, RunRequest
from skipjack.fleet.engine import Engine, Host
from skipjack.fleet.records import Claim, Label, Machine, Plan, Settlement, Want
from skipjack.fleet.settlements import settlement_of
from skipjack.fleet.engine import Done
from skipjack.fleet.states import Stage, State
from skipjack.fleet.store.problems import NewProblem
from skipjack.fleet.store.store import Store
from skipjack.fleet.task import Task
from skipjack.interrupt import Interrupt
from fleet_stand_in import empty_outcome


@dataclass
class TimedStore:
    """A store that notes when its first job was asked for and its last result was committed."""

    store: JobStore
    began: float = 0.0
    ended: float = 0.0
    claims: int = 0
    settles: int = 0

    def sign_in(self, host: str, pid: int, lease_s: float) -> str:
        """As the store does."""
        return self.store.sign_in(host, pid, lease_s)

    def renew(self, owner: str) -> frozenset[int] | None:
        """As the store does."""
        return self.store.renew(owner)

    def sign_out(self, owner: str, reason: str) -> int:
        """As the store does."""
        return self.store.sign_out(owner, reason)

    def others(self, owner: str) -> int:
        """As the store does."""
        return self.store.others(owner)

    def register(self, host: Host, engine: str) -> Machine:
        """As the store does."""
        return self.store.register(host, engine)

    def sweep(self) -> int:
        """As the store does."""
        return self.store.sweep()

    def live(self, label: str | None = None) -> Mapping[State, int]:
        """As the store does."""
        return self.store.live(label)
