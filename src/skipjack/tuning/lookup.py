"""`lookup`: the banked kernel of a problem, without tuning, workers or locks."""

from __future__ import annotations

from skipjack.bank import Bank, BankEntry
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.errors import StorageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings, load_settings
from skipjack.solvers import find_solver, names
from skipjack.solvers.solver import Blob, BuildingSolver
from skipjack.storage import ARTIFACTS, ArtifactStore
from skipjack.tuning.kernel import TunedKernel
from skipjack.tuning.result import KernelCode


def lookup(
    problem: str,
    *,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    threads: int = 1,
    settings: Settings | None = None,
) -> TunedKernel | None:
    """The kernel that the bank holds for a problem on this device; None if it holds none.

    Also None where a library is what the bank recommends. Nothing is written; machine code that is
    not in the store is compiled here, which takes some milliseconds.
    """
    chosen = settings or load_settings()
    asked = parse(problem, dtype, layout=layout, direction=direction)
    if threads > len(cpu.usable_cores()):
        return None  # nothing was tuned for what is here
    device = cpu.detect(threads)
    entry = Bank.open(chosen.user_dir).lookup(asked.key, device.class_key)
    if entry is None or entry.solver not in names():
        return None
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver) or solver.version != entry.solver_version:
        return None
    config = Config(dict(entry.config))
    blob = _stored(chosen, entry) or solver.compile(solver.lower(asked, device, config))
    return TunedKernel(asked, _code(asked, device, solver, config, blob))


def _stored(settings: Settings, entry: BankEntry) -> Blob | None:
    digest = str(entry.evidence.get("artifact", ""))
    try:
        return Blob(ArtifactStore(settings.user_dir / ARTIFACTS).get(digest)) if digest else None
    except StorageError:
        return None


def _code(
    problem: Problem, device: Device, solver: BuildingSolver, config: Config, blob: Blob
) -> KernelCode:
    slots = tuple(solver.slots(problem, device, config))
    return KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
