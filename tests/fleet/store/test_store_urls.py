"""Where the database is: URLs, passwords, and complaints that keep the secret."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from servers import PASSWORD, USER, MariaDB, PostgreSQL, Server

from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.fleet.store import open_store
from skipjack.fleet.store.sql import transactions
from skipjack.fleet.store.sql.urls import database_url, displayed_url
from skipjack.settings import Settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, user_dir: Path) -> None:
    for name in ("SKIPJACK_DB", "SKIPJACK_DB_PASSWORD_FILE", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_word_it_is_a_file_of_the_user(user_dir: Path) -> None:
    with open_store() as store:
        assert store.url_for_people == str(user_dir / "fleet.sqlite")
    assert (user_dir / "fleet.sqlite").is_file()


def test_an_argument_beats_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_DB", f"sqlite:///{tmp_path / 'a'}")
    assert database_url(None, Settings(tmp_path)).database == str(tmp_path / "a")
    assert database_url(f"sqlite:///{tmp_path / 'b'}", Settings(tmp_path)).database == str(
        tmp_path / "b"
    )


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("postgresql://me@host/fleet", "postgresql+psycopg"),
        ("mysql://me@host/fleet", "mysql+pymysql"),
        ("mariadb+pymysql://me@host/fleet", "mysql+pymysql"),
    ],
)
def test_short_forms_get_their_driver(given: str, driver: str, tmp_path: Path) -> None:
    assert database_url(given, Settings(tmp_path)).drivername == driver


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("hunter2", "is not the URL of a database; write sqlite"),
        ("postgresql://me:hunter2@host:port/fleet", "is not the URL of a database"),
        ("oracle://me:hunter2@host/fleet", "has an unknown scheme 'oracle'"),
        ("postgresql+psycopg://me:hunter2@host", r"has no database name: .*add /name"),
        ("sqlite://", "has no file name"),
        ("sqlite://me:hunter2@host/fleet", "has a host or a user, but SQLite is a file"),
        ("sqlite://hunter2/fleet", "has a host or a user, but SQLite is a file"),
        ("postgresql:///me:hunter2@host/fleet", "seems to have a password in"),
        ("mysql:///me:hunter2@host/fleet", "seems to have a password in"),
        ("sqlite:///me:hunter2@host/fleet", "seems to have a password in"),
        ("postgresql://me:hunter@hunter2@host/fleet", "seems to have a password in"),
        ("postgresql://me%3Ahunter2@host/fleet", "seems to have a password in"),
        ("postgresql://m/e:hunter2@host/fleet", "seems to have a password in"),
        ("postgresql:/me:hunter2@host/fleet", "is not the URL of a database"),
        ("mysql://me:hunter2@host/fleet?sslmode=require", "has an option 'sslmode'.*ssl_ca"),
        ("mysql://me:hunter2@host/fleet?read_timeout=soon", "an option .* has a value"),
        ("sqlite:///~nobody1/fleet.sqlite", "~nobody1.* who is unknown on this machine"),
    ],
)
def test_what_is_no_url_is_refused_without_being_shown(
    given: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        database_url(given, Settings(tmp_path))
    assert "hunter2" not in _whole(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://me%40azure:hunter2@[::1]:5432/fleet?sslmode=require",
        "postgresql:///fleet?host=/run/postgresql",
        "mysql://me:hunter2@host/fleet?ssl_ca=/etc/ca.pem&charset=utf8mb4",
        "sqlite:////srv/a:b/team@work.sqlite",
    ],
)
def test_unusual_urls_that_are_right_are_taken(given: str, tmp_path: Path) -> None:
    assert "hunter2" not in displayed_url(database_url(given, Settings(tmp_path)))


def test_options_are_not_shown_as_they_may_be_secret(tmp_path: Path) -> None:
    url = database_url("mysql+pymysql://me:hunter2@host/fleet?passwd=hunter3", Settings(tmp_path))
    assert "hunter" not in displayed_url(url)


@pytest.mark.parametrize(
    ("given", "module", "extra"),
    [
        ("postgresql://me@host/fleet", "psycopg", "postgresql"),
        ("mysql://me@host/fleet", "pymysql", "mariadb"),
    ],
)
def test_a_missing_driver_names_its_extra(
    given: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"pip install 'skipjack\[{extra}\]'"):
        database_url(given, Settings(tmp_path))


def test_the_password_may_stand_in_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("SKIPJACK_DB_PASSWORD_FILE", str(secret))
    server.fresh()
    with open_store(server.url(server.newest, password=None)) as store:
        assert store.problems.tags() == []
        assert PASSWORD not in store.url_for_people
    monkeypatch.setenv("SKIPJACK_DB_PASSWORD_FILE", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match=r"gone \(SKIPJACK_DB_PASSWORD_FILE\): No such file"):
        open_store(server.url("test", password=None))


def test_a_password_that_others_can_read_is_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, mode, warnings in (("mine", 0o600, 0), ("ours", 0o644, 1)):
        secret = tmp_path / name
        secret.write_text(PASSWORD)
        secret.chmod(mode)
        monkeypatch.setenv("SKIPJACK_DB_PASSWORD_FILE", str(secret))
        for _ in range(2):
            url = database_url("postgresql://somebody@host/name", Settings(tmp_path))
            assert url.password == PASSWORD
        assert caplog.text.count(f"other users can read the database password in {secret}") == (
            warnings
        )
    assert f"chmod 600 {secret}" in caplog.text and PASSWORD not in caplog.text


def test_postgresql_looks_into_its_own_file(
    postgresql: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql.fresh()
    secret = tmp_path / "pgpass"
    secret.write_text(f"127.0.0.1:*:*:{USER}:{PASSWORD}\n")
    secret.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(secret))
    open_store(postgresql.url(postgresql.newest, password=None)).close()


def test_mariadb_looks_into_its_own_file(mariadb: MariaDB, tmp_path: Path) -> None:
    mariadb.fresh()
    secret = tmp_path / "my.cnf"
    secret.write_text(f"[client]\npassword={PASSWORD}\n")
    url = mariadb.url(mariadb.newest, password=None)
    open_store(f"{url}?read_default_file={secret}").close()


def test_a_wrong_password_is_one_sentence_and_not_shown(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = PASSWORD[::-1]
    server.fresh()
    with pytest.raises(
        StorageError, match=rf"{USER}.*cannot be used: .*(?i:denied|fail)"
    ) as caught:
        open_store(server.url(server.newest, password=wrong))
    assert wrong not in _whole(caught.value) + caplog.text
    assert "\n" not in str(caught.value)


def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    with pytest.raises(StorageError, match=r"/nowhere cannot be used: .*nowhere") as caught:
        open_store(server.url("nowhere"))
    assert PASSWORD not in _whole(caught.value)


def test_a_database_that_is_down_is_an_error_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.fresh()
    monkeypatch.setattr(transactions._Retries, "pause", _must_not_wait)
    server.stop()
    with pytest.raises(StorageError, match=r"cannot be used: .*(?i:refused)") as caught:
        open_store(url)
    assert PASSWORD not in _whole(caught.value)


def _must_not_wait(trouble: object) -> None:
    pytest.fail("waited for a database that is down at start")


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear reader, " * 100)
    with pytest.raises(StorageError, match=r"letter\.txt.*not a database"):
        open_store(f"sqlite:///{file}")
    assert file.read_text() == "Dear reader, " * 100


def _whole(error: SkipjackError) -> str:
    """Everything that a log of this error would show."""
    chain: list[Any] = traceback.format_exception(error)
    return "".join(chain) + repr(error)
