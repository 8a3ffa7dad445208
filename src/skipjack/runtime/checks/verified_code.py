"""From an entry of the bank, or a config, to machine code that was verified on this machine."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank import BankEntry, next_best
from skipjack.core import Candidate, Config, Device, Problem
from skipjack.errors import SkipjackError, StorageError
from skipjack.execute import Checker
from skipjack.operations import MEMORY_SHARE, arrays_bytes, get, outputs
from skipjack.reading import quoted
from skipjack.runtime.checks.background import StillCheckingError, check_in_background
from skipjack.runtime.local_kernels import (
    KernelCode,
    TunedKernel,
    VerifiedKernel,
    VerifiedKernels,
    entry_key,
    kernel_key,
)
from skipjack.runtime.process import warn_once
from skipjack.settings import Settings
from skipjack.solvers import (
    BuildingSolver,
    SourceAware,
    build_identity,
    find_solver,
    is_known,
    refusal,
    source_key,
    tolerance_factor_of,
)

if TYPE_CHECKING:
    from skipjack.execute.pool import Build


# Verifying kernels for this CPU: they run in this process, on random inputs.


class KernelVerifier:
    """Verifies kernels of one problem; the reference results are computed once."""

    def __init__(self, problem: Problem, memory_bytes: int) -> None:
        self._problem, self._memory_bytes = problem, memory_bytes

    def fault(self, kernel: TunedKernel, tolerance_factor: float) -> str:
        """Why a kernel is wrong, on aligned and on unaligned arrays; empty if it is right."""
        memory = self._memory_bytes
        if memory and arrays_bytes(self._problem) > MEMORY_SHARE * memory:
            return "its arrays are too large for a check on this machine"
        return self._fault_on(self._aligned, kernel, tolerance_factor) or self._fault_on(
            self._unaligned, kernel, tolerance_factor
        )

    @cached_property
    def _aligned(self) -> Checker:
        return Checker(self._problem)

    @cached_property
    def _unaligned(self) -> Checker:
        return self._aligned.unaligned()

    def _fault_on(self, checker: Checker, kernel: TunedKernel, tolerance_factor: float) -> str:
        problem = self._problem
        checker.prepare()
        inputs = [checker.arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
        out = {tensor.name: checker.arrays[tensor.name] for tensor in outputs(problem)}
        kernel.bind(*inputs, out=out)()
        verdict = checker.verdict(tolerance_factor)
        return "" if verdict.right else verdict.reason


# From an entry of the bank to machine code that was verified on this machine.
#
# An entry proposes a solver and a config. Everything else in it, including which machine code it
# refers to, is not trusted.

log = logging.getLogger(__name__)

_LONGEST_REASON = 300


class UnusableEntryError(SkipjackError):
    """An entry of the bank cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class UsableEntry:
    """An entry that works on this machine."""

    entry: BankEntry
    code: KernelCode | None
    """None for a library."""
    passed_over: str = ""
    """Why better entries were not used; empty if there was none."""


def usable_entry(
    entries: Sequence[BankEntry],
    problem: Problem,
    device: Device,
    settings: Settings,
    *,
    ledger: bool = True,
    patience_s: float | None = None,
) -> UsableEntry:
    """The first entry that works here, or else one from the user's ledger, if `ledger` is true.

    The entries have one key, the best first. An entry from another machine may have stronger
    evidence and still not work here, so each is checked. `UnusableEntryError` says what is wrong
    with the first if none works. `patience_s` is passed to `candidate_code`.
    """
    useless: list[UnusableEntryError] = []
    for entry in _candidates(entries, settings.user_dir if ledger else None):
        try:
            code = code_of(entry, problem, device, settings, patience_s)
        except UnusableEntryError as error:
            useless.append(error)
            continue
        passed_over = f"{_all(useless)}; {_named(entry)} is used instead" if useless else ""
        return UsableEntry(entry, code, passed_over)
    raise UnusableEntryError(_all(useless)) from useless[0]


