"""Tokens, sessions, checks of requests, and headers of answers."""

from skipjack.web.security.attempts import WrongTokens
from skipjack.web.security.guard import Guard, address_of, is_token, too_many
from skipjack.web.security.headers import HEADERS, NO_STORE
from skipjack.web.security.sessions import (
    COOKIE,
    LONGEST_NAME,
    LONGEST_REASON,
    LONGEST_S,
    WebSession,
    WebSessions,
    action_reason,
    person_name,
)

__all__ = [
    "COOKIE",
    "HEADERS",
    "LONGEST_NAME",
    "LONGEST_REASON",
    "LONGEST_S",
    "NO_STORE",
    "Guard",
    "WebSession",
    "WebSessions",
    "WrongTokens",
    "action_reason",
    "address_of",
    "is_token",
    "person_name",
    "too_many",
]
