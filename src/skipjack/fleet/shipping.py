"""From a label's finished jobs to the kernels that ship: winners with their machine code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from skipjack.bank.kernel_db import KernelRecord
from skipjack.errors import StorageError, UsageError
from skipjack.fleet.store.artifacts import Fetched
from skipjack.fleet.store.devices import by_name
from skipjack.fleet.store.jobs import JobResult
from skipjack.solvers import find_solver


class Shelves(Protocol):
    """What shipping reads of a `Store`."""

    def results(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs."""
        ...

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        """Machine code that is whole and sealed."""
        ...


def winners(store: Shelves, label: str) -> Iterator[tuple[KernelRecord, bytes]]:
    """The fastest kernel of each problem and device of a label, with its code."""
    best: dict[tuple[str, str], KernelRecord] = {}
    jobs = 0
    for result in store.results(label):
        jobs += 1
        record = _record(result)
        if record is None:
            continue
        known = best.get((record.problem, record.device))
        if known is None or _time(record) < _time(known):
            best[record.problem, record.device] = record
    if not best:
        why = "has no finished job yet" if not jobs else "has no job that found a kernel"
        raise UsageError(f"label {label} {why}; skipjack status -l {label} shows how far it is")
    for record in best.values():
        fetched = store.artifacts([record.artifact])
        if record.artifact not in fetched.whole:
            raise StorageError(
                f"the code of {record.problem} {fetched.lost[record.artifact]}; "
                f"skipjack reset -l {label} --state evaluated --to new builds it again"
            )
        yield record, fetched.whole[record.artifact]


def _record(result: JobResult) -> KernelRecord | None:
    verdict: Mapping[str, Any] = result.job.result or {}
    code = verdict.get("code")
    if not code:
        return None
    device = by_name(result.job.plan.device)
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
    )


def _time(record: KernelRecord) -> float:
    return record.time_ns if record.time_ns is not None else float("inf")


def _solver_version(verdict: Mapping[str, Any]) -> int:
    """Of who tuned it, which solvers here may have left behind; older verdicts do not say it."""
    known = verdict.get("solver_version")
    return find_solver(verdict["solver"]).version if known is None else int(known)
