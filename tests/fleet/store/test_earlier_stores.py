"""Stores that earlier revisions filled: after an upgrade they answer as before."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import earlier_stores
import pytest
from sqlalchemy import Engine, event, make_url, select, text

from skipjack.bank import Bank
from skipjack.fleet.labels import project
from skipjack.fleet.model import JobStage, WorkRequest
from skipjack.fleet.signature import FILE_NAME
from skipjack.fleet.store import open_store, opening
from skipjack.fleet.store.schema import tables
from skipjack.fleet.store.schema.ledger_tables import TABLES
from skipjack.fleet.store.sql.dialect import engine_for
from skipjack.ledger import Ledger, columns_of, read_facts
from skipjack.ledger.union import KEYS
from skipjack.processes import ProcessIdentity
from skipjack.report.fleet.jobs import job_json

REVISION = "0009"
FINISHED = ("cpu", "again", "boxed", "amd")


@pytest.fixture
def earlier(store_url: str, user_dir: Path) -> str:
    """The URL of the store of an earlier revision."""
    user_dir.mkdir(exist_ok=True)
    key = user_dir / FILE_NAME
    key.write_text(f"{earlier_stores.KEY}\n")
    key.chmod(0o600)
    earlier_stores.make(store_url, REVISION)
    return store_url


@pytest.fixture
def upgraded(earlier: str) -> str:
    """The same, brought up to date."""
    assert opening.upgrade(earlier)
    return earlier


def test_an_upgraded_store_answers_as_before(upgraded: str, tmp_path: Path) -> None:
    expected = earlier_stores.answers(REVISION)
    bank = Bank.open(tmp_path / "bank")
    with open_store(upgraded) as store, Ledger.open(tmp_path / "ledger") as ledger:
        jobs = {job.id: job for job in store.jobs.find()}
        shown = [job_json(jobs[id]) for id in sorted(jobs)]
        for one in shown:
            one["result"] = bool(one.get("result"))
            del one["kind"], one["driver"]
        assert shown == expected["jobs"]
        counts = store.jobs.counts(by=("label", "kind", "solver", "state"))
        assert sorted([*values, count] for values, count in counts) == expected["counts"]
        assert {
            (job.plan.kind, job.plan.driver) for job in jobs.values() if job.label == "amd"
        } == {
            ("tune", "miopen"),
            ("find", "miopen"),
            ("kernels", "miopen"),
        }
        assert {job.plan.driver for job in jobs.values() if job.label != "amd"} == {""}
        for label in FINISHED:
            project(store.results, label, ledger, bank)
    assert (tmp_path / "bank" / "bank.jsonl").read_text().splitlines() == earlier_stores.banked(
        REVISION
    )


def test_a_job_under_way_goes_on_with_what_was_measured_before(upgraded: str) -> None:
    expected = earlier_stores.answers(REVISION)["going_on"]
    with open_store(upgraded) as store:
        owner = store.queue.start_lease(ProcessIdentity("node7", 1), 60.0)
        device = store.machines.known_device("znver5/1", "half")
        assert device is not None
        want = WorkRequest(1, "e", (device,), 1)
        ((_, task),) = store.queue.claim(owner, JobStage.EVALUATE, [want], label="half")
    assert (task.job, task.round) == (expected["job"], expected["round"])
    assert sorted(task.artifacts) == expected["artifacts"]
    rows: dict[str, set[str]] = {}
    for facts in task.facts:
        for table, part in read_facts(facts).items():
            keys = ("|".join(str(row.get(name, "")) for name in KEYS[table]) for row in part)
            rows.setdefault(table, set()).update(keys)
    assert {table: sorted(keys) for table, keys in rows.items()} == expected["rows"]


def whole(text: str) -> dict[str, list[dict[str, Any]]]:
    """Facts with all columns: rows of format 1 lack one, for which the ledger has a default."""
    return {
        table: [
            {name: row.get(name, column.default) for name, column in columns_of(table).items()}
            for row in rows
        ]
        for table, rows in read_facts(text).items()
    }


def stored_rows(url: str) -> dict[tuple[int, int, int, str], dict[str, list[dict[str, Any]]]]:
    """What the ledger's tables have of each round, in the order of its rows."""
    found: dict[tuple[int, int, int, str], dict[str, list[dict[str, Any]]]] = {}
    with open_store(url) as store, store.database.engine.connect() as connection:
        for name, table in TABLES.items():
            of = table.c
            query = select(table).order_by(of.job, of.job_epoch, of.round, of.stage, of.place)
            for row in connection.execute(query).mappings():
                key = (row["job"], row["job_epoch"], row["round"], row["stage"])
                kept = {column: row[column] for column in columns_of(name)}
                found.setdefault(key, {}).setdefault(name, []).append(kept)
    return found


