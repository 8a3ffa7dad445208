"""Studies and their logs, and the deletion of rows that nothing uses anymore: SQL that runs inside
a transaction of `Ledger`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from skipjack.errors import NewerFormatError, StorageError
from skipjack.ledger import rows
from skipjack.ledger.migrations import statements_of
from skipjack.ledger.records import LARGEST, CandidateKey
from skipjack.ledger.rows import candidate_id

if TYPE_CHECKING:
    from skipjack.core import Study


# Studies and their logs: SQL that runs inside a transaction of `Ledger`.
#
# A log is divided into epochs. Starting over opens the next epoch; nothing is deleted.

LOG_IN_ORDER = """
    SELECT study_log.* FROM study_log JOIN current_epochs AS now
    ON (study_log.study, study_log.solver_version, study_log.epoch)
     = (now.study, now.solver_version, now.number)
    WHERE study_log.study = ? ORDER BY study_log.seq, study_log.id
"""
"""The current epoch of one study. Logs of one study from several ledgers interleave by `seq`."""

_TOLD = """
    FROM study_log AS log JOIN current_epochs AS now
    ON (log.study, log.solver_version, log.epoch) = (now.study, now.solver_version, now.number)
    WHERE log.study = :study AND log.kind = 'tell'
"""
TOLD_MARK = f"SELECT count(*) AS count, max(log.rowid) AS last {_TOLD}"
LAST_TOLD = f"SELECT log.* {_TOLD} ORDER BY log.seq DESC, log.id DESC LIMIT :limit"
BEST_TOLD_BEFORE = f"""
    SELECT log.* {_TOLD} AND log.value IS NOT NULL AND (log.seq, log.id) < (:seq, :id)
    ORDER BY log.value, log.seq, log.id LIMIT 1
"""
TOLD_UNTIL = f"SELECT count(*) AS count {_TOLD} AND (log.seq, log.id) <= (:seq, :id)"

_COUNT = """(
        SELECT count(*) FROM study_log AS log WHERE log.study = studies.id
        AND log.solver_version = now.solver_version AND log.epoch = now.number
        AND log.kind = '{kind}'
    )"""

STUDIES = f"""
    SELECT studies.id, problem, solver, now.solver_version, device, searcher, seed, space,
    objective, protocols.text AS protocol, studies.created, now.number AS epoch,
    {_COUNT.format(kind="ask")} AS asks, {_COUNT.format(kind="tell")} AS tells
    FROM studies JOIN current_epochs AS now ON now.study = studies.id
    JOIN protocols ON protocols.id = studies.protocol
    {{where}} ORDER BY studies.created, studies.id
