"""The ledger. SQL stays in this folder; methods take and return records."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.core import Config, Device, Trial
from skipjack.errors import CorruptFileError
from skipjack.ledger import rows, studies, union
from skipjack.ledger.connection import LedgerFile
from skipjack.ledger.records import (
    BankedConfig,
    BuildRecord,
    CandidateKey,
    DecisionRecord,
    LogEntry,
    MarkRecord,
    MeasurementRecord,
    RelatedStudy,
    StudyRecord,
    Summary,
    next_number,
)
from skipjack.ledger.studies import Collected
from skipjack.ledger.union import Merged, merge_file
from skipjack.reading import parse_json
from skipjack.storage import timestamp

if TYPE_CHECKING:
    from skipjack.core import Study

_LONGEST_PAUSE = timedelta(days=1)
"""A study that has logged nothing for this long is not running."""


class _UndoneError(Exception):
    """Rolls back a dry run."""


class Ledger(LedgerFile):
    """Every candidate, build and measurement, in one file.

    Any number of processes may have it open; a method that writes does so in one transaction. An
    object belongs to the thread that opened it and must not be used across a fork. Errors of the
    file raise `StorageError`; rows are added, never changed, and only deleted by `collect`.
    """

    # Devices and studies

    def add_device(self, device: Device) -> None:
        """Record a device, so that its class key can be interpreted later."""
        row = {
            "class_key": device.class_key,
            "name": device.name,
            "record": rows.canonical_json(asdict(device)),
        }
        with self.writing():
            rows.insert(
                self._connection, "devices", [{**rows.identified(row), "created": self._now()}]
            )

    def devices(self) -> list[Device]:
        """Every recorded device, oldest first."""
        found = self._select("SELECT record FROM devices ORDER BY created, id")
        return self._readable(
            "devices", found, lambda row: Device.from_record(parse_json(row["record"]))
        )

    def start_study(self, study: Study, solver_version: int) -> StudyRecord:
        """Begin a study, or continue it if it exists.

        With a newer version of its solver it starts over; with an older version it is refused
        (`NewerFormatError`), since its configs would be misinterpreted.
        """
        with self.writing():
            studies.start(self._connection, study, solver_version, self._now())
        found = self._select(studies.STUDIES.format(where="WHERE studies.id = ?"), (study.id,))
        if not found:
            raise CorruptFileError(
                f"the ledger {self.path} is damaged (study {study.id} was written but is not "
                "found); move the file away, and the next run starts a new one"
            )
        # Its id is a digest of the study: whatever else the row says, this is the requested study.
        return rows.study_record({**found[0], **rows.study_columns(study)})

    def forget_study(self, study_id: str) -> None:
        """Start a study over. What it logged stays in the file, in an earlier epoch."""
        with self.writing():
            studies.start_over(self._connection, study_id, self._now())

    def log_ask(self, study_id: str, config: Config) -> None:
        """Log that a searcher asked for a config."""
        with self.writing():
            studies.append(self._connection, study_id, [rows.ask_columns(config)], self._now())

    def log_tells(self, study_id: str, trials: Iterable[Trial]) -> None:
        """Log the trials that a searcher was told, in this order."""
        entries = [rows.tell_columns(trial) for trial in trials]
        with self.writing():
            studies.append(self._connection, study_id, entries, self._now())

    def log(self, study_id: str) -> list[LogEntry]:
        """Asks and tells of the current epoch, in order."""
        found = self._select(studies.LOG_IN_ORDER, (study_id,))
        return self._readable("study_log", found, rows.log_entry)

    def last_trials(self, study_id: str, limit: int) -> list[tuple[int, LogEntry]]:
        """The last trials of the current epoch, each with its number from 1, in order.

        The best of all earlier ones is before them.
        """
        study: dict[str, object] = {"study": study_id}
        found = self._select(studies.LAST_TOLD, {**study, "limit": limit})[::-1]
        if not found:
            return []
        total = self._select(studies.TOLD_MARK, study)[0]["count"]
        numbered = [
            {**row, "number": number} for number, row in enumerate(found, total - len(found) + 1)
        ]
        if total > len(found):
            first = {**study, "seq": found[0]["seq"], "id": found[0]["id"]}
            for row in self._select(studies.BEST_TOLD_BEFORE, first):
                place = {**study, "seq": row["seq"], "id": row["id"]}
                number = self._select(studies.TOLD_UNTIL, place)[0]["count"]
                numbered.insert(0, {**row, "number": number})
        return self._readable(
            "study_log", numbered, lambda row: (row["number"], rows.log_entry(row))
        )

    def trials(self, study_id: str) -> list[Trial]:
        """The trials that the searcher was told in the current epoch, in order."""
        return [entry.trial for entry in self.log(study_id) if entry.trial is not None]

    def studies(self, problem: str | None = None) -> list[StudyRecord]:
        """Every study, or those of one problem key, oldest first."""
        if problem is None:
            return self._studies("")
        return self._studies("WHERE studies.problem = ?", problem)

    def related_studies(
        self, operation: str, solver: str, solver_version: int, objective: str
    ) -> list[RelatedStudy]:
        """Studies of a solver for problems of an operation, on all devices, the newest first."""
        found = self._select(
            "SELECT studies.id, problem, device FROM studies "
            "JOIN current_epochs AS now ON now.study = studies.id "
            "WHERE problem >= ?1 || ':' AND problem < ?1 || ';' AND solver = ?2 "
            "AND now.solver_version = ?3 AND objective = ?4 "
            "ORDER BY studies.created DESC, studies.id",
            (operation, solver, solver_version, objective),
        )
        return self._readable("studies", found, lambda row: RelatedStudy(**row))

    # Builds and measurements

    def find_build(self, candidate: CandidateKey, identity: str, compat: str) -> BuildRecord | None:
        """The build of a candidate, by the source to which it was last lowered.

        `identity` identifies the operation, solver and device of the lowering.
        """
        found = self._select(
            "SELECT source_digest FROM candidate_builds "
            "WHERE candidate = ? AND identity = ? AND compat = ? "
            "ORDER BY rowid DESC LIMIT 1",
            (rows.candidate_id(candidate), identity, compat),
        )
        sources = self._readable("candidate_builds", found, lambda row: str(row["source_digest"]))
        return self.find_source(sources[0], compat) if sources else None

    def find_source(self, source_digest: str, compat: str) -> BuildRecord | None:
        """The build of a source: a successful one if there is one, else the latest."""
        found = self._select(
            "SELECT * FROM builds WHERE source_digest = ? AND compat = ? "
            "ORDER BY status = 'ok' DESC, rowid DESC",
            (source_digest, compat),
        )
        return next(iter(self._readable("builds", found, rows.build_record)), None)

    def find_failed_source(
        self, source_digest: str, compat: str, solver: str, solver_version: int
    ) -> BuildRecord | None:
        """The latest lasting failure of a source; None if any machine built it.

        Failures of earlier versions of the solver do not count.
        """
        found = self._select(
            "SELECT * FROM builds AS failed WHERE source_digest = ?1 AND compat = ?2 "
            "AND NOT EXISTS (SELECT 1 FROM builds WHERE source_digest = ?1 AND compat = ?2 "
            "AND status = 'ok') AND NOT EXISTS (SELECT 1 FROM candidate_builds AS of "
            "JOIN candidates ON candidates.id = of.candidate "
            "WHERE of.source_digest = ?1 AND of.compat = ?2 "
            "GROUP BY of.source_digest "
            "HAVING max(solver <> ?3 OR solver_version >= ?4) = 0) "
            "ORDER BY rowid DESC",
            (source_digest, compat, solver, solver_version),
        )
        records = self._readable("builds", found, rows.build_record)
        return next((one for one in records if one.lasting), None)

    def add_build(self, build: BuildRecord, *candidates: CandidateKey, identity: str = "") -> None:
        """Add a build and map candidates of this identity to it.

        For a build that `find_source` returned, only the map changes.
        """
        now, source = self._now(), build.source_digest
        with self.writing():
            rows.insert(self._connection, "builds", [rows.build_row(build, now)])
            self._insert_once("candidates", rows.candidate_rows(candidates, now))
            # A replaced row becomes the last one.
            self._connection.executemany(
                "REPLACE INTO candidate_builds "
                "(candidate, compat, identity, source_digest, created) VALUES (?, ?, ?, ?, ?)",
                [
                    (rows.candidate_id(candidate), build.compat, identity, source, now)
                    for candidate in candidates
                ],
            )

    def add_measurements(self, measurements: Sequence[MeasurementRecord]) -> None:
        """Add many measurements in one transaction, in this order."""
        if not measurements:
            return
        now = self._now()
        candidates = rows.candidate_rows((one.candidate for one in measurements), now)
        protocols = rows.protocol_rows((one.protocol for one in measurements), now)
        with self.writing():
            self._insert_once("candidates", candidates)
            self._insert_once("protocols", protocols)
            first = next_number(self._connection, now)
            rows.insert(
                self._connection,
                "measurements",
                [
                    rows.measurement_row(one, place, now)
                    for place, one in enumerate(measurements, start=first)
                ],
            )

    def measurements(self, problem_key: str) -> list[MeasurementRecord]:
        """Every measurement of a problem, in the order in which they were written."""
        found = self._select(
            "SELECT measurements.id, source_digest, device_instance, device_class, session, block, "
            "metrics, sentinel_ns, disturbed, details, status, measurements.created, reason, seq, "
            "problem, solver, solver_version, config, protocols.text AS protocol FROM measurements "
            "JOIN candidates ON candidates.id = measurements.candidate "
            "JOIN protocols ON protocols.id = measurements.protocol "
            "WHERE problem = ? ORDER BY measurements.seq, session, block, measurements.id",
            (problem_key,),
        )
        return self._readable("measurements", found, rows.measurement_record)

    def add_mark(self, mark: MarkRecord) -> None:
        """Add a mark for later runs, after all measurements so far."""
        now = self._now()
        protocols = [mark.protocol] if mark.protocol is not None else []
        with self.writing():
            self._insert_once("protocols", rows.protocol_rows(protocols, now))
            place = next_number(self._connection, now)
            rows.insert(self._connection, "marks", [rows.mark_row(mark, place, now)])

    def marks(self, problem_key: str) -> list[MarkRecord]:
        """Every mark of a problem, in the order in which they were written."""
        found = self._select(
            "SELECT marks.id, kind, scope, problem, solver, solver_version, "
            "protocols.text AS protocol, device_instance, device_class, session, "
            "marks.created, seq FROM marks "
            "LEFT JOIN protocols ON protocols.id = marks.protocol "
            "WHERE problem = ? ORDER BY marks.seq, marks.id",
            (problem_key,),
        )
        return self._readable("marks", found, rows.mark_record)

    # Decisions

    def add_decision(self, decision: DecisionRecord) -> None:
        """Add the decision of a study; the study must have been started here."""
        with self.writing():
            rows.insert(self._connection, "verdicts", [rows.decision_row(decision, self._now())])

    def decisions(self, problem: str | None = None) -> list[DecisionRecord]:
        """Every decision, or those on one problem key, oldest first."""
        found = self._select(
            "SELECT * FROM verdicts WHERE problem = ?1 OR ?1 IS NULL ORDER BY created, id",
            (problem,),
        )
        return self._readable("verdicts", found, rows.decision_record)

    def banked(self, operation: str, device: str | None = None) -> list[BankedConfig]:
        """The banked configs of the problems of an operation, perhaps on one class of devices.

        Sorted by problem, then in the order in which they were written, whatever the clocks said.
        """
        return self._banked(operation, "?2 IS NULL OR device = ?2", device)

    def banked_on_namesakes(self, operation: str, device: str) -> list[BankedConfig]:
        """The same for other classes of devices with the name of this class, of other models."""
        name = device.rpartition(":")[0] + ":"
        where = "device <> ?2 AND substr(device, 1, length(?3)) = ?3"
        return self._banked(operation, where, device, name)

    def banked_elsewhere(self, operation: str, device: str) -> list[tuple[str, BankedConfig]]:
        """The same for all classes of devices but this one, each with its class."""
        found = self._select(*_banked(operation, "device <> ?2", device))
        return self._readable("verdicts", found, lambda row: (row["device"], _banked_config(row)))

    def _banked(self, operation: str, where: str, *values: str | None) -> list[BankedConfig]:
        found = self._select(*_banked(operation, where, *values))
        return self._readable("verdicts", found, _banked_config)

    # The whole

    def summary(self) -> Summary:
        """The number of rows of each kind."""
        counted = (
            "devices",
            "studies",
            "candidates",
            "builds",
            "measurements",
            "marks",
            "verdicts",
        )
        counts = ", ".join(f"(SELECT count(*) FROM {table}) AS {table}" for table in counted)
        found = self._select(
            f"SELECT {counts}, (SELECT count(*) FROM study_log WHERE kind = 'tell') AS tells"
        )
        return Summary(**found[0])

    def merge(self, other: Path) -> Merged:
        """Add the rows of another ledger file, except for unusable ones.

        The result as a set does not depend on the order of merges. `other` is not changed.
        """
        with self._as_storage_errors():
            return merge_file(self._connection, other, self.path.parent)

    def collect(
        self, named: Iterable[CandidateKey] = (), *, before: datetime, dry_run: bool = False
    ) -> Collected:
        """Delete unneeded rows that were written before a time, or only count them.

        `skipjack.ledger.studies` lists what is needed; `named` are candidates that banks name.
        The file becomes smaller unless another process uses it; then its free pages are reused.
        """
        idle_since = min(before, self._clock() - _LONGEST_PAUSE)
        times = timestamp(before), timestamp(idle_since)
        found = Collected({}, frozenset())
        with suppress(_UndoneError), self.writing():
            found = studies.collect(self._connection, named, *times)
            self._written.clear()
            if dry_run:
                raise _UndoneError
        if found.rows and not dry_run:
            with suppress(sqlite3.OperationalError):  # others read it, or the disk is full
                self._connection.execute("VACUUM")
        return found

    def snapshot(self) -> union.Snapshot:
        """The present rows, to find later which were added."""
        with self._as_storage_errors():
            return union.snapshot(self._connection)

    def facts_since(self, known: union.Snapshot, only: Collection[str] = union.UNION_TABLES) -> str:
        """The rows that were added since the snapshot, as text that `add_facts` takes."""
        with self._as_storage_errors():
            return union.facts_since(self._connection, known, only)

    def add_facts(self, text: str) -> int:
        """Add rows of another ledger; returns how many changed something."""
        with self._as_storage_errors():
            return union.add_facts(self._connection, text)

    def _studies(self, where: str, *values: str) -> list[StudyRecord]:
        found = self._select(studies.STUDIES.format(where=where), values)
        return self._readable("studies", found, rows.study_record)


def _banked(operation: str, where: str, *values: str | None) -> tuple[str, tuple[str | None, ...]]:
    """The query for banked configs, and its values."""
    # A record is large, and of no use if it is the only one.
    query = (
        "SELECT problem, solver, config, device, "
        "iif(count(*) OVER (PARTITION BY problem) > 1, record, '') AS record "
        "FROM verdicts WHERE status = 'banked' "
        "AND problem >= ?1 || ':' AND problem < ?1 || ';' "  # ';' comes right after ':'
        f"AND ({where}) ORDER BY problem, rowid"
    )
    return query, (operation, *values)


def _banked_config(row: rows.Row) -> BankedConfig:
    config = Config.from_key(row["config"])
    return BankedConfig(row["problem"], row["solver"], config, row["record"])
