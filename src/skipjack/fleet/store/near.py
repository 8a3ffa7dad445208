"""Complaints about names that nobody has heard of, with those that were perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from skipjack.errors import UsageError

_MOST_SHOWN = 5


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """The error to raise for a label, tag, device or machine that is not there.

    `otherwise` says what to do where nothing of that kind is known at all.
    """
    names = sorted(known)
    if not names:
        return UsageError(f"unknown {kind} {name!r}: there is none yet; {otherwise}")
    return UsageError(f"unknown {kind} {name!r}: {hint(name, names)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Which of the known names was perhaps meant, or some of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, 3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"known are {', '.join(names[:_MOST_SHOWN])}{more}"
