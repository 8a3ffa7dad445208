"""From a label's finished jobs to the ledger and the bank of this user.

All facts go into the ledger, and the best of the label's jobs for a problem and a class of devices
into the bank. Jobs of several solvers ran in sessions of their own, so their times do not compare:
their gains over a library that was timed beside each do. Only where they have no library in common
do times decide. Rankings of solvers are entries of their own, of which the newest counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from skipjack.bank import Bank, BankEntry
from skipjack.bank.bank import PROJECTED
from skipjack.bank.entry import Key, newer
from skipjack.core.config import Config
from skipjack.errors import StorageError, UsageError
from skipjack.fleet.store.jobs import JobResult
from skipjack.ledger import Ledger, VerdictRecord
from skipjack.ledger.facts import read_facts
from skipjack.storage import timestamp

BANKED, FOUND = PROJECTED


class Results(Protocol):
    """What a projection reads of a `Store`."""

    def results(self, label: str) -> Iterator[JobResult]:
        """The label's evaluated jobs."""
        ...


@dataclass(frozen=True, slots=True)
class Projection:
    """What came of it."""

    label: str
    jobs: int
    """Finished ones."""
    rows: int
    """New in the ledger."""
    entries: int
    """Problems on classes of devices for which something was found."""
    changed: int
    """Entries of the bank that are new or different now."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    study: str
    entry: BankEntry


def project(store: Results, label: str, ledger: Ledger, bank: Bank) -> Projection:
    """Take a label's results in; doing so again changes nothing."""
    jobs = rows = 0
    found: dict[Key, list[_Verdict]] = {}
    rankings: dict[Key, BankEntry] = {}
    for result in store.results(label):
        jobs += 1
        rows += sum(ledger.add_facts(text) for text in result.facts)
        verdict = _last(_verdicts(result, BANKED))
        if verdict is not None:
            found.setdefault(verdict.entry.key, []).append(verdict)
        ranking = _last(_verdicts(result, FOUND))
        if ranking is not None:
            key = ranking.entry.key
            known = rankings.get(key)
            rankings[key] = newer(known, ranking.entry) if known else ranking.entry
    if not jobs:
        raise UsageError(
            f"label {label} has no finished job yet; skipjack status -l {label} shows how far it is"
        )
    best = [_undisputed(ledger, rivals) for rivals in found.values()]
    best += rankings.values()
    return Projection(label, jobs, rows, len(best), bank.add(best) if best else 0)


def _verdicts(result: JobResult, status: str) -> Iterator[_Verdict]:
    for text in result.facts:
        for row in read_facts(text).get("verdicts", ()):
            if row["status"] == status:
                yield _Verdict(row["study"], _entry(row["record"], result))


def _entry(record: str, result: JobResult) -> BankEntry:
    try:
        return BankEntry.from_record(json.loads(record))
    except ValueError as error:
        raise StorageError(
            f"the verdict of job {result.job.id} is not an entry of a bank: {error}"
        ) from None


def _last(verdicts: Iterable[_Verdict]) -> _Verdict | None:
    """A job that was evaluated twice has its second word."""
    last: _Verdict | None = None
    for verdict in verdicts:
        if last is None or newer(last.entry, verdict.entry) is verdict.entry:
            last = verdict
    return last


def best_of(entries: Iterable[BankEntry]) -> BankEntry:
    """The best of several for one problem and class of devices, whatever their order.

    Those that were compared with the same library are compared by their gain over it, the best of
    each such group by time.
    """
    leaders: dict[str, BankEntry] = {}
    for entry in entries:
        vendor = entry.vendor if gain(entry) is not None else ""
        leader = leaders.get(vendor)
        rank = _by_gain if vendor else _by_time
        leaders[vendor] = entry if leader is None else min(leader, entry, key=rank)
    return min(leaders.values(), key=_by_time)


def gain(entry: BankEntry) -> float | None:
    """How much faster than the library it was compared with; None without one."""
    if not entry.vendor or not entry.vendor_ns:
        return None
    if not entry.config and not entry.evidence.get("artifact"):
        return entry.vendor_ns / entry.time_ns  # a library won: the ratio is that of our own best
    ratio = entry.speedup.get("vendor", {}).get("ratio")
    return float(ratio) if ratio is not None and math.isfinite(ratio) else None


def _by_gain(entry: BankEntry) -> tuple[float, float, str]:
    return -(gain(entry) or 0.0), entry.time_ns, entry.line


def _by_time(entry: BankEntry) -> tuple[float, str]:
    return entry.time_ns, entry.line


def _undisputed(ledger: Ledger, rivals: list[_Verdict]) -> BankEntry:
    """The best of the rivals, dated after all of them.

    Banks keep the newer entry, also when they are made anew from the ledger. So where a loser is
    newer, the winner's verdict is written once more, a microsecond after the last of them.
    """
    best = best_of(rival.entry for rival in rivals)
    last = max(rival.entry.created for rival in rivals)
    if all(rival.entry is best or rival.entry.created < best.created for rival in rivals):
        return best
    again = replace(best, created=_just_after(last))
    study = next(rival.study for rival in rivals if rival.entry is best)
    ledger.add_verdict(
        VerdictRecord(
            study,
            again.problem,
            again.device,
            again.solver,
            Config(dict(again.config)),
            BANKED,
            again.record(),
            again.created,
        )
    )
    return again


def _just_after(created: str) -> str:
    return timestamp(datetime.fromisoformat(created) + timedelta(microseconds=1))
