"""What the study engine needs of the world: a session that runs kernels, builders, files, a clock.

`Workshop` has it on a device of this machine, `skipjack.testing.FakeContext` without any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from skipjack.bank import PERF, BankEntry, Changes
from skipjack.core.device import Device, Peaks
from skipjack.core.problem import Problem
from skipjack.core.protocol import TimingProtocol
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block
from skipjack.trace import Tracer
from skipjack.tuning.build_desk import BuildShop
from skipjack.tuning.runner import Runner

Clock = Callable[[], float]
"""Seconds that never run backwards, as those of `time.monotonic`."""


class KernelSession(Protocol):
    """Runs kernels of one problem after another: a `RunSession` as a rule. One thread at a time."""

    @property
    def imported(self) -> Collection[str]:
        """Packages of libraries that it has been told to import."""
        ...

    def prepare(self, problem: Problem) -> None:
        """Turn to a problem: kernels of the one before are gone."""
        ...

    def import_package(self, name: str) -> None:
        """Have a library's package ready."""
        ...

    def add(self, loadable: Loadable) -> int:
        """Take a kernel in and give it a number."""
        ...

    def unload(self, kernel: int) -> None:
        """Free its memory; it is loaded again should it be used again."""
        ...

    def verify(self, kernel: int, *, elsewhere: bool = False) -> tuple[Failure | None, float]:
        """Check a kernel; gives the failure, if any, and the error over its tolerance."""
        ...

    def checked_ns(self, kernel: int) -> float:
        """How long the call took that was checked last; 0 if none was."""
        ...

    def hurry(self, most_s: float) -> None:
        """End calls of this problem that take longer from now on."""
        ...

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels. Those that fail are left out of the blocks."""
        ...


class BankAccess(Protocol):
    """What a tuning asks of a bank."""

    def lookup(self, problem_key: str, device_class: str, kind: str = PERF) -> BankEntry | None:
        """What is known of a problem on a class of devices."""
        ...

    def put(self, entry: BankEntry) -> Changes:
        """Offer an entry."""
        ...


class TuningContext(BuildShop, Protocol):
    """Everything that a study run needs at hand; whoever opened it closes it."""

    compiles: bool
    """Whether what is built here is run here, so that studies are of this compiler."""
    id: str
    """Tells the measurements of this context from those of others."""

    @property
    def device(self) -> Device:
        """What kernels run on."""
        ...

    @property
    def protocol(self) -> TimingProtocol:
        """How they are timed."""
        ...

    @property
    def session(self) -> KernelSession:
        """Where they run."""
        ...

    @property
    def bank(self) -> BankAccess:
        """What is known, and gets what is found."""
        ...

    @property
    def tracer(self) -> Tracer:
        """Where the time went."""
        ...

    @property
    def clock(self) -> Clock:
        """The time that budgets are counted in."""
        ...

    @property
    def say(self) -> Callable[[str], None]:
        """Tells a person what there is to wait for."""
        ...

    def peaks(self) -> Peaks:
        """What the device can do at most."""
        ...

    def remember(self, runner: Runner) -> None:
        """Note that a kernel was verified, for programs that look it up."""
        ...