def _all(useless: Sequence[UnusableEntryError]) -> str:
    """What is wrong with the first of these entries, and their number."""
    if len(useless) < 2:
        return "".join(map(str, useless))
    return f"{len(useless)} entries cannot be used, the first because {useless[0]}"


def _candidates(entries: Sequence[BankEntry], user_dir: Path | None) -> Iterator[BankEntry]:
    """The bank's entries, then those of the ledger in this directory, the best first."""
    yield from entries
    if user_dir is None:
        return
    # A program that only looks things up need not load SQLite.
    from skipjack.ledger import FILE_NAME, Ledger

    if not (user_dir / FILE_NAME).is_file():
        return
    try:
        with Ledger.read(user_dir) as ledger:
            others = next_best(ledger, entries[0])
    except SkipjackError as error:
        log.info("cannot search the ledger for a kernel of %s: %s", entries[0].problem, error)
        return
    yield from (one for one in others if one not in entries)


def _named(entry: BankEntry) -> str:
    config = ", ".join(f"{name}={value}" for name, value in entry.config.items())
    return f"{quoted(entry.solver)} with {quoted(config)}" if config else quoted(entry.solver)


def code_of(
    entry: BankEntry,
    problem: Problem,
    device: Device,
    settings: Settings,
    patience_s: float | None = None,
) -> KernelCode | None:
    """The machine code of an entry for this problem on this device; None for a library.

    Code that was not verified here before is built and checked: see `candidate_code`.
    `UnusableEntryError` says what is wrong with the entry.
    """
    try:
        return _built_code(entry, problem, device, settings, patience_s)
    except (UnusableEntryError, StillCheckingError):
        raise
    except Exception as error:  # the entry may be malformed
        raise UnusableEntryError(
            f"the bank's entry cannot be used: {reason_of(error)}; tune it here"
        ) from error


def reason_of(error: Exception) -> str:
    """The message of an error, which may quote the entry: truncated, without control characters."""
    said = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    said = said[:_LONGEST_REASON]
    return said if said.isprintable() else ascii(said)


def solver_of(entry: BankEntry) -> BuildingSolver | None:
    """The solver of an entry, if it is known here in the same version; None for a library."""
    if not is_known(entry.solver):
        raise UnusableEntryError(
            f"the bank's kernel is by solver {quoted(entry.solver)}, which is not known here; "
            "if the solver is in a plug-in, name that in SKIPJACK_PLUGINS or --plugin"
        )
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver):
        return None
    if solver.version != entry.solver_version:
        raise UnusableEntryError(
            f"the bank's kernel is by version {entry.solver_version} of solver {solver.name}, "
            f"which has version {solver.version} now; tune it again"
        )
    return solver


def _built_code(
    entry: BankEntry,
    problem: Problem,
    device: Device,
    settings: Settings,
    patience_s: float | None,
) -> KernelCode | None:
    solver = solver_of(entry)
    if solver is None:
        if reason := refusal(find_solver(entry.solver), problem, device):
            raise UnusableEntryError(
                f"{entry.solver}, which the bank names, cannot compute it: {reason}; tune it here"
            )
        return None
    candidate = Candidate(problem, solver.name, Config(dict(entry.config)))
    ready = None
    if device.kind != "cpu":
        from skipjack.runtime.checks.gpu_code import shipped_build

        ready = functools.partial(shipped_build, entry, candidate, solver, device, settings)
    return candidate_code(candidate, device, settings, patience_s=patience_s, ready=ready)


