"""Summaries of a ledger for pages and reports, and its searches page by page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skipjack.errors import UsageError
from skipjack.ledger.studies import TOLD_MARK

if TYPE_CHECKING:
    from skipjack.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """A problem with studies, as a row of tables."""

    key: str
    studies: int
    solvers: int
    devices: int
    newest: str
    """When its newest study was started."""
    trials: int
    """Trials since its studies started over."""
    decisions: int


@dataclass(frozen=True, slots=True)
class LedgerStudy:
    """A study of a problem, with its progress since it last started over."""

    id: str
    problem: str
    solver: str
    solver_version: int
    device: str
    searcher: str
    seed: str
    objective: str
    protocol: str
    created: str
    trials: int
    failed: int
    best: float | None


@dataclass(frozen=True, slots=True)
class CommandRuns:
    """The runs of a benchmark's sweeps, by its workload."""

    workload: str
    runs: int
    failed: int
    points: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class FailedBuilds:
    """Builds that failed for the same reason."""

    status: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """The number of rows of a ledger by kind."""

    studies: int
    trials: int
    candidates: int
    builds: int
    measurements: int
    decisions: int


_SORTS = {
    "key": "problem",
    "studies": "count(*)",
    "solvers": "count(DISTINCT solver)",
    "devices": "count(DISTINCT device)",
    "newest": "max(created)",
}
PROBLEM_ORDERS = tuple(_SORTS)
"""Columns that the table of problems can be sorted by."""

_PAGE = """
    SELECT problem AS key, {value} AS value FROM studies
    {where} GROUP BY problem ORDER BY {order} LIMIT :limit OFFSET :offset
"""
_CONTAINING = "WHERE instr(lower(problem), lower(:contains))"
_PROBLEMS = """
    SELECT problem AS key, count(*) AS studies, count(DISTINCT solver) AS solvers,
    count(DISTINCT device) AS devices, max(created) AS newest FROM studies
    WHERE problem IN (SELECT value FROM json_each(:keys)) GROUP BY problem
"""
_TRIALS = """
    SELECT studies.problem AS key, count(*) AS trials FROM studies
    JOIN current_epochs AS now ON now.study = studies.id
    JOIN study_log AS log ON log.study = studies.id AND log.solver_version = now.solver_version
    AND log.epoch = now.number AND log.kind = 'tell'
    WHERE studies.problem IN (SELECT value FROM json_each(:keys)) GROUP BY studies.problem
"""
_STUDIES = """
    SELECT studies.id, problem, solver, now.solver_version, device, searcher, seed, objective,
    protocols.text AS protocol, studies.created, count(log.id) AS trials,
    count(log.id) - count(log.value) AS failed, min(log.value) AS best
    FROM studies JOIN current_epochs AS now ON now.study = studies.id
    JOIN protocols ON protocols.id = studies.protocol
    LEFT JOIN study_log AS log ON log.study = studies.id
    AND log.solver_version = now.solver_version AND log.epoch = now.number AND log.kind = 'tell'
    WHERE studies.problem = ? GROUP BY studies.id ORDER BY studies.created DESC, studies.id
"""


@dataclass(frozen=True, slots=True)
class _LogCount:
    """Rows of a study log up to one of them."""

    last: int = 0
    """Its row number."""
    id: str | None = None
    """Its id: another file has another row there."""
    total: int = 0
    tells: int = 0


@dataclass(frozen=True, slots=True)
class _FailedCount:
    """Failed builds up to one of them, by status and reason."""

    last: int = 0
    """Its row number."""
    id: str | None = None
    """Its id: another file has another row there."""
    total: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)


_File = tuple[Path, int]
"""The path and the inode of a ledger's file."""

_failed: dict[_File, _FailedCount] = {}
_counted: dict[_File, _LogCount] = {}


