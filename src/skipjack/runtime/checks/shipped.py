"""Machine code that came with the system bank: it is verified here like a build, and not built."""

from __future__ import annotations

import hashlib
import logging

from skipjack.bank import SOURCE, BankEntry, has_system, system_dir_of
from skipjack.core.device import Device
from skipjack.core.trial import Candidate, Status
from skipjack.execute.build_pool import Build
from skipjack.runtime.kernel_code import KernelCode
from skipjack.runtime.warning_once import warn_once
from skipjack.settings import ARTIFACTS, Settings
from skipjack.solvers import BuildingSolver, SourceAware
from skipjack.storage import ArtifactStore

log = logging.getLogger("skipjack.runtime.lookup")


def shipped_build(
    entry: BankEntry,
    candidate: Candidate,
    solver: BuildingSolver,
    device: Device,
    settings: Settings,
) -> tuple[KernelCode, Build] | None:
    """The code and the build of an entry for a GPU, if the system bank has what would be built now.

    Only the system bank's directory is looked into: who can write there decides what programs run.
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
    # Not by `ArtifactStore.get`, which dates what it reads and sets aside what is damaged.
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != launch.artifact:
        warn_once(log, f"{path} is damaged and not used; get the bank anew from where it came from")
        return None
    slots = tuple(solver.slots(problem, device, config))
    build = Build(candidate, Status.OK, source_digest=source, compiler=entry.toolchain)
    return KernelCode(data, launch.artifact, launch.symbol, launch.abi, slots), build
