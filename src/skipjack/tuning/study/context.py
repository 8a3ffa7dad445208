"""The environment of the study engine: a session that runs kernels, builders, files, a clock.

`DeviceContext` provides it on a device of this machine, `skipjack.testing.fake_tuning` without one.
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

from skipjack.bank import PERF, Bank, BankEntry, Changes, layers_of, system_dir_of
from skipjack.core import Device, Peaks, Problem, TimingProtocol, protocol_for
from skipjack.errors import StorageError, UsageError
from skipjack.execute import Block, Failure, Loadable, RunSession, device_lock
from skipjack.execute.cpu import peaks_of, read_peaks
from skipjack.execute.pool import BuildPool
from skipjack.gpu import find_gpu
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.runtime.local_kernels import (
    VerifiedKernel,
    VerifiedKernels,
    entry_key,
    keep_within_limit,
    kernel_key,
)
from skipjack.settings import Settings
from skipjack.solvers import build_identity, find_solver
from skipjack.storage import ArtifactStore, KernelStore, user_directory
from skipjack.trace import Tracer
from skipjack.tuning.study.build_queue import BuildContext, Builders

if TYPE_CHECKING:
    from skipjack.tuning.study.loaded_candidate import LoadedCandidate


Clock = Callable[[], float]
"""Seconds that never go backwards, as `time.monotonic`."""


class KernelSession(Protocol):
    """Runs kernels of one problem at a time; usually a `RunSession`. One thread at a time."""

    @property
    def imported(self) -> Collection[str]:
        """Packages of libraries that it was told to import."""

    def prepare(self, problem: Problem) -> None:
        """Switch to a problem; kernels of the previous one are dropped."""

    def import_package(self, name: str) -> None:
        """Import the package of a library."""

    def add(self, loadable: Loadable) -> int:
        """Add a kernel and return its number."""

    def unload(self, kernel: int) -> None:
        """Free a kernel's memory; it is loaded again if it is used again."""

    def verify(self, kernel: int, *, unaligned: bool = False) -> tuple[Failure | None, float]:
        """Check a kernel; returns the failure, if any, and the error over its tolerance."""

    def checked_ns(self, kernel: int) -> float:
        """How long the last checked call took; 0 if there was none."""

    def output_digest(self, kernel: int) -> str:
        """The digest of the output of a kernel that was checked; empty if it is not known."""

    def limit_call_time(self, most_s: float) -> None:
        """From now on, end calls of this problem that take longer than this."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels. Those that fail are left out of the blocks."""


class BankAccess(Protocol):
    """The part of a bank that a tuning uses."""

    def lookup(
        self, problem_key: str, device_class: str, kind: str = PERF, protocol: str | None = None
    ) -> BankEntry | None:
        """The entry of a problem for a class of devices and a deployment."""

    def priors(
        self, problem_key: str, device_class: str, protocol: str | None = None
    ) -> Sequence[BankEntry]:
        """Other entries of the problem, as of another deployment, where a search may start."""

    def put(self, entry: BankEntry) -> Changes:
        """Add an entry, which stays if its evidence is the strongest."""


class TuningContext(BuildContext, Protocol):
    """Everything that a study run needs. It is closed by its owner, not by the run."""

    compiles: bool
    """Whether kernels are built and run by the same machine, so that studies depend on its
    compiler."""
    id: str
    """Distinguishes the measurements of this context from those of others."""
    device: Device
    """What kernels run on."""
    protocol: TimingProtocol
    """How kernels are timed."""
    tracer: Tracer

    @property
    def model_directories(self) -> Sequence[Path]:
        """Directories whose rankers score configs before they are measured, the first one first."""

    @property
    def session(self) -> KernelSession:
        """Where kernels run."""

    @property
    def bank(self) -> BankAccess:
        """Known entries; new ones are added to it."""

    @property
    def clock(self) -> Clock:
        """The clock of budgets."""

    @property
    def say(self) -> Callable[[str], None]:
        """Called with a message before the user has to wait."""

    def peaks(self) -> Peaks:
        """The peaks of the device."""

    def known_elsewhere(self, problem: Problem) -> Sequence[BankEntry]:
        """What banks know of a problem on other classes of devices."""

    def remember(self, loaded: LoadedCandidate) -> None:
        """Record that a kernel was verified, for programs that look it up."""


log = logging.getLogger(__name__)


class NoBank(Bank):
    """A bank that holds nothing and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))

    def lookup(
        self, problem_key: str, device_class: str, kind: str = "", protocol: str | None = None
    ) -> BankEntry | None:
        return None

    def put(self, entry: BankEntry) -> Changes:
        return Changes()


class DeviceContext:
    """Opens files and starts workers for many problems; holds the device while it is open."""

    ledger: Ledger
    bank: Bank
    artifacts: ArtifactStore
    pool: Builders
    compiles = True
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
        """With `holds_device` False, the caller has to `hold_device` when something runs."""
        self._holds_device = holds_device
        self.settings = settings
        self.device = device or cpu.detect()
        self.target = self.device
        """What kernels are built for: the device, or as much of it as their builder knew."""
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

    @property
    def model_directories(self) -> Sequence[Path]:
        """The user directory, and that of the system's bank."""
        return self.settings.user_dir, system_dir_of(self.settings.system_dir)

    def hold_device(self, timeout_s: float | None = None) -> AbstractContextManager[None]:
        """Hold the device exclusively; `StorageError` if others do not release it in time."""
        return device_lock(self.device, self.say, timeout_s)

    def warm_up(self) -> None:
        """Wait until the workers have started and the device's peaks are known."""
        if self.known_peaks() is None:
            self.say(f"measuring the peaks of {self.device.name}, once")
        self.peaks()
        self.pool.warm_up()

    def known_peaks(self) -> Peaks | None:
        """The peaks of the device, if they were measured."""
        return read_peaks(self.device, self.settings.user_dir)

    def peaks(self) -> Peaks:
        """The peaks of the device; measured the first time."""
        return peaks_of(self.session, self.device, self.settings.user_dir)

    def known_elsewhere(self, problem: Problem) -> Sequence[BankEntry]:
        """The entries of all banks in use, the user's first; a bank that is damaged has none."""
        settings, found = self.settings, list[BankEntry]()
        for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
            try:
                found += layer.of_problem(problem.key)
            except StorageError as error:
                log.info("a search does not start from the bank %s: %s", layer.path, error)
        return [entry for entry in found if entry.device != self.device.class_key]

    def remember(self, loaded: LoadedCandidate) -> None:
        """Record on this machine that a kernel was verified, for programs that look it up."""
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
        """End the workers, release the device and close the files."""
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
    """The cores of a run session for a device of this host, and the GPU if it is one."""
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
    """The cores to time on: from the configured core on, or the last that this process may use."""
    cores = cpu.usable_cores()
    if count > len(cores):
        raise UsageError(
            f"{count} threads need {count} cores, but this process may use {len(cores)}"
        )
    if settings.core is None:
        # The first core of a machine serves most interrupts.
        return cores[-count:]
    if settings.core not in cores:
        raise UsageError(f"SKIPJACK_CORE is {settings.core}, but this process may use {cores}")
    at = cores.index(settings.core)
    return [*cores[at:], *cores[:at]][:count]