class LedgerBrowser:
    """Reads a ledger for pages; it belongs to the ledger's thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def problems(
        self,
        *,
        contains: str = "",
        sort: str = "newest",
        descending: bool = True,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[LedgerProblem], int]:
        """A page of problems that have studies, and how many match."""
        found = self.problem_keys(
            contains=contains, sort=sort, descending=descending, offset=offset, limit=limit
        )
        where = _CONTAINING if contains else ""
        counted = f"SELECT count(DISTINCT problem) AS n FROM studies {where}"
        total = self._rows(counted, {"contains": contains})
        return self.problems_of(found), int(total[0]["n"])

    def problem_keys(
        self,
        *,
        contains: str = "",
        sort: str = "newest",
        descending: bool = True,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """The keys of a page of problems; of all with a limit of -1."""
        if sort not in _SORTS:
            raise UsageError(f"cannot sort by {sort!r}; choose one of {', '.join(_SORTS)}")
        where = _CONTAINING if contains else ""
        order = f"value {'DESC' if descending else 'ASC'}, key"
        values: dict[str, Any] = {"contains": contains, "limit": limit, "offset": offset}
        query = _PAGE.format(value=_SORTS[sort], where=where, order=order)
        return [row["key"] for row in self._rows(query, values)]

    def problems_of(self, found: Sequence[str]) -> list[LedgerProblem]:
        """The problems with these keys that are still there, in this order."""
        keys = {"keys": json.dumps(found)}
        known = {row["key"]: row for row in self._rows(_PROBLEMS, keys)}
        trials = {row["key"]: row["trials"] for row in self._rows(_TRIALS, keys)}
        decided = (
            "SELECT problem AS key, count(*) AS n FROM verdicts "
            "WHERE problem IN (SELECT value FROM json_each(:keys)) GROUP BY problem"
        )
        decisions = {row["key"]: row["n"] for row in self._rows(decided, keys)}
        return [
            LedgerProblem(**known[key], trials=trials.get(key, 0), decisions=decisions.get(key, 0))
            for key in found
            if key in known
        ]

    def studies(self, problem: str) -> list[LedgerStudy]:
        """The studies of a problem, the newest first."""
        return [LedgerStudy(**row) for row in self._rows(_STUDIES, (problem,))]

    def trials_mark(self, study: str) -> str:
        """A text that changes with the trials of a study."""
        found = self._rows(TOLD_MARK, {"study": study})[0]
        return f"{found['count']}-{found['last']}"

    def command_runs(self, prefix: str) -> list[CommandRuns]:
        """The workloads whose keys begin with a word and a colon, the last run first."""
        query = (
            "SELECT problem AS workload, count(*) AS runs, sum(status <> 'ok') AS failed, "
            "count(DISTINCT candidate) AS points, min(measurements.created) AS first, "
            "max(measurements.created) AS last FROM candidates "
            "JOIN measurements ON measurements.candidate = candidates.id "
            "WHERE problem >= ?1 || ':' AND problem < ?1 || ';' "  # ';' comes right after ':'
            "GROUP BY problem ORDER BY last DESC, problem"
        )
        return [CommandRuns(**row) for row in self._rows(query, (prefix,))]

    def counts(self) -> LedgerCounts:
        """The number of rows by kind."""
        tables = {"decisions": "verdicts"}
        counted = ", ".join(
            f"(SELECT count(*) FROM {tables.get(name, name)}) AS {name}"
            for name in ("studies", "candidates", "builds", "measurements", "decisions")
        )
        found = self._rows(f"SELECT {counted}")[0]
        return LedgerCounts(**found, trials=self._trials())

    def _trials(self) -> int:
        """The number of trials; rows that were counted before are not read again."""
        file = self._file()
        now = self._log_count(_counted.get(file, _LogCount()))
        if now is None:  # rows were deleted, or the file is another one
            now = self._log_count(_LogCount()) or _LogCount()
        _counted[file] = now
        return now.tells

    def _log_count(self, known: _LogCount) -> _LogCount | None:
        """The counts from what is known; None if that is not true anymore."""
        newer = "FROM study_log WHERE rowid > ?1"
        (row,) = self._rows(
            f"SELECT (SELECT count(*) FROM study_log) AS total, (SELECT count(*) {newer}) AS newer,"
            f" (SELECT count(*) {newer} AND kind = 'tell') AS tells,"
            " (SELECT id FROM study_log WHERE rowid = ?1) AS known,"
            " (SELECT coalesce(max(rowid), 0) FROM study_log) AS last,"
            " (SELECT id FROM study_log ORDER BY rowid DESC LIMIT 1) AS id",
            (known.last,),
        )
        if known.total + row["newer"] != row["total"] or known.id != row["known"]:
            return None
        return _LogCount(row["last"], row["id"], row["total"], known.tells + row["tells"])

    def failed_builds(self, limit: int = 20) -> list[FailedBuilds]:
        """Failed builds by reason, the most frequent first."""
        file = self._file()
        now = self._failed_count(_failed.get(file, _FailedCount()))
        if now is None:  # rows were deleted, or the file is another one
            now = self._failed_count(_FailedCount()) or _FailedCount()
        _failed[file] = now
        ordered = sorted(now.counts.items(), key=lambda one: (-one[1], one[0]))
        return [FailedBuilds(*what, count) for what, count in ordered[:limit]]

    def _failed_count(self, known: _FailedCount) -> _FailedCount | None:
        """The counts from what is known; None if that is not true anymore."""
        newer = "FROM builds WHERE rowid > ?1"
        rows = self._rows(
            f"SELECT '' AS status, '' AS reason, (SELECT count(*) {newer}) AS count,"
            " (SELECT count(*) FROM builds) AS total,"
            " (SELECT id FROM builds WHERE rowid = ?1) AS known,"
            " (SELECT coalesce(max(rowid), 0) FROM builds) AS last,"
            " (SELECT id FROM builds ORDER BY rowid DESC LIMIT 1) AS id UNION ALL "
            f"SELECT status, reason, count(*), 0, '', 0, '' {newer} AND status <> 'ok' "
            "GROUP BY status, reason",
            (known.last,),
        )
        whole, *groups = rows
        if known.total + whole["count"] != whole["total"] or known.id != whole["known"]:
            return None
        counts = dict(known.counts)
        for row in groups:
            what = row["status"], row["reason"]
            counts[what] = counts.get(what, 0) + row["count"]
        return _FailedCount(whole["last"], whole["id"], whole["total"], counts)

    def _file(self) -> _File:
        path = self._ledger.path
        return path, path.stat().st_ino if path.exists() else 0

    def _rows(self, query: str, values: Any = ()) -> list[dict[str, Any]]:
        return self._ledger.rows_of(query, values)
