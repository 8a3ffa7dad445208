"""What the study engine needs of the world: a session that runs kernels, builders, files, a clock.

`DeviceContext` has it on a device of this machine, `skipjack.testing.fake_tuning` without any.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from skipjack.bank import PERF, Bank, BankEntry, Changes
from skipjack.core.device import Device, Peaks
from skipjack.core.problem import Problem
from skipjack.core.protocol import TimingProtocol, protocol_for
from skipjack.errors import StorageError, UsageError
from skipjack.execute.build_pool import BuildPool
from skipjack.execute.device_lock import device_lock
from skipjack.execute.peaks import peaks_of, read_peaks
from skipjack.execute.session import Failure, Loadable, RunSession
from skipjack.execute.statistics import Block
from skipjack.gpu.opening import find_gpu
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.runtime import (
    VerifiedKernel,
    VerifiedKernels,
    entry_key,
    keep_within_limit,
    kernel_key,
)
from skipjack.settings import Settings
from skipjack.solvers import find_solver
from skipjack.solvers.identity import build_identity
from skipjack.storage import ArtifactStore, KernelStore, user_directory
from skipjack.trace import Tracer
from skipjack.tuning.build_queue import BuildContext, Builders

Clock = Callable[[], float]
"""Seconds that never run backwards, as those of `time.monotonic`."""


class KernelSession(Protocol):
    """Runs kernels of one problem after another: a `RunSession` as a rule. One thread at a time."""

    @property
    def imported(self) -> Collection[str]:
        """Packages of libraries that it has been told to import."""

    def prepare(self, problem: Problem) -> None:
        """Turn to a problem: kernels of the one before are gone."""

    def import_package(self, name: str) -> None:
        """Have a library's package ready."""

    def add(self, loadable: Loadable) -> int:
        """Take a kernel in and give it a number."""

    def unload(self, kernel: int) -> None:
        """Free its memory; it is loaded again should it be used again."""

    def verify(self, kernel: int, *, elsewhere: bool = False) -> tuple[Failure | None, float]:
        """Check a kernel; gives the failure, if any, and the error over its tolerance."""

    def checked_ns(self, kernel: int) -> float:
        """How long the call took that was checked last; 0 if none was."""

    def output_digest(self, kernel: int) -> str:
        """The digest of what a kernel that was checked writes; empty where it is not known."""

    def hurry(self, most_s: float) -> None:
        """End calls of this problem that take longer from now on."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels. Those that fail are left out of the blocks."""


