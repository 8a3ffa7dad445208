"""The ledger's verbs. SQL stays in this folder; what goes in and out are records."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.trial import Trial
from skipjack.errors import CorruptFileError, StorageError
from skipjack.ledger import checking, collecting, facts, rows, studies
from skipjack.ledger.collecting import Collected
from skipjack.ledger.connection import (
    FILE_NAME,
    connect,
    open_connection,
    open_to_read,
    retire_damaged,
)
from skipjack.ledger.merge import Merged, merge_file
from skipjack.ledger.migrations import migrate
from skipjack.ledger.records import (
    BankedConfig,
    BuildRecord,
    CandidateKey,
    LogEntry,
    MarkRecord,
    MeasurementRecord,
    StudyRecord,
    Summary,
    VerdictRecord,
)
from skipjack.ledger.sequence import next_number
from skipjack.reading import parse_json, quoted
from skipjack.storage import Clock, timestamp, utc_now
from skipjack.storage.sqlite_files import is_damage, primary_code
from skipjack.storage.transaction import storage_error, transaction

if TYPE_CHECKING:
    from skipjack.core.study import Study

T = TypeVar("T")

log = logging.getLogger(__name__)

_LONGEST_PAUSE = timedelta(days=1)
"""A study that logs nothing for so long is not being run."""


class _UndoneError(Exception):
    """Takes back what was only tried."""


class Ledger:
    """Every candidate, build and measurement, in one file.

    Any number of processes may have it open; a method that writes does so in one transaction, all
    or nothing. An object belongs to the thread that opened it and must not be used across a fork.
    What fails at the file raises `StorageError`; rows are added, never changed, and deleted by
    `collect` alone.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._passed_over: set[tuple[str, str]] = set()
        self._written: set[str] = set()
        """Ids of candidates and protocols that are in the file, as long as nobody else writes."""
        self._seen_version = -1
        """What SQLite counts the writes of others by."""
        self.path = path

    @classmethod
    def open(cls, directory: Path, *, clock: Clock = utc_now) -> Ledger:
        """Open the ledger in `directory`, creating either if need be."""
        return cls(open_connection(directory), directory / FILE_NAME, clock)

    @classmethod
    def read(cls, directory: Path) -> Ledger:
        """The same for who only reads; the directory may be read-only."""
        return cls(open_to_read(directory), directory / FILE_NAME, utc_now)

    @classmethod
    def in_memory(cls, *, clock: Clock = utc_now) -> Ledger:
        """An empty ledger without a file, for work whose facts go elsewhere."""
        connection = connect(Path(":memory:"))
        migrate(connection)
        return cls(connection, Path(":memory:"), clock)

    def close(self) -> None:
        """Let go of the file; further calls fail. What was written is in the file itself now."""
        with suppress(sqlite3.Error):  # closed already, or a reader is in the way
            # SQLite does this itself when nobody else has the file open.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Devices and studies

    def add_device(self, device: Device) -> None:
        """Remember a device, so that its class key can be read later."""
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
        """Every device seen, oldest first."""
        found = self._select("SELECT record FROM devices ORDER BY created, id")
        return self._readable(
            "devices", found, lambda row: Device.from_record(parse_json(row["record"]))
        )

    def start_study(self, study: Study, solver_version: int) -> StudyRecord:
        """Begin a study, or continue it if it is there.

        Under a newer version of its solver it starts over; under an older one it is refused
        (`NewerFormatError`), because its configs would be misread.
        """
        with self.writing():
            studies.start(self._connection, study, solver_version, self._now())
        found = self._select(studies.STUDIES.format(where="WHERE studies.id = ?"), (study.id,))
        if not found:
            raise CorruptFileError(
                f"the ledger {self.path} is damaged (study {study.id} was written and is not "
                "found); move it elsewhere, and the next run starts a new one"
            )
        # Its id is a digest of the study: whatever else the row says, this is what was asked for.
        return rows.study_record({**found[0], **rows.study_columns(study)})

    def forget_study(self, study_id: str) -> None:
        """Let the study start over. What it logged stays in the file, in an earlier epoch."""
        with self.writing():
            studies.start_over(self._connection, study_id, self._now())

    def log_ask(self, study_id: str, config: Config) -> None:
        """Note that a searcher asked for a config."""
        with self.writing():
            studies.append(self._connection, study_id, [rows.ask_columns(config)], self._now())

    def log_tells(self, study_id: str, trials: Iterable[Trial]) -> None:
        """Note what a searcher was told, in this order."""
        entries = [rows.tell_columns(trial) for trial in trials]
        with self.writing():
            studies.append(self._connection, study_id, entries, self._now())

    def log(self, study_id: str) -> list[LogEntry]:
        """Asks and tells of the current epoch, in order."""
        found = self._select(studies.LOG_IN_ORDER, (study_id,))
        return self._readable("study_log", found, rows.log_entry)

    def trials(self, study_id: str) -> list[Trial]:
        """What the searcher was told in the current epoch, in order."""
        return [entry.trial for entry in self.log(study_id) if entry.trial is not None]

    def studies(self, problem: str | None = None) -> list[StudyRecord]:
        """Every study, or those of one problem key, oldest first."""
        if problem is None:
            return self._studies("")
        return self._studies("WHERE studies.problem = ?", problem)

    # Builds and measurements

    def find_build(self, candidate: CandidateKey, identity: str, compat: str) -> BuildRecord | None:
        """The build of a candidate, by the source it was last lowered to.

        `identity` says what operation, solver and device it was lowered from and for.
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
        """The build of a source: one that worked if there is one, else the latest."""
        found = self._select(
            "SELECT * FROM builds WHERE source_digest = ? AND compat = ? "
            "ORDER BY status = 'ok' DESC, rowid DESC",
            (source_digest, compat),
        )
        return next(iter(self._readable("builds", found, rows.build_record)), None)

    def add_build(self, build: BuildRecord, *candidates: CandidateKey, identity: str = "") -> None:
        """Keep a build and map candidates of this identity to it.

        With a build that `find_source` returned, only the map grows.
        """
        now, source = self._now(), build.source_digest
        with self.writing():
            rows.insert(self._connection, "builds", [rows.build_row(build, now)])
            self._insert_once("candidates", rows.candidate_rows(candidates, now))
            # Replacing a row makes it the last one.
            self._connection.executemany(
                "REPLACE INTO candidate_builds "
                "(candidate, compat, identity, source_digest, created) VALUES (?, ?, ?, ?, ?)",
                [
                    (rows.candidate_id(candidate), build.compat, identity, source, now)
                    for candidate in candidates
                ],
            )

    def add_measurements(self, measurements: Sequence[MeasurementRecord]) -> None:
        """Keep many measurements in one transaction, in this order."""
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
        """Every measurement of a problem, in the order of writing."""
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
        """Keep what later runs have to heed, after all that was measured so far."""
        now = self._now()
        protocols = [mark.protocol] if mark.protocol is not None else []
        with self.writing():
            self._insert_once("protocols", rows.protocol_rows(protocols, now))
            place = next_number(self._connection, now)
            rows.insert(self._connection, "marks", [rows.mark_row(mark, place, now)])

    def marks(self, problem_key: str) -> list[MarkRecord]:
        """Every mark of a problem, in the order of writing."""
        found = self._select(
            "SELECT marks.id, kind, scope, problem, solver, solver_version, "
            "protocols.text AS protocol, device_instance, device_class, session, "
            "marks.created, seq FROM marks "
            "LEFT JOIN protocols ON protocols.id = marks.protocol "
            "WHERE problem = ? ORDER BY marks.seq, marks.id",
            (problem_key,),
        )
        return self._readable("marks", found, rows.mark_record)

    # Verdicts

    def add_verdict(self, verdict: VerdictRecord) -> None:
        """Keep what a study concluded; the study must have been started here."""
        with self.writing():
            rows.insert(self._connection, "verdicts", [rows.verdict_row(verdict, self._now())])

    def verdicts(self, problem: str | None = None) -> list[VerdictRecord]:
        """Every verdict, or those on one problem key, oldest first."""
        found = self._select(
            "SELECT * FROM verdicts WHERE problem = ?1 OR ?1 IS NULL ORDER BY created, id",
            (problem,),
        )
        return self._readable("verdicts", found, rows.verdict_record)

    def banked(self, operation: str, device: str | None = None) -> list[BankedConfig]:
        """What was banked of each problem of an operation, perhaps on one class of devices.

        By problem, in the order in which it came here, whatever clocks said.
        """
        return self._banked(operation, "?2 IS NULL OR device = ?2", device)

    def banked_on_namesakes(self, operation: str, device: str) -> list[BankedConfig]:
        """The same on other classes of devices with the name of this class: another model."""
        name = device.rpartition(":")[0] + ":"
        where = "device <> ?2 AND substr(device, 1, length(?3)) = ?3"
        return self._banked(operation, where, device, name)

    def _banked(self, operation: str, where: str, *values: str | None) -> list[BankedConfig]:
        # A record is large, and says nothing of use where it is the only one.
        found = self._select(
            "SELECT problem, solver, config, "
            "iif(count(*) OVER (PARTITION BY problem) > 1, record, '') AS record "
            "FROM verdicts WHERE status = 'banked' "
            "AND problem >= ?1 || ':' AND problem < ?1 || ';' "  # ';' comes right after ':'
            f"AND ({where}) ORDER BY problem, rowid",
            (operation, *values),
        )
        return self._readable(
            "verdicts",
            found,
            lambda row: BankedConfig(
                row["problem"], row["solver"], Config.from_key(row["config"]), row["record"]
            ),
        )

    # The whole

    def summary(self) -> Summary:
        """How many rows there are of each kind."""
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
        """Add what another ledger file knows, except for rows that cannot be used.

        The result as a set does not depend on the order of merges. `other` is only read.
        """
        with self._translating():
            return merge_file(self._connection, other, self.path.parent)

    def collect(
        self, named: Iterable[CandidateKey] = (), *, before: datetime, dry_run: bool = False
    ) -> Collected:
        """Delete what was written before a time and is of no use any more, or only count it.

        What stays is in `skipjack.ledger.collecting`; `named` are candidates that banks name. The
        file becomes smaller unless somebody else is at it; the room is used again then.
        """
        idle_since = min(before, self._clock() - _LONGEST_PAUSE)
        times = timestamp(before), timestamp(idle_since)
        found = Collected({}, frozenset())
        with suppress(_UndoneError), self.writing():
            found = collecting.collect(self._connection, named, *times)
            self._written.clear()
            if dry_run:
                raise _UndoneError
        if found.rows and not dry_run:
            with suppress(sqlite3.OperationalError):  # others read it, or there is no room
                self._connection.execute("VACUUM")
        return found

    def snapshot(self) -> facts.Snapshot:
        """What is here now, to tell later what came to it."""
        with self._translating():
            return facts.snapshot(self._connection)

    def facts_beyond(
        self, known: facts.Snapshot, only: Collection[str] = facts.UNION_TABLES
    ) -> str:
        """The rows that were added since the snapshot, as text that `add_facts` takes."""
        with self._translating():
            return facts.facts_beyond(self._connection, known, only)

    def add_facts(self, text: str) -> int:
        """Take in rows of another ledger; return how many changed something, 0 if none."""
        with self._translating():
            return facts.add_facts(self._connection, text)

    def _insert_once(self, table: str, parents: Sequence[rows.Row]) -> None:
        new = [row for row in parents if row["id"] not in self._written]
        rows.insert(self._connection, table, new)
        self._written.update(row["id"] for row in new)

    def _studies(self, where: str, *values: str) -> list[StudyRecord]:
        found = self._select(studies.STUDIES.format(where=where), values)
        return self._readable("studies", found, rows.study_record)

    def _now(self) -> str:
        return timestamp(self._clock())

    def _select(self, query: str, values: tuple[object, ...] = ()) -> list[dict[str, Any]]:
        with self._translating():
            try:
                return [dict(row) for row in self._connection.execute(query, values)]
            except sqlite3.OperationalError as error:
                if primary_code(error):
                    raise
            # A text that is no UTF-8 costs its row, not the query.
            with checking.forgiving_texts(self._connection):
                return [dict(row) for row in self._connection.execute(query, values)]

    def _readable(
        self, table: str, found: Iterable[dict[str, Any]], read: Callable[[rows.Row], T]
    ) -> list[T]:
        """Records of rows. One that a merge brought in or a fault spoilt is passed over."""
        records: list[T] = []
        for row in found:
            try:
                checking.check_texts(row)
                records.append(read(row))
            except checking.UNREADABLE as error:
                self._pass_over(table, str(row.get("id", row.get("problem", ""))), error)
        return records

    def _pass_over(self, table: str, id: str, error: Exception) -> None:
        if (table, id) not in self._passed_over:
            self._passed_over.add((table, id))
            log.warning(
                "%s has a row of %s that cannot be read and is passed over: %s (%s)",
                *(self.path, table, quoted(id), checking.reason_of(error)),
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction for all that is written inside: everything or nothing.

        Others wait for the file meanwhile, so nothing slow belongs inside.
        """
        if self._connection.in_transaction:
            yield
            return
        try:
            with self._translating(), transaction(self._connection):
                self._look_for_others()
                yield
        except BaseException:
            self._written.clear()
            raise

    def _look_for_others(self) -> None:
        """Another process may have deleted rows that were there when they were needed last."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._seen_version:
            self._seen_version = version
            self._written.clear()

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except OverflowError as error:
            raise StorageError(f"{self.path} cannot hold a number of a record: {error}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) or is_damage(error):
                raise retire_damaged(self._connection, self.path, error) from error
            raise storage_error(error, self.path) from error
