"""Builds that failed for good, in any job: builders of other machines need not try them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from skipjack.fleet.model import JobStage
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.ledger import LASTING, Facts, columns_of

MOST = 1000
"""Failed builds that are read at once; older ones are left out."""
_OVERLAP_S = 10.0
"""Results become visible when they are committed, a little later than their date."""


def since(connection: Connection, after: float | None) -> tuple[Facts, float]:
    """The newest failed builds with their candidates, and the date to ask for the next time.

    `after` is the date of the last call. Some rows may be returned twice.
    """
    newest = select(func.max(tables.rounds.c.created)).where(_is_build())
    until = float(connection.execute(newest).scalar() or 0.0)
    if after is not None and until < after:
        return {}, after
    first = 0.0 if after is None else after - _OVERLAP_S
    failed = connection.execute(_failed(first).limit(MOST)).all()
    if not failed:
        return {}, until
    oldest = min(row.finished for row in failed)
    ids = {row.id for row in failed}
    builds = [_own("builds", row._mapping) for row in failed]
    maps = connection.execute(_maps(oldest)).all()
    named = [row for row in maps if row.build in ids]
    return {
        "builds": builds,
        "candidates": [_own("candidates", row._mapping, "candidate_") for row in named],
        "candidate_builds": [_own("candidate_builds", row._mapping, "map_") for row in named],
    }, until


def _is_build() -> Any:
    return tables.rounds.c.stage == str(JobStage.BUILD)


def _failed(first: float) -> Select[Any]:
    build, done = TABLES["builds"].c, tables.rounds.c
    return (
        select(*[build[name] for name in columns_of("builds")], done.created.label("finished"))
        .join(tables.rounds, _same_round(build, done))
        .where(_is_build(), done.created >= first, build.status.in_([str(one) for one in LASTING]))
        .order_by(done.created.desc(), build.job, build.place)
    )


def _maps(first: float) -> Select[Any]:
    """The candidates of failed builds, and their maps."""
    build, done = TABLES["builds"].c, tables.rounds.c
    of, candidate = TABLES["candidate_builds"].c, TABLES["candidates"].c
    return (
        select(
            build.id.label("build"),
            *[of[name].label(f"map_{name}") for name in columns_of("candidate_builds")],
            *[candidate[name].label(f"candidate_{name}") for name in columns_of("candidates")],
        )
        .join(tables.rounds, _same_round(build, done))
        .join(
            TABLES["candidate_builds"],
            and_(_of_one_round(of, build), of.source_digest == build.source_digest),
        )
        .join(
            TABLES["candidates"],
            and_(_of_one_round(candidate, build), candidate.id == of.candidate),
        )
        .where(_is_build(), done.created >= first, build.status.in_([str(one) for one in LASTING]))
    )


def _same_round(row: Any, done: Any) -> Any:
    return and_(
        *(row.job == done.job, row.job_epoch == done.epoch),
        *(row.round == done.round, row.stage == done.stage),
    )


def _of_one_round(row: Any, other: Any) -> Any:
    return and_(
        *(row.job == other.job, row.job_epoch == other.job_epoch),
        *(row.round == other.round, row.stage == other.stage),
    )


def _own(table: str, row: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    return {name: row[prefix + name] for name in columns_of(table)}
