"""Rankings of problems: of a label's jobs, of a bank, of a file."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from skipjack.bank import FIND, Bank, BankEntry, entry_device_names, stronger
from skipjack.devices import local_devices
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.release.results.rankings import FoundProblem, RankedEntry, ranked
from skipjack.fleet.release.results.readiness import RANKINGS
from skipjack.interop.miopen import Family, FindKey, algorithm_name, key_of
from skipjack.operations import parse
from skipjack.solvers import find_solver

if TYPE_CHECKING:
    from skipjack.fleet.labels import LabelResults
    from skipjack.fleet.store import JobVerdict


# The family of algorithms in MIOpen's terms to which a solver belongs.


def family_of(solver: str) -> Family:
    """The family that a solver declares; Direct for a solver of a plug-in that is not loaded."""
    try:
        return find_solver(solver).algorithm
    except SkipjackError:
        return "Direct"


# Entries of a bank for files that are named after a device, such as ``znver4/1``.
#
# CPUs with one name may differ in the width of their vectors, and a config for one width is not
# valid for another. A file is for only one of them.

log = logging.getLogger(__name__)


def entries_of(bank: Bank, device: str | None = None) -> list[BankEntry]:
    """The entries for all devices or one, with one vector width per name and default deployment.

    The width is that of the device with this name on this machine, or else the largest. Entries of
    other widths are left out with a warning, entries with pinned settings without one.
    """
    usual = (one for one in bank.entries() if one.usual and not one.evidence.pinned)
    entries = [one for one in usual if device in (None, one.device_name)]
    names = entry_device_names(entries)
    chosen = _chosen_widths([one for one in entries if names[one.device] != one.device_name])
    kept, left = [], Counter[str]()
    for entry in entries:
        apart = names[entry.device] != entry.device_name
        if apart and entry.evidence.vector_bytes != chosen[entry.device_name]:
            left[names[entry.device]] += 1
        else:
            kept.append(entry)
    for name, count in sorted(left.items()):
        log.warning(
            "%d entries of %s are left out: the file is for the %d-bit device of this name",
            *(count, name, 8 * chosen[name.partition(" ")[0]]),
        )
    return kept


def _chosen_widths(entries: list[BankEntry]) -> dict[str, int]:
    """The chosen vector width of each device name."""
    if not entries:
        return {}
    present = {one.name: one.vector_bytes for one in local_devices()}
    widths: dict[str, set[int]] = {}
    for entry in entries:
        widths.setdefault(entry.device_name, set()).add(entry.evidence.vector_bytes)
    return {
        name: present[name] if present.get(name) in known else max(known)
        for name, known in widths.items()
    }


# Rankings of problems: of a label's jobs, of a bank, of a file.
#
# There is one `FoundProblem` for each problem and device. In a label, finds and jobs of MIOpen rank
# solvers; their results for a problem are merged into one ranking. All sources are read lazily.


def found_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> Iterator[FoundProblem]:
    """The results of a label's finds, for all devices or one, in the order of imports."""
    return found_in(results.verdicts(label, device))


def found_in(verdicts: Iterable[JobVerdict]) -> Iterator[FoundProblem]:
    """The results of some jobs, of which those of one problem must be adjacent."""
    for key, group in groupby(verdicts, lambda verdict: verdict.problem):
        jobs: dict[str, list[JobVerdict]] = {}
        for verdict in group:
            if RANKINGS.includes(verdict.kind, verdict.driver):
                jobs.setdefault(verdict.device, []).append(verdict)
        for name, of_device in sorted(jobs.items()):
            yield _joined(key, name, of_device)


def found_in_bank(bank: Bank, device: str | None = None) -> Iterator[FoundProblem]:
    """The results of a bank's finds; of devices with one name, that with the best evidence."""
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
    """Merge the rankings of several jobs; for each solver the latest job takes precedence."""
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
    """Lines of a database of MIOpen by key; the last line of a key takes precedence."""
    return {text.partition("=")[0]: text for text in map(str, lines)}


def ranked_rows(rows: Iterable[Mapping[str, Any]], key: FindKey | None) -> Iterator[RankedEntry]:
    """Entries of the rows of a find that have a time.

    Without a key of MIOpen, entries have only the algorithms of their rows.
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
    """The parts of MIOpen's key for a problem.

    None if MIOpen has no key for it, or if its operation is of a plug-in that is not loaded.
    """
    try:
        return key_of(parse(problem))
    except UsageError:
        return None
