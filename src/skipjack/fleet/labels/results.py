"""Results of a label: into the ledger and the bank of this user, and as kernels that ship."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from skipjack.bank import PROJECTED, Bank, BankEntry, Changes, KernelRecord, gain_of
from skipjack.errors import ProblemError, StorageError, UsageError
from skipjack.fleet.model import JobKind, PriorResult, same_kernel, winner_of
from skipjack.fleet.store import JobResult
from skipjack.ledger import Ledger, read_facts
from skipjack.operations import parse
from skipjack.solvers import definition_digest, find_solver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skipjack.fleet.store import FetchedArtifacts, JobVerdict


# Projection of a label's finished jobs into the ledger and the bank of this user.
#
# All facts are added to the ledger, and the verdicts to the bank, which keeps the entry with the
# strongest evidence for each problem and class of devices. Jobs of different solvers ran in
# separate sessions, so their gains over the library that was timed in the same session are
# compared: see `skipjack.bank.strength`.

log = logging.getLogger(__name__)


class LabelResults(Protocol):
    """The evaluated jobs of a label, with their kernels."""

    def jobs(self, label: str) -> Iterator[JobResult]:
        """The jobs with all of their facts."""
        ...

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        """Their verdicts without the facts, grouped by problem."""
        ...

    def artifacts(self, digests: Iterable[str]) -> FetchedArtifacts:
        """Machine code with a valid signature, and why the rest cannot be used."""
        ...


@dataclass(frozen=True, slots=True)
class Projection:
    """The result of a projection."""

    label: str
    jobs: int
    """Number of finished jobs."""
    rows: int
    """New rows in the ledger."""
    entries: int
    """Pairs of problem and class of devices for which a config was found."""
    changed: int
    """Entries of the bank that are new or changed."""
    new: int
    replaced: int
    kept: int
    """Entries of the bank that stayed because their evidence is stronger."""


def project(results: LabelResults, label: str, ledger: Ledger, bank: Bank) -> Projection:
    """Add a label's results to the ledger and the bank; repeating it changes nothing."""
    jobs = rows = 0
    found: list[BankEntry] = []
    for result in results.jobs(label):
        jobs += 1
        rows += sum(ledger.add_facts(text) for text in result.facts)
        found += _entries(result)
    if not jobs:
        raise UsageError(
            f"label {label} has no finished job yet; skipjack status -l {label} shows how far it is"
        )
    changes = bank.add(found) if found else Changes()
    counts = (changes.changed, changes.new, changes.replaced, changes.kept)
    return Projection(label, jobs, rows, changes.offered, *counts)


def _entries(result: JobResult) -> Iterator[BankEntry]:
    for text in result.facts:
        for row in read_facts(text).get("verdicts", ()):
            if row["status"] not in PROJECTED:
                continue
            try:
                yield BankEntry.from_line(row["record"])
            except ValueError as error:
                log.warning("left out a verdict of job %s: %s", result.job.id, error)


# The kernels that ship: winners of a label's finished jobs, with their machine code.


@dataclass(frozen=True, slots=True)
class Winner:
    """A kernel that ships, and how it was built."""

    record: KernelRecord
    toolchain: str
    packed: bool
    """Whether a kernel job built it; otherwise it comes from a tuning or a find."""
    outdated: bool = False
    """Whether another kernel was packed than the current winner."""

    @property
    def rank(self) -> tuple[bool, float]:
        """Sort key among builds of one kernel; smaller is better."""
        time_ns = self.record.time_ns
        return not self.packed, float("inf") if time_ns is None else time_ns

    @property
    def known(self) -> PriorResult:
        """The solver and the config."""
        return PriorResult(self.record.solver, self.record.config)


def winners(results: LabelResults, label: str) -> Iterator[tuple[KernelRecord, bytes]]:
    """The winner of each problem and device of a label, with its code."""
    for winner in winning(results, label):
        record = winner.record
        yield record, artifact(results, label, record.artifact, record.problem)


