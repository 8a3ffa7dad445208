"""Plans are shared, kept and printed: what is secret has no place in them."""

from __future__ import annotations

import re

from skipjack.plans.commands import spelled

_WORDS = ("password", "passwd", "pwd", "passphrase", "token", "secret", "credentials", "api-key")
_IN_URL = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
_IN_COMMAND = re.compile(r"\blogin\b.*\s(?:-p|--password)(?:[ =]|$)")


def names_a_secret(key: str) -> bool:
    """Whether a key asks for something secret, rather than for a file that holds it."""
    name = spelled(key.lower())
    return any(name == word or name.endswith(f"-{word}") for word in _WORDS)


def holds_a_secret(text: str) -> bool:
    """Whether a value looks as if a password stood in it."""
    return bool(_IN_URL.search(text) or _IN_COMMAND.search(text))
