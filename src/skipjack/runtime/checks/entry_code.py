"""From an entry of the bank to machine code that was verified on this machine.

An entry proposes a solver and a config. Everything else that it says, including which machine code
it refers to, may come from anybody and is not trusted.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.bank import BankEntry, next_best
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate
from skipjack.errors import SkipjackError, StorageError
from skipjack.reading import quoted
from skipjack.runtime.checks.beside import StillCheckingError, checked_beside
from skipjack.runtime.checks.on_cpu import KernelVerifier
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import KernelCode
from skipjack.runtime.verified import VerifiedKernel, VerifiedKernels, entry_key, kernel_key
from skipjack.runtime.warning_once import warn_once
from skipjack.settings import Settings
from skipjack.solvers import (
    BuildingSolver,
    SourceAware,
    build_identity,
    find_solver,
    is_known,
    refusal,
    slack_of,
    source_key,
)

if TYPE_CHECKING:
    from skipjack.execute.build_pool import Build

log = logging.getLogger(__name__)

_LONGEST_REASON = 300


class UselessEntryError(SkipjackError):
    """Why an entry of the bank is passed over."""


@dataclass(frozen=True, slots=True)
class Usable:
    """An entry that works on this machine."""

    entry: BankEntry
    code: KernelCode | None
    """None for that of a library."""
    passed_over: str = ""
    """Why the bank's own entry was not taken; empty if it was."""


def usable(
    entries: Sequence[BankEntry],
    problem: Problem,
    device: Device,
    settings: Settings,
    *,
    ledger: bool = True,
    patience_s: float | None = None,
) -> Usable:
    """The first entry that works here, or else what this user's ledger knows, if that is asked.

    Entries are of one key, the best first. An entry of others may have stronger evidence and yet
    be of no use here: each is checked for itself. `UselessEntryError` says what is wrong with the
    first where there is no other. `patience_s` is that of `candidate_code`.
    """
    useless: list[UselessEntryError] = []
    for entry in _candidates(entries, settings.user_dir if ledger else None):
        try:
            code = code_of(entry, problem, device, settings, patience_s)
        except UselessEntryError as error:
            useless.append(error)
            continue
        passed_over = f"{_all(useless)}; until then {_named(entry)} is used" if useless else ""
        return Usable(entry, code, passed_over)
    raise UselessEntryError(_all(useless)) from useless[0]


def _all(useless: Sequence[UselessEntryError]) -> str:
    """What is wrong with the first of these entries, and how many there are."""
    if len(useless) < 2:
        return "".join(map(str, useless))
    return f"{len(useless)} entries are of no use, the first since {useless[0]}"


def _candidates(entries: Sequence[BankEntry], user_dir: Path | None) -> Iterator[BankEntry]:
    """What is known, the best first: the bank's entries, then those of the ledger there."""
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
        log.info("the ledger is not asked for another kernel of %s: %s", entries[0].problem, error)
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
    """The machine code of an entry for this problem on this device; None for that of a library.

    What was not verified here before is built and checked: see `candidate_code`.
    `UselessEntryError` says what is wrong with the entry.
    """
    try:
        return _code_of(entry, problem, device, settings, patience_s)
    except (UselessEntryError, StillCheckingError):
        raise
    except Exception as error:  # an entry may be odd in any way
        raise UselessEntryError(
            f"the bank's entry cannot be used: {reason_of(error)}; tune it here"
        ) from error


def reason_of(error: Exception) -> str:
    """What an error says, which may quote the entry: cut, and without control characters."""
    said = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    said = said[:_LONGEST_REASON]
    return said if said.isprintable() else ascii(said)


def solver_of(entry: BankEntry) -> BuildingSolver | None:
    """The solver that an entry proposes, if it is here and means the same; None for a library."""
    if not is_known(entry.solver):
        raise UselessEntryError(
            f"the bank's kernel is of solver {quoted(entry.solver)}, which is not known here; "
            "if it is of a plug-in, name that in SKIPJACK_PLUGINS or --plugin"
        )
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver):
        return None
    if solver.version != entry.solver_version:
        raise UselessEntryError(
            f"the bank's kernel is of version {entry.solver_version} of solver {solver.name}, "
            f"which is {solver.version} now; tune it again"
        )
    return solver