def winning(results: LabelResults, label: str, device: str | None = None) -> list[Winner]:
    """The winner of each problem and device, as it was packed or else as its job built it."""
    found: list[Winner] = []
    jobs = 0
    for _, group in groupby(results.verdicts(label, device), lambda verdict: verdict.problem):
        by_device: dict[str, list[JobVerdict]] = {}
        for verdict in group:
            jobs += 1
            by_device.setdefault(verdict.device, []).append(verdict)
        found += filter(None, map(_winner_of_verdicts, by_device.values()))
    if not found:
        why = "has no finished job yet" if not jobs else "has no job that found a kernel"
        raise UsageError(f"label {label} {why}; skipjack status -l {label} shows how far it is")
    return found


def _winner_of_verdicts(verdicts: Sequence[JobVerdict]) -> Winner | None:
    """Among all builds for a problem and a device, the build of what `winner_of` chooses."""
    built = [
        Winner(record, verdict.toolchain, verdict.kind is JobKind.KERNELS)
        for verdict in verdicts
        if (record := _record(verdict))
    ]
    newest_first = sorted(verdicts, key=lambda one: (one.updated, one.job), reverse=True)
    known = winner_of([(one.kind, one.result) for one in newest_first])
    fitting = [one for one in built if known is None or same_kernel(one.known, known)]
    # If the winner has no code, another build is better than none.
    best = min(fitting or built, key=lambda one: one.rank, default=None)
    if best is None:
        return None
    outdated = any(one.packed for one in built if one not in fitting)
    return replace(best, record=_with_gain(best, fitting), outdated=outdated)


def _with_gain(best: Winner, same: Iterable[Winner]) -> KernelRecord:
    """Its record; if its job timed no library, with the gain of the job that found it."""
    record = best.record
    met = [one.record for one in same if one.record.vendor and not one.packed]
    if record.vendor or not met:
        return record
    told = min(met, key=lambda one: one.time_ns or float("inf"))
    return replace(
        record,
        time_ns=told.time_ns,
        vendor=told.vendor,
        vendor_ns=told.vendor_ns,
        as_called=told.as_called,
    )


def artifact(results: LabelResults, label: str, digest: str, what: str) -> bytes:
    """Machine code of the store; the `StorageError` names `what` it belongs to and what to do."""
    fetched = results.artifacts([digest])
    if digest not in fetched.whole:
        raise StorageError(
            f"the code of {what} {fetched.lost[digest]}; "
            f"skipjack reset -l {label} --state evaluated --to new builds it again"
        )
    return fetched.whole[digest]


def _record(job: JobVerdict) -> KernelRecord | None:
    from skipjack.fleet.store import by_name, of_record

    verdict: Mapping[str, Any] = job.result
    if job.kind is JobKind.FIND:  # a library may be first; the fastest built kernel ships
        verdict = {**(verdict.get("verdict") or {}), "problem": job.problem}
    code = verdict.get("code")
    if not code:
        return None
    device = of_record(job.built_for) if job.built_for else by_name(job.device)
    return KernelRecord(
        verdict["problem"],
        device.name,
        device.compat_key,
        verdict["solver"],
        _solver_version(verdict),
        verdict["config"],
        code["digest"],
        code["symbol"],
        code["abi"],
        tuple(code["slots"]),
        verdict["time_ns"],
        verdict["vendor"],
        verdict["vendor_ns"],
        _definition(verdict["problem"]),
        gain_of(verdict.get("as_called")),
    )


def _definition(problem: str) -> str:
    """Digest of its operation's definition here; empty if the operation is unknown."""
    try:
        return definition_digest(parse(problem))
    except (ProblemError, UsageError):
        return ""


def _solver_version(verdict: Mapping[str, Any]) -> int:
    """Version of the solver that tuned it; older verdicts lack it, and take the current one."""
    known = verdict.get("solver_version")
    return find_solver(verdict["solver"]).version if known is None else int(known)
