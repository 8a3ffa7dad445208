"""`lookup`: the banked kernel of a problem, without tuning, workers or locks."""

from __future__ import annotations

from skipjack.bank import Bank, BankEntry
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import StorageError
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.gpu.opening import gpu_name
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings, load_settings
from skipjack.solvers import find_solver, names
from skipjack.solvers.solver import ABI, Blob, BuildingSolver
from skipjack.storage import ARTIFACTS, ArtifactStore
from skipjack.tuning.gpu_kernel import GpuKernel
from skipjack.tuning.kernel import TunedKernel
from skipjack.tuning.placing import NoGpuError, place
from skipjack.tuning.result import KernelCode, callable_of


def lookup(
    problem: str,
    *,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    settings: Settings | None = None,
) -> TunedKernel | GpuKernel | None:
    """The kernel that the bank holds for a problem on this device; None if it holds none.

    The device is chosen as for `tune`: the CPU, or a GPU that is named or needed.

    Also None where a library is what the bank recommends. Nothing is written. A CPU's machine code
    that is not in the store is compiled here, which takes some milliseconds; a GPU's is not, since
    the result would be a build that nobody has checked: None, until it is tuned again.
    """
    chosen = settings or load_settings()
    asked = parse(problem, dtype, layout=layout, direction=direction)
    if threads is not None and threads > len(cpu.usable_cores()):
        return None  # nothing was tuned for what is here
    try:
        found = place([asked], device, threads)
    except NoGpuError:
        return None
    entry = Bank.open(chosen.user_dir).lookup(asked.key, found.class_key)
    if entry is None or entry.solver not in names():
        return None
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver) or solver.version != entry.solver_version:
        return None
    config = Config(dict(entry.config))
    blob = _stored(chosen, entry, found)
    if found.kind != "cpu":
        if blob is None:
            return None
        return callable_of(asked, _code(asked, found, solver, config, blob), gpu_name(found))
    blob = blob or solver.compile(solver.lower(asked, found, config))
    return callable_of(asked, _code(asked, found, solver, config, blob), found.name)


def _stored(settings: Settings, entry: BankEntry, device: Device) -> Blob | None:
    digest = str(entry.evidence.get("artifact", ""))
    abi = ABI if device.kind == "cpu" else GPU_ABI
    try:
        data = ArtifactStore(settings.user_dir / ARTIFACTS).get(digest) if digest else None
        return Blob(data, abi=abi) if data else None
    except StorageError:
        return None


def _code(
    problem: Problem, device: Device, solver: BuildingSolver, config: Config, blob: Blob
) -> KernelCode:
    slots = tuple(solver.slots(problem, device, config))
    return KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
