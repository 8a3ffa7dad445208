"""Where the database is: from SKIPJACK_DB to an engine, without ever showing a password.

=======================================  =========================================================
URL                                      database
=======================================  =========================================================
``sqlite:///file`` (or nothing at all)   a file; ``fleet.sqlite`` in the user directory by default
``postgresql+psycopg://user@host/name``  PostgreSQL, ``pip install 'skipjack[postgresql]'``
``mysql+pymysql://user@host/name``       MariaDB or MySQL, ``pip install 'skipjack[mariadb]'``
=======================================  =========================================================

A password may stand in a file that ``SKIPJACK_DB_PASSWORD_FILE`` names, or where the driver looks
for it: ``~/.pgpass`` or ``PGPASSFILE``, and for MariaDB ``?read_default_file=~/.my.cnf``.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import sqlite3
import stat
from functools import cache
from importlib import import_module
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.reading import decoded
from skipjack.settings import Settings, expanded
from skipjack.storage.sqlite_files import damage_in_words, is_damage
from skipjack.storage.transaction import storage_error

log = logging.getLogger(__name__)

FILE_NAME = "fleet.sqlite"
VARIABLE = "SKIPJACK_DB"
PASSWORD_VARIABLE = "SKIPJACK_DB_PASSWORD_FILE"

_DRIVERS = {
    "sqlite": ("sqlite", "sqlite3", ""),
    "sqlite+pysqlite": ("sqlite", "sqlite3", ""),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
    "postgresql+psycopg": ("postgresql+psycopg", "psycopg", "postgresql"),
    "mysql": ("mysql+pymysql", "pymysql", "mariadb"),
    "mysql+pymysql": ("mysql+pymysql", "pymysql", "mariadb"),
    "mariadb": ("mysql+pymysql", "pymysql", "mariadb"),
    "mariadb+pymysql": ("mysql+pymysql", "pymysql", "mariadb"),
}
_KNOWN = "sqlite:///file, postgresql+psycopg://user@host/name or mysql+pymysql://user@host/name"


_MISPLACED = re.compile(r"[^/]*:[^@]*@")
"""A user and a password before a host."""


def database_url(given: str | None, settings: Settings) -> URL:
    """The URL to use, checked, with its password; its driver is installed."""
    text = given or os.environ.get(VARIABLE)
    if not text:
        return URL.create("sqlite", database=str(settings.user_dir / FILE_NAME))
    try:
        url = make_url(decoded(text))
        asked = url.drivername
    except (ArgumentError, ValueError):
        # Neither quoted nor chained: whatever it is may have a password in it.
        raise UsageError(f"{VARIABLE} is not the URL of a database; write {_KNOWN}") from None
    if asked not in _DRIVERS:
        raise UsageError(f"{VARIABLE} asks for a database {asked!r}; write {_KNOWN}")
    driver, module, extra = _DRIVERS[asked]
    _require(module, extra, driver)
    url = url.set(drivername=driver)
    if driver == "sqlite":
        return _file(url)
    if (
        ":" in (url.username or "")
        or "@" in (url.host or "")
        or _MISPLACED.search(url.database or "")
    ):
        raise _misplaced()
    if not url.database:
        raise UsageError(f"{VARIABLE} names no database: {for_people(url)}; add /name to it")
    _check_options(url)
    return _with_password(url)


def _misplaced() -> UsageError:
    """A slash too many, or a sign that is not encoded, makes the password a part of what messages
    show: so the URL is refused, and not quoted.
    """
    return UsageError(
        f"{VARIABLE} has a password where a user, host, database or file is named, or what looks "
        f"like one; write {_KNOWN}, and in a password %40 for @, %3A for : and %2F for /"
    )


def _check_options(url: URL) -> None:
    """What stands behind the question mark must be options that the driver takes."""
    dialect = url.get_dialect()()
    try:
        _, options = dialect.create_connect_args(url)
    except (ArgumentError, ValueError, TypeError):
        raise UsageError(
            f"an option behind the ? of {VARIABLE} has a value that its driver does not take; "
            "mend it or leave it out"
        ) from None
    if url.get_backend_name() != "mysql":
        return  # PostgreSQL's own library knows its options, and names an unknown one
    known = inspect.signature(import_module("pymysql").connections.Connection.__init__).parameters
    if odd := sorted(set(options) - set(known)):
        raise UsageError(
            f"{VARIABLE} has an option {odd[0]!r} that PyMySQL does not know; it takes those of "
            "pymysql.connect, as ssl_ca=FILE or ssl_verify_identity=true for an encrypted "
            "connection"
        )


def for_people(url: URL) -> str:
    """The URL without what may be secret: its password, and options, which may hold one."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(password=None, query={}).render_as_string()


def sentence(url: URL, error: SQLAlchemyError | sqlite3.Error | UnicodeDecodeError) -> StorageError:
    """What the database or its driver said, as one sentence without the password."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if url.get_backend_name() == "sqlite" and cause is not None and is_damage(cause):
        return CorruptFileError(
            f"the store {url.database} is damaged ({damage_in_words(cause)}); it was left as it "
            "is: put a backup in its place, or move it away and load the jobs again"
        )
    if isinstance(cause, sqlite3.Error):
        return storage_error(cause, Path(str(url.database)))
    parts = [str(part) for part in getattr(cause, "args", ()) if not isinstance(part, int)]
    said = " ".join(" ".join(parts).split()) or type(cause).__name__
    for secret in _secrets(url):
        said = said.replace(secret, "***")
    return StorageError(f"the database {for_people(url)} cannot be used: {said}")


def _secrets(url: URL) -> list[str]:
    values = [url.password, *(url.query.get(name) for name in ("password", "passwd"))]
    return [str(value) for value in values if value]


def _require(module: str, extra: str, driver: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise UsageError(
            f"{VARIABLE} asks for {driver}, whose driver cannot be loaded ({error}); "
            f"run pip install 'skipjack[{extra}]'"
        ) from None


def _file(url: URL) -> URL:
    if url.host or url.username or url.password or url.port:
        raise UsageError(
            f"{VARIABLE} names a host or a user, and SQLite is a file; write sqlite:///file, "
            "with three slashes"
        )
    if not url.database or url.database == ":memory:":
        raise UsageError(
            f"{VARIABLE} names no file: a store outlives its processes; write sqlite:///file"
        )
    if _MISPLACED.match(url.database):
        raise _misplaced()
    return url.set(database=str(expanded(url.database).absolute()), query={})


@cache
def _warn_of_other_readers(file: str) -> None:
    """Once, not for every store that is opened."""
    if expanded(file).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning(
            "others can read the password of the database in %s (%s); chmod 600 %s keeps it yours",
            *(file, PASSWORD_VARIABLE, file),
        )


def _with_password(url: URL) -> URL:
    file = os.environ.get(PASSWORD_VARIABLE)
    if not file:
        return url
    try:
        _warn_of_other_readers(file)
        password = expanded(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"cannot read the password of the database from {file} ({PASSWORD_VARIABLE}): {reason}"
        ) from None
    return url.set(password=password)
