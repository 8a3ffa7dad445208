"""Everything a tuning needs at hand: the device, its workers, the ledger, the bank. Kept warm."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable
from types import TracebackType

from skipjack.bank import Bank
from skipjack.core.device import Device, Peaks
from skipjack.core.protocol import TimingProtocol, gpu_protocol
from skipjack.errors import StorageError, UsageError
from skipjack.execute.build_pool import BuildPool
from skipjack.execute.device_lock import device_lock
from skipjack.execute.peaks import peaks_of, read_peaks
from skipjack.execute.session import RunSession
from skipjack.gpu.opening import find_gpu
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.runtime import VerifiedKernel, VerifiedKernels, kernel_key
from skipjack.settings import Settings
from skipjack.solvers import find_solver
from skipjack.solvers.identity import build_identity
from skipjack.storage import ARTIFACTS, ArtifactStore, user_directory
from skipjack.trace import Tracer
from skipjack.tuning.build_desk import Builders
from skipjack.tuning.context import Clock
from skipjack.tuning.runner import Runner

log = logging.getLogger(__name__)


class Workshop:
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
    ) -> None:
        self.settings = settings
        self.device = device or cpu.detect()
        self.target = self.device
        """What kernels are built for: the device, or as much of it as who built them knew."""
        self.protocol = protocol or protocol_for(self.device)
        self.tracer = Tracer()
        self.id = uuid.uuid4().hex[:12]
        self.say = say or log.info
        """Tells a person what there is to wait for."""
        self.opened = False
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Workshop:
        cores, gpu = session_place(self.settings, self.device)
        directory = user_directory(self.settings)
        with contextlib.ExitStack() as exits:
            self.ledger = exits.enter_context(Ledger.open(directory))
            self.bank = Bank.open(directory)
            self.artifacts = ArtifactStore(directory / ARTIFACTS)
            self.ledger.add_device(self.device)
            exits.enter_context(device_lock(self.device, self.say))
            pool = BuildPool(self.settings.build_workers, self.device, directory)
            self.pool = exits.enter_context(pool)
            self.session = exits.enter_context(RunSession(self.protocol, cores, gpu))
            self._exits = exits.pop_all()
        self.opened = True
        return self

    def warm_up(self) -> None:
        """Wait until the workers are there and the device's peaks are known."""
        if read_peaks(self.device, self.settings.user_dir) is None:
            self.say(f"measuring the peaks of {self.device.name}, once")
        self.peaks()
        self.pool.warm_up()

    def peaks(self) -> Peaks:
        """What the device can do at most; measured the first time."""
        return peaks_of(self.session, self.device, self.settings.user_dir)

    def remember(self, runner: Runner) -> None:
        """Note on this machine that a kernel was verified, for programs that look it up."""
        candidate, digest = runner.candidate, runner.artifact_digest
        identity = build_identity(candidate.problem, find_solver(runner.solver), self.target)
        kernel = VerifiedKernel(
            digest, runner.symbol, runner.abi, runner.source_digest or "", runner.compiler
        )
        try:
            VerifiedKernels(self.settings.user_dir).put(
                kernel_key(candidate, runner.version, identity), kernel, self.artifacts.get(digest)
            )
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


def protocol_for(device: Device) -> TimingProtocol:
    """How kernels are timed on a device by default."""
    return TimingProtocol(threads=device.units) if device.kind == "cpu" else gpu_protocol()


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