def candidate_code(
    candidate: Candidate,
    device: Device,
    settings: Settings,
    *,
    whose: str = "the bank's",
    patience_s: float | None = None,
    ready: Callable[[], tuple[KernelCode, Build] | None] | None = None,
    verifier: KernelVerifier | None = None,
) -> KernelCode:
    """The machine code of a config; if it was not verified here before, it is built and checked.

    If that takes longer than `patience_s`, it continues in the background: `StillCheckingError`.
    If `patience_s` is None, the call waits on a CPU, and builds nothing for a GPU, which would take
    seconds. `UnusableEntryError` says what is wrong with the config. A build that `ready` returns
    is checked instead of a new one. `verifier` may have verified other kernels of the problem.
    """
    solver = find_solver(candidate.solver)
    assert isinstance(solver, BuildingSolver), "libraries were handled before"
    identity = build_identity(candidate.problem, solver, device)
    key = kernel_key(candidate.problem, solver.name, solver.version, candidate.config, identity)
    store = VerifiedKernels(settings)
    known = _known(store, key, candidate, solver, device)
    if known is not None:
        return known
    what = f"{whose} config {quoted(str(candidate.config) or '{}')}"
    if reason := refusal(solver, candidate.problem, device):
        raise UnusableEntryError(
            f"solver {solver.name} of {whose} kernel cannot compute it: {reason}; tune it here"
        )
    if not solver.space(candidate.problem, device).contains(candidate.config):
        raise UnusableEntryError(
            f"{what} is not in the space of solver {solver.name}; tune it here"
        )
    at_hand = ready() if ready else None
    if (
        device.kind != "cpu"
        and at_hand is None
        and (patience_s is None or find_spec("triton") is None)
    ):
        why = "" if patience_s is None else ", and Triton, which would build it, is not installed"
        raise UnusableEntryError(
            f"{whose} kernel was not verified on this machine{why}; tune it here"
        )
    check = functools.partial(
        _checked_now, store, key, candidate, solver, device, what, at_hand, verifier
    )
    return check() if patience_s is None else check_in_background(key, check, patience_s)


def _known(
    store: VerifiedKernels,
    key: str,
    candidate: Candidate,
    solver: BuildingSolver,
    device: Device,
) -> KernelCode | None:
    """The code, if it was verified on this machine before."""
    found = store.find(key)
    if found is None:
        return None
    kernel, data = found
    problem, config = candidate.problem, candidate.config
    if isinstance(solver, SourceAware) and not solver.same_source(
        problem, device, config, kernel.source, kernel.compiler
    ):
        return None
    return KernelCode(data, kernel.artifact, kernel.symbol, kernel.abi, kernel.slots)


def _checked_now(
    store: VerifiedKernels,
    key: str,
    candidate: Candidate,
    solver: BuildingSolver,
    device: Device,
    what: str,
    at_hand: tuple[KernelCode, Build] | None,
    verifier: KernelVerifier | None,
) -> KernelCode:
    """The code of a config, built if necessary, verified and stored."""
    problem, config = candidate.problem, candidate.config
    tolerance_factor = tolerance_factor_of(solver, problem)
    if device.kind == "cpu":
        source = solver.lower(problem, device, config)
        blob = solver.compile(source)
        slots = tuple(solver.slots(problem, device, config))
        code = KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
        digest, compiler = source_key(solver, source), source.compiler
        verifier = verifier or KernelVerifier(problem, device.memory_bytes)
        fault = verifier.fault(TunedKernel(problem, code), tolerance_factor)
    else:
        from skipjack.runtime.checks.gpu_code import build_for_gpu, fault_on_gpu

        code, build = at_hand or build_for_gpu(candidate, device)
        digest, compiler = build.source_digest, build.compiler
        fault = fault_on_gpu(problem, code, tolerance_factor, device)
    if fault:
        raise UnusableEntryError(f"{what} of solver {solver.name} fails: {fault}; tune it here")
    verified = VerifiedKernel(
        *(code.digest, code.symbol, code.abi, digest, compiler, code.slots),
        entry=entry_key(problem.key, solver.name, solver.version, config),
    )
    try:
        store.put(key, verified, code.data)
    except StorageError as error:
        said = f"kernels cannot be stored, so every program builds and verifies them: {error}"
        warn_once(log, said, about=("kernel cache", store.directory))
    return code
