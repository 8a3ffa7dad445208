"""From a label's finished jobs to the kernels that ship: winners with their machine code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from skipjack.bank.kernel_db import KernelRecord, gain_of
from skipjack.errors import ProblemError, StorageError, UsageError
from skipjack.fleet.records import JobKind, Known
from skipjack.fleet.winners import same_kernel, winner_of
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.identity import definition_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skipjack.fleet.store import JobVerdict
    from skipjack.fleet.store_protocols import LabelResults


@dataclass(frozen=True, slots=True)
class Winner:
    """A kernel that ships, and what it was made with."""

    record: KernelRecord
    toolchain: str
    packed: bool
    """Its job was to build it for this; else a tuning or a find left it."""
    outdated: bool = False
    """Another kernel was packed than the one that wins now."""

    @property
    def rank(self) -> tuple[bool, float]:
        """Smaller is better, among builds of one kernel."""
        time_ns = self.record.time_ns
        return not self.packed, float("inf") if time_ns is None else time_ns

    @property
    def known(self) -> Known:
        """The solver and the config."""
        return Known(self.record.solver, self.record.config)


def winners(results: LabelResults, label: str) -> Iterator[tuple[KernelRecord, bytes]]:
    """The winner of each problem and device of a label, with its code."""
    for winner in winning(results, label):
        record = winner.record
        yield record, artifact(results, label, record.artifact, record.problem)


def winning(results: LabelResults, label: str, device: str | None = None) -> list[Winner]:
    """The winner of each problem and device, as it was packed, or else as its job left it."""
    found: list[Winner] = []
    jobs = 0
    for _, group in groupby(results.verdicts(label, device), lambda verdict: verdict.problem):
        by_device: dict[str, list[JobVerdict]] = {}
        for verdict in group:
            jobs += 1
            by_device.setdefault(verdict.device, []).append(verdict)
        found += filter(None, map(_chosen, by_device.values()))
    if not found:
        why = "has no finished job yet" if not jobs else "has no job that found a kernel"
        raise UsageError(f"label {label} {why}; skipjack status -l {label} shows how far it is")
    return found


def _chosen(verdicts: Sequence[JobVerdict]) -> Winner | None:
    """Of all builds for a problem and a device, that of what `winner_of` says is to ship."""
    built = [
        Winner(record, verdict.toolchain, verdict.kind is JobKind.KERNELS)
        for verdict in verdicts
        if (record := _record(verdict))
    ]
    newest_first = sorted(verdicts, key=lambda one: (one.updated, one.job), reverse=True)
    known = winner_of([(one.kind, one.result) for one in newest_first])
    fitting = [one for one in built if known is None or same_kernel(one.known, known)]
    # If the winner left no code behind, another that did is better than none.
    best = min(fitting or built, key=lambda one: one.rank, default=None)
    if best is None:
        return None
    outdated = any(one.packed for one in built if one not in fitting)
    return replace(best, record=_with_gain(best, fitting), outdated=outdated)


def _with_gain(best: Winner, same: Iterable[Winner]) -> KernelRecord:
    """Its record; a job that only packed a kernel has met no library, the one that found it has."""
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
    """Machine code of the store; `StorageError` says of what it was and what to do."""
    fetched = results.artifacts([digest])
    if digest not in fetched.whole:
        raise StorageError(
            f"the code of {what} {fetched.lost[digest]}; "
            f"skipjack reset -l {label} --state evaluated --to new builds it again"
        )
    return fetched.whole[digest]


def _record(job: JobVerdict) -> KernelRecord | None:
    from skipjack.fleet.store.machines.devices import by_name, of_record

    verdict: Mapping[str, Any] = job.result
    if job.kind is JobKind.FIND:  # a library may be first; what ships is the fastest that was built
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
    """Of its operation, as it is here; empty where that is not known."""
    try:
        return definition_digest(parse(problem))
    except (ProblemError, UsageError):
        return ""


def _solver_version(verdict: Mapping[str, Any]) -> int:
    """Of who tuned it, which solvers here may have left behind; older verdicts do not say it."""
    known = verdict.get("solver_version")
    return find_solver(verdict["solver"]).version if known is None else int(known)