"""
"""Selects rows of `StudyRecord`."""


def start(connection: sqlite3.Connection, study: Study, solver_version: int, now: str) -> None:
    """Add a study with its first epoch, or a new epoch if the solver has a newer version."""
    rows.insert(connection, "protocols", rows.protocol_rows([study.protocol.key], now))
    row = rows.study_row(study, now)
    rows.insert(connection, "studies", [row])
    # A fault may have damaged the protocol of an existing row, and its log would be lost with it.
    connection.execute(
        "UPDATE studies SET protocol = :protocol WHERE id = :id AND protocol <> :protocol", row
    )
    recorded = _current_epoch(connection, study.id)
    if recorded is None or recorded[0] < solver_version:
        _add_epoch(connection, (study.id, solver_version, 0), now)
    elif recorded[0] > solver_version:
        raise NewerFormatError(
            f"study {study.id} of {study.problem.key} was made with version {recorded[0]} of "
            f"solver {study.solver}, but this is version {solver_version}; use a newer Skipjack"
        )


def start_over(connection: sqlite3.Connection, study_id: str, now: str) -> None:
    """Open the next epoch."""
    version, number = _require_epoch(connection, study_id)
    _add_epoch(connection, (study_id, version, number + 1), now)


def append(
    connection: sqlite3.Connection, study_id: str, entries: Sequence[rows.Row], now: str
) -> None:
    """Add entries at the end of the current epoch."""
    version, epoch = _require_epoch(connection, study_id)
    (last,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM study_log "
        "WHERE study = ? AND solver_version = ? AND epoch = ? AND seq < ?",
        (study_id, version, epoch, LARGEST),
    ).fetchone()
    place = {"study": study_id, "solver_version": version, "epoch": epoch}
    numbered = enumerate(entries, start=last + 1)
    rows.insert(
        connection,
        "study_log",
        [
            rows.identified({**place, "seq": seq, **entry, "created": now})
            for seq, entry in numbered
        ],
    )


def _current_epoch(connection: sqlite3.Connection, study_id: str) -> tuple[int, int] | None:
    found = connection.execute(
        "SELECT solver_version, number FROM current_epochs WHERE study = ?", (study_id,)
    ).fetchone()
    return tuple(found) if found else None


def _require_epoch(connection: sqlite3.Connection, study_id: str) -> tuple[int, int]:
    epoch = _current_epoch(connection, study_id)
    if epoch is None:
        raise StorageError(f"this ledger has no study {study_id}; start it first")
    return epoch


def _add_epoch(connection: sqlite3.Connection, epoch: tuple[str, int, int], now: str) -> None:
    connection.execute(
        "INSERT INTO epochs (study, solver_version, number, created) VALUES (?, ?, ?, ?)",
        (*epoch, now),
    )


# The deletion of rows that a ledger does not need, in one transaction.
#
# Rows stay if something can still use them: decisions and marks; the log of each study's present
# epoch; builds of configs in those logs; samples and builds of configs that a decision or a bank's
# entry names; all runs of commands and decorated kernels, which are read again; and all rows that
# are younger than a date. The log of a study is deleted if a new study replaced it because its
# solver or compiler changed.
#
# Other processes may write meanwhile. They wait for the transaction, and check again for the rows
# that theirs refer to (`Ledger.writing`).

READ_AGAIN = ("command", "triton_autotune")
"""The solvers whose measurements later runs read: of sweeps and of decorated kernels."""

_DELETED_FROM = (
    *("study_log", "epochs", "measurements", "candidate_builds", "builds"),
    *("candidates", "studies", "protocols"),
)
_AGAIN = ", ".join(f"'{name}'" for name in READ_AGAIN)

_TEMPORARY = (
    # Configs of present logs, then those that decisions and banks name.
    """CREATE TEMP TABLE tried AS SELECT DISTINCT candidates.id FROM current_epochs AS now
        JOIN studies ON studies.id = now.study
        JOIN study_log AS log ON (log.study, log.solver_version, log.epoch)
            = (now.study, now.solver_version, now.number)
        JOIN candidates ON (candidates.problem, candidates.solver, candidates.solver_version,
            candidates.config) = (studies.problem, studies.solver, log.solver_version, log.config)
        WHERE studies.id NOT IN (SELECT id FROM superseded)""",
    """INSERT INTO named SELECT candidates.id FROM candidates
        JOIN verdicts USING (problem, solver, config)""",
    f"INSERT INTO named SELECT id FROM candidates WHERE solver IN ({_AGAIN})",
)

_DELETIONS = (
    """DELETE FROM study_log WHERE created < :before AND (
        study IN (SELECT id FROM superseded) OR (study, solver_version, epoch) NOT IN
        (SELECT study, solver_version, number FROM current_epochs))""",
    """DELETE FROM epochs WHERE created < :before
        AND (study, solver_version, number) NOT IN
        (SELECT study, solver_version, epoch FROM study_log)
        AND ((study, solver_version, number) NOT IN
        (SELECT study, solver_version, number FROM current_epochs)
        OR (study IN (SELECT id FROM superseded) AND study NOT IN (SELECT study FROM verdicts)))""",
    """DELETE FROM measurements WHERE created < :before
        AND candidate NOT IN (SELECT id FROM named)""",
    """DELETE FROM candidate_builds WHERE created < :before
        AND candidate NOT IN (SELECT id FROM named) AND candidate NOT IN (SELECT id FROM tried)""",
    """DELETE FROM builds WHERE created < :before
        AND source_digest NOT IN (SELECT source_digest FROM candidate_builds)
        AND source_digest NOT IN
        (SELECT source_digest FROM measurements WHERE source_digest IS NOT NULL)""",
    """DELETE FROM candidates WHERE created < :before
        AND id NOT IN (SELECT candidate FROM measurements)
        AND id NOT IN (SELECT candidate FROM candidate_builds)""",
    """DELETE FROM studies WHERE created < :before AND id NOT IN (SELECT study FROM epochs)
        AND id NOT IN (SELECT study FROM verdicts)""",
    """DELETE FROM protocols WHERE created < :before
        AND id NOT IN (SELECT protocol FROM studies)
        AND id NOT IN (SELECT protocol FROM measurements)
        AND id NOT IN (SELECT protocol FROM marks WHERE protocol IS NOT NULL)""",
)


@dataclass(frozen=True, slots=True)
class Collected:
    """What was deleted."""

    rows: Mapping[str, int]
    """The number of rows by table, for tables from which rows were deleted."""
    artifacts: frozenset[str]
    """Digests of machine code that only deleted builds refer to."""


def collect(
    connection: sqlite3.Connection, named: Iterable[CandidateKey], before: str, idle_since: str
) -> Collected:
    """Delete rows that are older than `before` and of no use, inside a transaction.

    `named` are candidates that banks name. A study without an entry since `idle_since` is not
    running.
    """
    connection.execute("CREATE TEMP TABLE named (id TEXT)")
    connection.executemany(
        "INSERT INTO named VALUES (?)", [(candidate_id(one),) for one in set(named)]
    )
    connection.execute("CREATE TEMP TABLE superseded (id TEXT)")
    connection.executemany(
        "INSERT INTO superseded VALUES (?)", [(id,) for id in _superseded(connection, idle_since)]
    )
    for statement in _TEMPORARY:
        connection.execute(statement)
    artifacts = _artifacts(connection)
    rows = _deleted(connection, before)
    for name in ("tried", "named", "superseded"):
        connection.execute(f"DROP TABLE temp.{name}")
    return Collected(rows, artifacts - _artifacts(connection))


def _deleted(connection: sqlite3.Connection, before: str) -> dict[str, int]:
    """Delete rows; the triggers of append-only tables are dropped meanwhile."""
    guards = {
        name: sql
        for name, sql in statements_of("trigger").items()
        if name.removesuffix("_no_delete") in _DELETED_FROM
    }
    for name in guards:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
    counts: dict[str, int] = {}
    for statement in _DELETIONS:
        table = statement.split()[2]
        if count := connection.execute(statement, {"before": before}).rowcount:
            counts[table] = count
    for sql in guards.values():
        connection.execute(sql)
    return counts


def _superseded(connection: sqlite3.Connection, idle_since: str) -> list[str]:
    """Studies of kernels that newer studies replaced because the code of their configs changed.

    The last part of a study's space is the digest of that code, with pinned settings, too.
    """
    found = connection.execute(
        "SELECT studies.id, space, studies.created, max(coalesce(log.created, studies.created)), "
        "json_array(problem, solver, device, searcher, seed, objective, protocol) AS what "
        "FROM studies LEFT JOIN study_log AS log ON log.study = studies.id "
        "GROUP BY studies.id ORDER BY what, max(coalesce(log.created, studies.created))"
    ).fetchall()
    gone = []
    for _, group in groupby(found, key=lambda row: row[4]):
        alike = [(row[0], str(row[1]).split(":"), row[3]) for row in group]
        built_from = alike[-1][1][2:]
        gone += [
            id
            for id, space, last in alike
            if len(space) == 3 and space[2:] != built_from and last < idle_since
        ]
    return gone


def _artifacts(connection: sqlite3.Connection) -> frozenset[str]:
    found = connection.execute(
        "SELECT DISTINCT artifact_digest FROM builds WHERE artifact_digest IS NOT NULL"
    )
    return frozenset(str(row[0]) for row in found)
