"""The URL of the database: from SKIPJACK_DB or the user directory, without showing a password.

Each `Dialect` has its schemes of URLs. Without a URL the store is a file in the user directory, of
the first dialect that uses files. A password may be in a file that ``SKIPJACK_DB_PASSWORD_FILE``
names, or where the driver looks for it.
"""

from __future__ import annotations

import logging
import re
import stat
from functools import cache

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.store.sql.dialect import Dialect, dialect_of, dialects, require
from skipjack.reading import decoded
from skipjack.settings import DB, DB_PASSWORD_FILE, Settings, expanded

log = logging.getLogger(__name__)

VARIABLE = DB.name

_MISPLACED = re.compile(r"[^/]*:[^@]*@")
"""A user and a password before a host."""


def database_url(given: str | None, settings: Settings) -> URL:
    """The checked URL with its password; `UsageError` if its driver is not installed."""
    text = given or DB.text()
    if not text:
        file = next(dialect for dialect in dialects() if dialect.file_name)
        return URL.create(file.name, database=str(settings.user_dir / file.file_name))
    try:
        url = make_url(decoded(text))
        asked = url.drivername
    except (ArgumentError, ValueError):
        # Neither quoted nor chained: the text may contain a password.
        raise UsageError(f"{VARIABLE} is not the URL of a database; write {_known()}") from None
    dialect = next((one for one in dialects() if asked in one.schemes), None)
    if dialect is None:
        raise UsageError(f"{VARIABLE} has an unknown scheme {asked!r}; write {_known()}")
    driver = dialect.schemes[asked]
    require(dialect, driver)
    return _checked(dialect, url.set(drivername=driver))


def _known() -> str:
    *others, last = (dialect.example for dialect in dialects())
    return f"{', '.join(others)} or {last}"


def _checked(dialect: Dialect, url: URL) -> URL:
    # Paths may have such characters later.
    looks = _MISPLACED.match if dialect.file_name else _MISPLACED.search
    shown = ":" in (url.username or "") or "@" in (url.host or "")
    if shown or looks(url.database or ""):
        raise _misplaced()
    url = dialect.checked(url)
    if dialect.file_name:
        return url
    _check_options(dialect, url)
    return _with_password(url)


def _misplaced() -> UsageError:
    """With an extra slash or an unencoded character, the password would be part of what messages
    show: so the URL is refused and not quoted.
    """
    return UsageError(
        f"{VARIABLE} seems to have a password in the name of its user, host, database or file; "
        f"write {_known()}, and in a password %40 for @, %3A for : and %2F for /"
    )


def _check_options(dialect: Dialect, url: URL) -> None:
    """Check that the driver accepts the options after the question mark."""
    try:
        _, options = url.get_dialect()().create_connect_args(url)
    except (ArgumentError, ValueError, TypeError):
        raise UsageError(
            f"an option after the ? of {VARIABLE} has a value that its driver does not accept; "
            "correct it or leave it out"
        ) from None
    if wrong := dialect.unknown_option(options):
        raise UsageError(f"{VARIABLE} has {wrong}")


def displayed_url(url: URL) -> str:
    """The URL for display, without its password and its options, which may be secret."""
    return dialect_of(url).for_people(url)


def storage_error_of(url: URL, error: Exception) -> StorageError:
    """The error of the database or its driver, as one sentence without the password."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if cause is not None and (explained := dialect_of(url).explained(url, cause)):
        return explained
    parts = [str(part) for part in getattr(cause, "args", ()) if not isinstance(part, int)]
    message = " ".join(" ".join(parts).split()) or type(cause).__name__
    for secret in _secrets(url):
        message = message.replace(secret, "***")
    return StorageError(f"the database {displayed_url(url)} cannot be used: {message}")


def _secrets(url: URL) -> list[str]:
    values = [url.password, *(url.query.get(name) for name in ("password", "passwd"))]
    return [str(value) for value in values if value]


@cache
def _warn_of_other_readers(file: str) -> None:
    """Warn once, not for every store that is opened."""
    if expanded(file).stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning(
            "other users can read the database password in %s (%s); run chmod 600 %s",
            *(file, DB_PASSWORD_FILE, file),
        )


def _with_password(url: URL) -> URL:
    file = DB_PASSWORD_FILE.text()
    if not file:
        return url
    try:
        _warn_of_other_readers(file)
        password = expanded(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"cannot read the password of the database from {file} ({DB_PASSWORD_FILE}): {reason}"
        ) from None
    return url.set(password=password)
