"""From this user's bank to the kernels that ship: winners with their machine code."""

from __future__ import annotations

from collections.abc import Iterator

from skipjack.bank import Bank, BankEntry
from skipjack.bank.entry import PERF
from skipjack.bank.kernel_db import KernelRecord
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.trial import Candidate
from skipjack.devices import here
from skipjack.errors import StorageError, UsageError
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.ledger import CandidateKey, Ledger
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import find_solver, names
from skipjack.solvers.identity import build_identity
from skipjack.solvers.solver import ABI, Blob, BuildingSolver
from skipjack.storage import ARTIFACTS, ArtifactStore


def banked(settings: Settings) -> Iterator[tuple[KernelRecord, bytes]]:
    """Kernels of the bank for this machine's devices, with their code."""
    devices = {device.class_key: device for device in here()}
    artifacts = ArtifactStore(settings.user_dir / ARTIFACTS)
    found = False
    with Ledger.open(settings.user_dir) as ledger:
        for entry in Bank.open(settings.user_dir).entries():
            device = devices.get(entry.device)
            record = _record(ledger, entry, device) if device else None
            if record is None:
                continue
            try:
                data = artifacts.get(record.artifact)
            except StorageError:
                continue  # a bank that was merged brings no machine code along
            found = True
            yield record, data
    if not found:
        raise UsageError("the bank has no kernels for this machine's devices; tune some first")


def _record(ledger: Ledger, entry: BankEntry, device: Device) -> KernelRecord | None:
    if entry.kind != PERF or entry.solver not in names():
        return None
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver) or solver.version != entry.solver_version:
        return None
    problem, config = parse(entry.problem), Config(dict(entry.config))
    digest = str(entry.evidence.get("artifact", ""))
    if not digest:
        return None
    symbol, abi = _entrance(ledger, Candidate(problem, solver.name, config), digest, device)
    return KernelRecord(
        entry.problem,
        device.name,
        device.compat_key,
        solver.name,
        solver.version,
        entry.config,
        digest,
        symbol,
        abi,
        tuple(solver.slots(problem, device, config)),
        entry.time_ns,
        entry.vendor,
        entry.vendor_ns,
    )


def _entrance(ledger: Ledger, candidate: Candidate, digest: str, device: Device) -> tuple[str, str]:
    """The symbol and ABI of what was banked: the candidate may have been built anew since."""
    key = CandidateKey.of(candidate, find_solver(candidate.solver).version)
    identity = build_identity(candidate.problem, find_solver(candidate.solver), device)
    build = ledger.find_build(key, identity, device.compat_key)
    if build is not None and build.artifact_digest == digest:
        return build.symbol, build.abi
    blob = Blob(b"", abi=ABI if device.kind == "cpu" else GPU_ABI)
    return blob.symbol, blob.abi
