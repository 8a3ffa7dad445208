"""Kernels for a GPU: built in a separate process or taken from the system bank, and verified."""

from __future__ import annotations

import hashlib
import logging
import time

from skipjack.bank import SOURCE, BankEntry, has_system, system_dir_of
from skipjack.core import Candidate, Device, Problem, Status, gpu_protocol
from skipjack.errors import SkipjackError
from skipjack.execute import Loadable, RunSession
from skipjack.execute.pool import Build, BuildPool
from skipjack.gpu import gpu_name
from skipjack.native import cpu
from skipjack.runtime.local_kernels import KernelCode
from skipjack.runtime.process import warn_once
from skipjack.settings import ARTIFACTS, Settings
from skipjack.solvers import BuildingSolver, SourceAware
from skipjack.storage import ArtifactStore

# Building and verifying a kernel for a GPU in processes other than the program.
#
# Triton is not loaded into the program, and a kernel that fails, which ends all work of its process
# on the GPU, does not affect it. Nothing is timed, so the GPU need not be locked.

_POLL_S = 1.0


def build_for_gpu(candidate: Candidate, device: Device) -> tuple[KernelCode, Build]:
    """The code of a config, and its build; `SkipjackError` says why it failed."""
    with BuildPool(1, device) as pool:
        pool.submit(candidate)
        deadline = time.monotonic() + 2 * pool.timeout_s
        while time.monotonic() < deadline:
            for build in pool.poll(_POLL_S):
                if build.status is not Status.OK or build.artifact is None:
                    raise SkipjackError(build.reason or f"its build is {build.status}")
                digest = hashlib.sha256(build.artifact).hexdigest()
                names = digest, build.symbol, build.abi
                return KernelCode(build.artifact, *names, build.slots), build
    raise SkipjackError("its build took too long")


def fault_on_gpu(
    problem: Problem, code: KernelCode, tolerance_factor: float, device: Device
) -> str:
    """Why a kernel is wrong, found by running it on random inputs; empty if it is right."""
    loadable = Loadable(
        code.data, code.digest, code.symbol, code.abi, code.slots, tolerance_factor=tolerance_factor
    )
    with RunSession(gpu_protocol(), cpu.usable_cores(), gpu_name(device)) as session:
        session.prepare(problem)
        failure, _ = session.verify(session.add(loadable))
        return failure.reason if failure else ""


# Machine code from the system bank: it is verified here like a build, but not built.

log = logging.getLogger("skipjack.runtime.lookup")


def shipped_build(
    entry: BankEntry,
    candidate: Candidate,
    solver: BuildingSolver,
    device: Device,
    settings: Settings,
) -> tuple[KernelCode, Build] | None:
    """The code and build of an entry for a GPU, if the system bank has what would be built now.

    Only the system bank's directory is searched: its owner decides what programs run.
    """
    source, launch = entry.evidence.get(SOURCE), entry.launch
    if launch is None or device.kind == "cpu" or not isinstance(source, str):
        return None
    if not has_system(settings.user_dir, settings.system_dir):
        return None
    path = ArtifactStore(system_dir_of(settings.system_dir) / ARTIFACTS).path(launch.artifact)
    problem, config = candidate.problem, candidate.config
    if not path.is_file() or launch.compat not in device.loadable:
        return None
    if isinstance(solver, SourceAware) and not solver.same_source(
        problem, device, config, source, entry.toolchain
    ):
        return None
    # Not by `ArtifactStore.get`, which updates dates and quarantines damaged files.
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != launch.artifact:
        warn_once(log, f"{path} is damaged and not used; download or copy the bank again")
        return None
    slots = tuple(solver.slots(problem, device, config))
    build = Build(candidate, Status.OK, source_digest=source, compiler=entry.toolchain)
    return KernelCode(data, launch.artifact, launch.symbol, launch.abi, slots), build
