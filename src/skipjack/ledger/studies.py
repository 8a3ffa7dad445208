"""Studies and their logs: SQL that runs inside a transaction of `Ledger`.

A log is divided into epochs. Starting over opens the next epoch; nothing is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.errors import NewerFormatError, StorageError
from skipjack.ledger import rows
from skipjack.ledger.sequence import LARGEST

if TYPE_CHECKING:
    from skipjack.core.study import Study

LOG_IN_ORDER = """
    SELECT study_log.* FROM study_log JOIN current_epochs AS now
    ON (study_log.study, study_log.solver_version, study_log.epoch)
     = (now.study, now.solver_version, now.number)
    WHERE study_log.study = ? ORDER BY study_log.seq, study_log.id
"""
"""The current epoch of one study. Logs of one study from several ledgers interleave by `seq`."""

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
"""Rows of `StudyRecord`."""


def start(connection: sqlite3.Connection, study: Study, solver_version: int, now: str) -> None:
    """Add a study with its first epoch, or a new epoch if the solver has a newer version."""
    rows.insert(connection, "protocols", rows.protocol_rows([study.protocol.key], now))
    row = rows.study_row(study, now)
    rows.insert(connection, "studies", [row])
    # A fault may have spoilt it in the row that was there; its log would be lost with it.
    connection.execute(
        "UPDATE studies SET protocol = :protocol WHERE id = :id AND protocol <> :protocol", row
    )
    recorded = _current_epoch(connection, study.id)
    if recorded is None or recorded[0] < solver_version:
        _add_epoch(connection, (study.id, solver_version, 0), now)
    elif recorded[0] > solver_version:
        raise NewerFormatError(
            f"study {study.id} of {study.problem.key} was made with version {recorded[0]} of "
            f"solver {study.solver}, this is version {solver_version}; use a newer Skipjack"
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
        raise StorageError(f"there is no study {study_id} in this ledger; start it first")
    return epoch


def _add_epoch(connection: sqlite3.Connection, epoch: tuple[str, int, int], now: str) -> None:
    connection.execute(
        "INSERT INTO epochs (study, solver_version, number, created) VALUES (?, ?, ?, ?)",
        (*epoch, now),
    )
