"""What coordinators and readers of results need of a store, whichever keeps the jobs.

`fleet.store` has both for SQL databases: `Store.queue` and `Store.results`. Whoever makes jobs or
looks at them takes the store's own repositories.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from skipjack.fleet.engine import Host, RunningLog
from skipjack.fleet.exchange import Ask, Exchanged
from skipjack.fleet.records import Claim, JobKind, Machine, Settlement
from skipjack.fleet.states import State
from skipjack.processes import ProcessIdentity

if TYPE_CHECKING:
    from skipjack.fleet.store import Fetched, JobResult, JobVerdict


class JobQueue(Protocol):
    """Jobs as a coordinator claims and settles them."""

    def sign_in(self, process: ProcessIdentity, lease_s: float) -> str:
        """Become an owner."""
        ...

    def renew(self, owner: str) -> Mapping[int, int] | None:
        """Prolong the lease; the owner's jobs with their attempts, None if it was lost."""
        ...

    def built_for(self, label: str) -> Mapping[str, bool]:
        """Devices that jobs of a label are built for, and whether one was ever seen."""
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


class LabelResults(Protocol):
    """The evaluated jobs of a label, with their kernels."""

    def jobs(self, label: str) -> Iterator[JobResult]:
        """Those jobs with all that was found out."""
        ...

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """What they say, without the facts; all of a problem in a row."""
        ...

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        """Machine code that is whole and sealed, and why the rest of it cannot be used."""
        ...