def _code_of(
    entry: BankEntry,
    problem: Problem,
    device: Device,
    settings: Settings,
    patience_s: float | None,
) -> KernelCode | None:
    solver = solver_of(entry)
    if solver is None:
        if reason := refusal(find_solver(entry.solver), problem, device):
            raise UselessEntryError(
                f"{entry.solver}, which the bank names, cannot do it: {reason}; tune it here"
            )
        return None
    candidate = Candidate(problem, solver.name, Config(dict(entry.config)))
    ready = None
    if device.kind != "cpu":
        from skipjack.runtime.checks import shipped_build

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
    """The machine code of a config; what was not verified here before is built and checked, once.

    Where that takes longer than `patience_s`, it goes on beside the program: `StillCheckingError`.
    If that is None, it is waited for on a CPU; for a GPU, which takes seconds, nothing is built.
    `UselessEntryError` says what is wrong with the config. A build that `ready` gives is checked
    instead of one that is made. `verifier` is one that has verified others of the problem.
    """
    solver = find_solver(candidate.solver)
    assert isinstance(solver, BuildingSolver), "told from libraries before"
    identity = build_identity(candidate.problem, solver, device)
    key = kernel_key(candidate.problem, solver.name, solver.version, candidate.config, identity)
    store = VerifiedKernels(settings)
    known = _known(store, key, candidate, solver, device)
    if known is not None:
        return known
    what = f"{whose} config {quoted(str(candidate.config) or '{}')}"
    if reason := refusal(solver, candidate.problem, device):
        raise UselessEntryError(
            f"solver {solver.name} of {whose} kernel cannot do it: {reason}; tune it here"
        )
    if not solver.space(candidate.problem, device).contains(candidate.config):
        raise UselessEntryError(f"{what} is not in the space of solver {solver.name}; tune it here")
    at_hand = ready() if ready else None
    if (
        device.kind != "cpu"
        and at_hand is None
        and (patience_s is None or find_spec("triton") is None)
    ):
        why = "" if patience_s is None else ", and Triton, which builds it, is not installed"
        raise UselessEntryError(
            f"{whose} kernel was not verified on this machine{why}; tune it here"
        )
    check = functools.partial(
        _checked_now, store, key, candidate, solver, device, what, at_hand, verifier
    )
    return check() if patience_s is None else checked_beside(key, check, patience_s)


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
    """The code of a config in the solver's space, built if that is not done, and verified."""
    problem, config = candidate.problem, candidate.config
    slack = slack_of(solver, problem)
    if device.kind == "cpu":
        source = solver.lower(problem, device, config)
        blob = solver.compile(source)
        slots = tuple(solver.slots(problem, device, config))
        code = KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
        digest, compiler = source_key(solver, source), source.compiler
        verifier = verifier or KernelVerifier(problem, device.memory_bytes)
        fault = verifier.fault(TunedKernel(problem, code), slack)
    else:
        from skipjack.runtime.checks.on_gpu import build_for_gpu, fault_on_gpu

        code, build = at_hand or build_for_gpu(candidate, device)
        digest, compiler = build.source_digest, build.compiler
        fault = fault_on_gpu(problem, code, slack, device)
    if fault:
        raise UselessEntryError(f"{what} of solver {solver.name} fails: {fault}; tune it here")
    verified = VerifiedKernel(
        *(code.digest, code.symbol, code.abi, digest, compiler, code.slots),
        entry=entry_key(problem.key, solver.name, solver.version, config),
    )
    try:
        store.put(key, verified, code.data)
    except StorageError as error:
        said = f"kernels are not kept, so that every program builds and verifies them: {error}"
        warn_once(log, said, about=("kernel cache", store.directory))
    return code