def test_every_fact_of_every_round_becomes_a_row(earlier: str) -> None:
    before = earlier_stores.facts_of_rounds(earlier)
    assert opening.upgrade(earlier)
    expected = {key: whole(text) for key, text in before.items()}
    assert sum(len(facts.get("measurements", ())) for facts in expected.values()) > 50
    assert stored_rows(earlier) == {key: facts for key, facts in expected.items() if facts}
    with open_store(earlier) as store, store.database.engine.connect() as connection:
        rounds = tables.rounds.c
        query = select(rounds.job, rounds.epoch, rounds.round, rounds.stage, rounds.ledger_rows)
        counts = {(row[0], row[1], row[2], row[3]): row[4] for row in connection.execute(query)}
    assert {key: json.loads(text) for key, text in counts.items()} == {
        key: {name: len(rows) for name, rows in facts.items()} for key, facts in expected.items()
    }


OLD_MEASUREMENT = {
    "columns": [
        *("id", "candidate", "source_digest", "device_instance", "device_class", "protocol"),
        *("session", "block", "samples_ns", "sentinel_ns", "disturbed", "metrics", "verdict"),
        "created",
    ],
    "rows": [
        [
            *("m0", "c1", None, "i", "c", "p", "w", 3, "[4.0,8.0]", None, 2),
            *('{"calls":5.0}', "wrong", "2024-01-01T00:00:00.000000Z"),
        ]
    ],
}
"""As workers sent it in format 2."""


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_facts_of_older_workers_are_converted_and_damaged_ones_kept_as_a_log(earlier: str) -> None:
    old = json.dumps({"format": 2, "tables": {"measurements": OLD_MEASUREMENT}})
    engine = engine_for(make_url(earlier))
    with engine.begin() as connection:
        for stage, facts in (("build", "{damaged"), ("evaluate", old)):
            where = "WHERE job = 1 AND round = 0 AND stage = :stage"
            changing = text(f"UPDATE rounds SET facts = :facts {where}")
            connection.execute(changing, {"facts": facts, "stage": stage})
    engine.dispose()
    assert opening.upgrade(earlier)
    with open_store(earlier) as store, store.database.engine.connect() as connection:
        query = "SELECT metric, unit, value FROM samples WHERE session = 'w' ORDER BY 1, number"
        assert [tuple(row) for row in connection.execute(text(query))] == [
            ("calls", "1", 5.0),
            ("time_ns", "ns", 4.0),
            ("time_ns", "ns", 8.0),
        ]
        assert store.jobs.log(1)[-1].text == "{damaged"


class _KilledError(Exception):
    """The upgrade ended here."""


@pytest.mark.parametrize("store_url", ["mariadb"], indirect=True)
def test_an_upgrade_goes_on_wherever_it_was_killed(earlier: str) -> None:
    expected = {
        key: whole(facts)
        for key, facts in earlier_stores.facts_of_rounds(earlier).items()
        if read_facts(facts)
    }

    def die(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if re.match(r"\s*(CREATE (UNIQUE )?(TABLE|INDEX)|ALTER|DROP INDEX)", statement):
            raise _KilledError

    kills = 0
    event.listen(Engine, "after_cursor_execute", die)
    try:
        while True:
            try:
                assert opening.upgrade(earlier)
                break
            except _KilledError:
                kills += 1
                assert kills < 40
    finally:
        event.remove(Engine, "after_cursor_execute", die)
    assert kills > 15
    assert stored_rows(earlier) == expected
    with open_store(earlier) as store:
        counts = store.jobs.counts(by=("label", "kind", "solver", "state"))
    answered = earlier_stores.answers(REVISION)["counts"]
    assert sorted([*values, count] for values, count in counts) == answered