class BankAccess(Protocol):
    """What a tuning asks of a bank."""

    def lookup(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> BankEntry | None:
        """What is known of a problem on a class of devices as it is deployed."""

    def priors(
        self, problem_key: str, device_class: str, protocol: str | None = None
    ) -> Sequence[BankEntry]:
        """What else is known of it, as under another deployment: where a search may start."""

    def put(self, entry: BankEntry) -> Changes:
        """Offer an entry."""


class TuningContext(BuildContext, Protocol):
    """Everything that a study run needs at hand; whoever opened it closes it."""

    compiles: bool
    """Whether what is built here is run here, so that studies are of this compiler."""
    id: str
    """Tells the measurements of this context from those of others."""
    device: Device
    """What kernels run on."""
    protocol: TimingProtocol
    """How they are timed."""
    tracer: Tracer
    """Where the time went."""

    @property
    def session(self) -> KernelSession:
        """Where they run."""

    @property
    def bank(self) -> BankAccess:
        """What is known, and gets what is found."""

    @property
    def clock(self) -> Clock:
        """The time that budgets are counted in."""

    @property
    def say(self) -> Callable[[str], None]:
        """Called with a message before the user has to wait."""

    def peaks(self) -> Peaks:
        """What the device can do at most."""

    def remember(self, loaded: LoadedCandidate) -> None:
        """Note that a kernel was verified, for programs that look it up."""


if TYPE_CHECKING:
    from skipjack.tuning.loaded_candidate import LoadedCandidate

log = logging.getLogger(__name__)


class NoBank(Bank):
    """Knows nothing and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))

    def lookup(
        self, problem_key: str, device_class: str, kind: str = "", protocol: str | None = None
    ) -> BankEntry | None:
        """Nothing."""
        return None

    def put(self, entry: BankEntry) -> Changes:
        """Nothing: verdicts are among the facts."""
        return Changes()


class DeviceContext:
    """Opens files and starts workers once for many problems; holds the device while it is open."""

    ledger: Ledger
    bank: Bank
    artifacts: ArtifactStore
    pool: Builders
    compiles = True
    """Whether what is built here is run here, so that studies are of this compiler."""
    session: RunSession
    clock: Clock = staticmethod(time.monotonic)

    def __init__(
        self,
        settings: Settings,
        device: Device | None = None,
        protocol: TimingProtocol | None = None,
        say: Callable[[str], None] | None = None,
        *,
        holds_device: bool = True,
    ) -> None:
        """With `holds_device` False it is for the caller to `hold_device` when something runs."""
        self._holds_device = holds_device
        self.settings = settings
        self.device = device or cpu.detect()
        self.target = self.device
        """What kernels are built for: the device, or as much of it as who built them knew."""
        self.protocol = protocol or protocol_for(self.device)
        self.tracer = Tracer()
        self.id = uuid.uuid4().hex[:12]
        self.say = say or log.info
        """Called with a message before the user has to wait."""
        self.opened = False
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> DeviceContext:
        cores, gpu = session_place(self.settings, self.device)
        directory = user_directory(self.settings)
        with contextlib.ExitStack() as exits:
            exits.callback(keep_within_limit, self.settings, now=True)
            self.ledger = exits.enter_context(Ledger.open(directory))
            self.bank = Bank.open(directory)
            self.artifacts = KernelStore(self.settings)
            self.ledger.add_device(self.device)
            if self._holds_device:
                exits.enter_context(self.hold_device())
            pool = BuildPool(
                self.settings.build_workers,
                self.device,
                directory,
                kernels=self.settings.kernel_dirs,
            )
            self.pool = exits.enter_context(pool)
            self.session = exits.enter_context(RunSession(self.protocol, cores, gpu))
            self._exits = exits.pop_all()
        self.opened = True
        return self

    def hold_device(self, timeout_s: float | None = None) -> AbstractContextManager[None]:
        """Keep others from the device meanwhile; `StorageError` if they do not leave in time."""
        return device_lock(self.device, self.say, timeout_s)

    def warm_up(self) -> None:
        """Wait until the workers are there and the device's peaks are known."""
        if self.known_peaks() is None:
            self.say(f"measuring the peaks of {self.device.name}, once")
        self.peaks()
        self.pool.warm_up()

    def known_peaks(self) -> Peaks | None:
        """What the device can do at most, if that was measured."""
        return read_peaks(self.device, self.settings.user_dir)

    def peaks(self) -> Peaks:
        """What the device can do at most; measured the first time."""
        return peaks_of(self.session, self.device, self.settings.user_dir)

    def remember(self, loaded: LoadedCandidate) -> None:
        """Note on this machine that a kernel was verified, for programs that look it up."""
        candidate, code = loaded.candidate, loaded.code
        assert code is not None, "libraries are not looked up"
        identity = build_identity(candidate.problem, find_solver(loaded.solver), self.target)
        source = loaded.source_digest or ""
        kernel = VerifiedKernel(
            code.digest,
            code.symbol,
            code.abi,
            source,
            loaded.compiler,
            code.slots,
            entry_key(candidate.problem.key, loaded.solver, loaded.version, candidate.config),
        )
        try:
            key = kernel_key(
                candidate.problem, loaded.solver, loaded.version, candidate.config, identity
            )
            VerifiedKernels(self.settings).put(key, kernel, code.data)
        except StorageError as error:
            log.info("lookup will check %s once more: %s", candidate.problem.key, error)

    def close(self) -> None:
        """End the workers, release the device, close the files."""
        self.opened = False
        self._exits.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def session_place(settings: Settings, device: Device) -> tuple[list[int], str | None]:
    """Where a run session for a device of this host works: cores, and the GPU if it is one."""
    if device.kind == "cpu":
        return timing_cores(settings, device.units), None
    driver, index, _ = find_gpu(device.serial or device.name)
    return cpu.usable_cores(), f"{driver.name}:{index}"


def measured_peaks(
    settings: Settings, *, again: bool = False, say: Callable[[str], None] | None = None
) -> tuple[Device, Peaks]:
    """This machine's CPU and its peaks, measured now if they are not known."""
    device = cpu.detect()
    directory = user_directory(settings)
    known = None if again else read_peaks(device, directory)
    if known:
        return device, known
    with (
        device_lock(device, say),
        RunSession(TimingProtocol(), timing_cores(settings, 1)) as session,
    ):
        return device, peaks_of(session, device, directory, again=again)


def timing_cores(settings: Settings, count: int) -> list[int]:
    """The cores to time on: from the one that was set on, or the last that this process may use."""
    cores = cpu.usable_cores()
    if count > len(cores):
        raise UsageError(
            f"{count} threads need as many cores, and this process may use {len(cores)}"
        )
    if settings.core is None:
        # The first core of a machine serves most interrupts.
        return cores[-count:]
    if settings.core not in cores:
        raise UsageError(f"SKIPJACK_CORE is {settings.core}, but this process may use {cores}")
    at = cores.index(settings.core)
    return [*cores[at:], *cores[:at]][:count]
