"""The schema: equal whether created or upgraded; invariants are constraints."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from schema_reading import described
from sqlalchemy import Connection, Engine, PoolProxiedConnection, event, make_url, text
from sqlalchemy.exc import DBAPIError

from processes import PATIENCE_S
from skipjack.core import Device
from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.store import Store, open_store, opening
from skipjack.fleet.store.catalog.devices import record_of
from skipjack.fleet.store.schema import migrations, revisions
from skipjack.fleet.store.schema.tables import metadata
from skipjack.fleet.store.sql.dialect import engine_for


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    url = make_url(store_url)
    if url.get_backend_name() == "sqlite":
        Path(str(url.database)).parent.mkdir(exist_ok=True)
    made = engine_for(url)
    yield made
    made.dispose()


def _forget(connection: Connection) -> None:
    """Empty the database."""
    revisions.views.drop(connection)
    metadata.drop_all(connection)
    connection.execute(text(f"DROP TABLE {migrations.VERSION_TABLE}"))


def test_a_fresh_schema_equals_the_migrated_one(engine: Engine) -> None:
    with engine.begin() as connection:
        revisions.create(connection)
    with engine.begin() as connection:
        fresh = described(connection)
        _forget(connection)
    with engine.begin() as connection:
        revisions.upgrade(connection)
    with engine.begin() as connection:
        migrated = described(connection)
    assert fresh.keys() == migrated.keys()
    for name, words in fresh.items():
        assert migrated[name] == words, name
    assert set(metadata.tables) <= set(fresh["tables"])  # type: ignore[call-overload]


_OF_A_LABEL = (
    "INSERT INTO problems (id, digest, {key}, operation, created) VALUES (1, 'd', 'k', 'o', 0)",
    "INSERT INTO labels (id, name, owner, created) VALUES (1, 'built', 'me', 0)",
    "INSERT INTO labels (id, name, owner, created) VALUES (2, 'new', 'me', 0)",
    "INSERT INTO labels (id, name, owner, created) VALUES (3, 'unseen', 'me', 0)",
    "INSERT INTO devices (name, record, created) VALUES ('znver4/1', :seen, 0)",
    "INSERT INTO devices (name, created) VALUES ('gfx900/56', 0)",
    "INSERT INTO jobs (label, problem, device, solver, searcher, budget, round_size, reason, "
    "created, updated, device_record) VALUES (1, 1, 'znver4/1', 's', 's', 1, 1, '', 0, 0, :built)",
    "INSERT INTO jobs (label, problem, device, solver, searcher, budget, round_size, reason, "
    "created, updated) VALUES (2, 1, 'znver4/1', 's', 's', 1, 1, '', 0, 0)",
    "INSERT INTO jobs (label, problem, device, solver, searcher, budget, round_size, reason, "
    "created, updated) VALUES (3, 1, 'gfx900/56', 's', 's', 1, 1, '', 0, 0)",
)


def test_labels_of_older_stores_are_for_what_their_jobs_were_built_for(
    store_url: str, engine: Engine
) -> None:
    older, newer = (Device("cpu", "znver4", 1, "real", vector_bytes=n) for n in (32, 64))
    records = {"seen": record_of(newer), "built": record_of(older)}
    key = '"key"' if engine.dialect.name != "mysql" else "`key`"
    with engine.begin() as connection:
        revisions._run_alembic(connection, "0006")
        for words in _OF_A_LABEL:
            needed = {name: text for name, text in records.items() if f":{name}" in words}
            connection.execute(text(words.format(key=key)), needed)
    opening.upgrade(store_url)
    with open_store(store_url) as store:
        found = {job.label: job.device_class for job in store.jobs.find()}
        assert found == {"built": older.class_key, "new": newer.class_key, "unseen": ""}
        assert store.machines.known_device("znver4/1", "built") == older
        assert store.machines.known_device("znver4/1", "new") == newer


def test_the_revisions_are_those_that_alembic_finds() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "skipjack.fleet.store.schema:migrations")
    walk = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(reversed([script.revision for script in walk])) == migrations.REVISIONS


def test_opening_again_changes_nothing(store_url: str, engine: Engine) -> None:
    open_store(store_url).close()
    with engine.begin() as connection:
        before = described(connection)
    open_store(store_url).close()
    with engine.begin() as connection:
        assert described(connection) == before


def test_a_newer_schema_is_refused_by_name(store: Store, store_url: str) -> None:
    _set_version(store, "9999")
    with pytest.raises(NewerFormatError, match=r"revision 9999.*newer Skipjack"):
        open_store(store_url)
    with pytest.raises(NewerFormatError, match="9999"):
        opening.upgrade(store_url)


def test_an_older_file_is_upgraded_and_an_older_server_only_on_request(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_version(store, "0000")
    for module in (revisions, opening):
        monkeypatch.setattr(module, "REVISIONS", ("0000", migrations.REVISIONS[-1]))
    # What the revision does is for the test above to see.
    ran: list[str] = []
    monkeypatch.setattr(
        revisions,
        "_run_alembic",
        lambda connection, target: (ran.append(target), _stamp(connection)),
    )
    if store_url.startswith("sqlite"):
        open_store(store_url).close()
    else:
        with pytest.raises(
            StorageError, match=r"revision 0000.*needs \d{4}.*skipjack store upgrade"
        ):
            open_store(store_url)
        assert opening.upgrade(store_url)
    assert ran == [migrations.REVISIONS[-1]]
    assert not opening.upgrade(store_url)
    open_store(store_url).close()


def _stamp(connection: Connection) -> None:
    revisions._stamp(connection, migrations.REVISIONS[-1])


def _set_version(store: Store, revision: str) -> None:
    with store.database.engine.begin() as connection:
        revisions._stamp(connection, revision)


def test_a_database_of_others_is_left_alone(store_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE jobs (mine INTEGER)"))
    with pytest.raises(StorageError, match="has a table jobs that is not Skipjack's"):
        open_store(store_url)
    with engine.begin() as connection:
        assert described(connection)["tables"] == ["jobs"]


def test_a_creation_that_was_cut_off_is_finished(store_url: str, engine: Engine) -> None:
    with engine.begin() as connection:
        revisions._version.create(connection)
        revisions._stamp(connection, revisions.UNFINISHED)
        metadata.tables["problems"].create(connection)
    with open_store(store_url) as store:
        assert store.problems.tags() == []


def test_many_processes_create_it_at_once(store_url: str) -> None:
    # Forked, so that they start together and not when each has imported everything.
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(4)
    racers = [fork.Process(target=_open_together, args=(store_url, start)) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0] * 4


def test_tables_that_appear_while_the_version_is_read_are_ours(
    store_url: str, engine: Engine
) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("a file is locked while its version is read")
    queries: list[str] = []

    def create_after_the_first(
        connection: Connection, cursor: object, query: str, *_: object
    ) -> None:
        queries.append(query)
        if len(queries) == 1:
            open_store(store_url).close()

    with engine.connect() as connection:
        event.listen(engine, "after_cursor_execute", create_after_the_first)
        assert revisions.version(connection) in (None, revisions.REVISIONS[-1])
    assert queries


def test_a_new_file_that_sqlite_refuses_without_waiting_is_tried_again(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = Engine.raw_connection

    def busy_once(engine: Engine) -> PoolProxiedConnection:
        monkeypatch.undo()
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    monkeypatch.setattr(Engine, "raw_connection", busy_once)
    with open_store(f"sqlite:///{user_dir / 'fleet.sqlite'}") as store:
        assert store.problems.tags() == []
    assert Engine.raw_connection is connecting


def _open_together(url: str, start: Barrier) -> None:
    start.wait(PATIENCE_S)
    with open_store(url) as store:
        assert store.problems.tags() == []


_IMPOSSIBLE = {
    "state = 'building'": "claimed_has_an_owner",
    "state = 'error', stage = 'build'": "error_has_a_reason",
    "state = 'error', reason = 'x'": "error_has_a_stage",
    "state = 'evaluated'": "evaluated_has_result",
    "state = 'aborted'": "aborted_can_resume",
    "state = 'finished'": "state_is_known",
    "round = -1": "counters_count_up",
    "budget = 0": "budget_is_positive",
    "owner = 'nobody', state = 'building'": "(?i)foreign key",
    "problem = 4711": "(?i)foreign key",
}


def test_what_cannot_be_is_refused_by_the_database(store: Store) -> None:
    with store.database.engine.begin() as connection:
        key = connection.dialect.identifier_preparer.quote("key")
        for statement in _ONE_JOB:
            connection.execute(text(statement.replace("{key}", key)))
    for change, constraint in _IMPOSSIBLE.items():
        with (
            pytest.raises(DBAPIError, match=constraint),
            store.database.engine.begin() as connection,
        ):
            connection.execute(text(f"UPDATE jobs SET {change}"))
    with store.database.engine.begin() as connection:
        assert connection.execute(text("SELECT state FROM jobs")).scalar() == "new"


_ONE_JOB = (
    "INSERT INTO problems (id, digest, {key}, operation, created) "
    "VALUES (1, 'd', 'k', 'matmul', 0)",
    "INSERT INTO labels (id, name, owner, created) VALUES (1, 'l', 'me', 0)",
    "INSERT INTO devices (name, created) VALUES ('znver4/1', 0)",
    "INSERT INTO jobs (label, problem, device, solver, searcher, budget, round_size, reason, "
    "created, updated) VALUES (1, 1, 'znver4/1', 'auto', 'auto', 1, 1, '', 0, 0)",
)
