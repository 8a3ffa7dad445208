"""From a label's finished jobs to the ledger and the bank of this user.

All facts go into the ledger, and the verdicts are offered to the bank, which gives out the one with
the strongest evidence of each problem and class of devices, its own perhaps. Jobs of several
solvers ran in sessions of their own, so what compares is their gain over the library that
was timed beside each: see `skipjack.bank.evidence`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skipjack.bank import Bank, BankEntry, Changes
from skipjack.bank.bank import PROJECTED
from skipjack.errors import UsageError
from skipjack.fleet.store import JobResult
from skipjack.ledger import Ledger, read_facts

if TYPE_CHECKING:
    from skipjack.fleet.store_protocols import LabelResults

log = logging.getLogger(__name__)


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
    new: int
    replaced: int
    kept: int
    """Entries of the bank that stayed, having stronger evidence."""


def project(results: LabelResults, label: str, ledger: Ledger, bank: Bank) -> Projection:
    """Take a label's results in; doing so again changes nothing."""
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
