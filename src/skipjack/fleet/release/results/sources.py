"""Rankings of problems: of a label's jobs, of a bank, of a file.

One `FoundProblem` for each problem and device. Jobs of a label that rank are those of a find and
those of MIOpen itself; what both say of a problem is one ranking. All of it is read as it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from skipjack.bank import FIND, Bank, BankEntry, stronger
from skipjack.errors import UsageError
from skipjack.fleet.release.results.algorithms import family_of
from skipjack.fleet.release.results.bank_entries import entries_of
from skipjack.fleet.release.results.found import FoundProblem, RankedEntry, ranked
from skipjack.fleet.release.results.found_files import found_in_file
from skipjack.fleet.release.results.readiness import RANKINGS
from skipjack.interop.miopen import FindKey, algorithm_name
from skipjack.interop.miopen.keys import key_of
from skipjack.operations import parse

if TYPE_CHECKING:
    # A program that reads a bank or a file needs no SQLAlchemy.
    from skipjack.fleet.store import JobVerdict
    from skipjack.fleet.store_protocols import LabelResults

__all__ = ["FoundProblem", "RankedEntry", "found_in_bank", "found_in_file", "found_in_label"]


def found_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> Iterator[FoundProblem]:
    """What the label's finds say, of all devices or one; the order is that of the imports."""
    return found_in(results.verdicts(label, device))


def found_in(verdicts: Iterable[JobVerdict]) -> Iterator[FoundProblem]:
    """Likewise of some verdicts; all of a problem are in a row."""
    for key, group in groupby(verdicts, lambda verdict: verdict.problem):
        jobs: dict[str, list[JobVerdict]] = {}
        for verdict in group:
            if RANKINGS.includes(verdict.kind, verdict.driver):
                jobs.setdefault(verdict.device, []).append(verdict)
        for name, of_device in sorted(jobs.items()):
            yield _joined(key, name, of_device)


def found_in_bank(bank: Bank, device: str | None = None) -> Iterator[FoundProblem]:
    """What this user's finds say. Of models with one name, the strongest evidence counts."""
    kept: dict[tuple[str, str], BankEntry] = {}
    for entry in entries_of(bank, device):
        if entry.kind == FIND:
            at = (entry.problem, entry.device_name)
            kept[at] = stronger(kept[at], entry) if at in kept else entry
    for (problem, name), entry in kept.items():
        key = miopen_key(problem)
        entries = ranked(ranked_rows(entry.evidence.ranking, key))
        text = key.text if key else None
        yield FoundProblem(problem, text, name, entries, updated=entry.created)


def _joined(problem: str, device: str, jobs: Iterable[JobVerdict]) -> FoundProblem:
    """One ranking of what several jobs say; of a solver that is in two, the later job counts."""
    key = miopen_key(problem)
    entries: dict[str, RankedEntry] = {}
    lines: dict[str, str] = {}
    toolchains, updated = [], ""
    for job in sorted(jobs, key=lambda job: (job.updated, job.job)):
        for entry in ranked_rows(job.result.get("solvers", ()), key):
            entries[entry.solver] = entry
        lines |= by_key(job.result.get("miopen", {}).get("find_db", ()))
        toolchains.append(job.toolchain)
        updated = max(updated, job.updated)
    texts = "; ".join(dict.fromkeys(filter(None, toolchains)))
    found, text = ranked(entries.values()), key.text if key else None
    return FoundProblem(problem, text, device, found, texts, updated, tuple(lines.values()))


def by_key(lines: Iterable[object]) -> dict[str, str]:
    """Lines of a database of MIOpen by their keys; of one key the last counts."""
    return {text.partition("=")[0]: text for text in map(str, lines)}


def ranked_rows(rows: Iterable[Mapping[str, Any]], key: FindKey | None) -> Iterator[RankedEntry]:
    """Rows of a ranking as a find writes them; those without a time have no place.

    Without a key of MIOpen's, entries have no algorithm but what the rows say.
    """
    for row in rows:
        if row.get("status", "ok") != "ok" or row.get("time_ns") is None:
            continue
        solver = str(row["solver"])
        algorithm = algorithm_name(key.direction, family_of(solver)) if key else ""
        yield RankedEntry(
            solver,
            float(row["time_ns"]),
            int(row.get("workspace_bytes") or 0),
            str(row.get("algorithm") or algorithm),
            row.get("config") or {},
            row.get("spread"),
            int(row.get("samples") or 0),
            row.get("solver_version", row.get("version")),
        )


def miopen_key(problem: str) -> FindKey | None:
    """What MIOpen's keys say of a problem.

    None for what its files do not hold, and if the operation came with a plugin that is not
    loaded.
    """
    try:
        return key_of(parse(problem))
    except UsageError:
        return None
