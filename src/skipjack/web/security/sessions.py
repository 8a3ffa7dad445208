"""Who is logged in. Sessions are kept in memory: they end with the server."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest
from time import monotonic

from skipjack.errors import UsageError

COOKIE = "skipjack_session"
LONGEST_S = 12 * 3600.0
LONGEST_NAME = 64
LONGEST_REASON = 200
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class WebSession:
    """Somebody who has logged in."""

    name: str
    """As it is recorded with what they do."""
    csrf: str
    """A secret that is in each form of theirs."""
    ends: float

    def has_sent(self, csrf: str) -> bool:
        """Whether a form is one of theirs."""
        return compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))


class WebSessions:
    """Sessions by the value of their cookie, of which only a digest is kept."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: OrderedDict[str, WebSession] = OrderedDict()

    def start(self, name: str) -> str:
        """Begin a session; returns the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        session = WebSession(name, secrets.token_urlsafe(32), self._clock() + LONGEST_S)
        self._open[_digest(cookie)] = session
        while len(self._open) > _MOST:
            self._open.popitem(last=False)
        return cookie

    def get(self, cookie: str) -> WebSession | None:
        """The session of a cookie, if it has not ended."""
        session = self._open.get(_digest(cookie))
        return session if session and session.ends > self._clock() else None

    def end(self, cookie: str) -> None:
        """Forget a session."""
        self._open.pop(_digest(cookie), None)


def person_name(text: str) -> str:
    """A name as it is recorded; empty if it is not one."""
    name = " ".join(text.split())
    return name if name.isprintable() and len(name) <= LONGEST_NAME else ""


def action_reason(text: str) -> str:
    """A reason as it is recorded with an action; `UsageError` if it is too long, or not text."""
    reason = " ".join(text.split())
    if not reason.isprintable() or len(reason) > LONGEST_REASON:
        raise UsageError(
            f"write the reason in one line of at most {LONGEST_REASON} printable characters"
        )
    return reason


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
