"""What a ledger can do without: SQL that deletes it, in one transaction.

What stays is what something can still use: verdicts and marks; the log of each study's present
epoch; builds of configs in those logs; samples and builds of configs that a verdict or a bank's
entry names; all runs of commands and decorated kernels, which are read again; and whatever is
younger than a date. Of a study that was made anew since its solver or compiler changed, the old
log goes.

Others may write meanwhile. They wait for the transaction, and look again for the rows that theirs
refer to (`Ledger.writing`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from skipjack.ledger.migrations import statements_of
from skipjack.ledger.records import CandidateKey
from skipjack.ledger.rows import candidate_id

READ_AGAIN = ("command", "triton_autotune")
"""Solvers whose measurements later runs read: those of sweeps and of decorated kernels."""

_DELETED_FROM = (
    *("study_log", "epochs", "measurements", "candidate_builds", "builds"),
    *("candidates", "studies", "protocols"),
)
_AGAIN = ", ".join(f"'{name}'" for name in READ_AGAIN)

_TEMPORARY = (
    # Configs of present logs, then those that verdicts and banks name.
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
    """By table, without those of which nothing went."""
    artifacts: frozenset[str]
    """Machine code that only builds that went had led to."""


def collect(
    connection: sqlite3.Connection, named: Iterable[CandidateKey], before: str, idle_since: str
) -> Collected:
    """Delete what is older than a date and of no use, inside of a transaction.

    `named` are candidates that banks name. A study that has been idle since a date is not running.
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
    """Delete; tables that are append-only otherwise get their triggers back."""
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
    """Studies of kernels that were begun anew since what their configs are built from changed.

    The last part of a study's space tells that. Those with pinned settings have the same one.
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
