"""Names under which operations, solvers and searchers are registered, and names that miss."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from difflib import get_close_matches

from skipjack.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_new_name(kind: str, name: object, taken: Container[str]) -> None:
    """Refuse what could not be written on a command line, and what is there already."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for {_a(kind)}: use lower-case letters, digits and underscores"
        )
    if name in taken:
        raise UsageError(f"there is {_a(kind)} {name!r} already; register yours under another name")


def closest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """What was meant, the likeliest first: names that begin so, as those who abbreviate mean it,
    then names that are spelt alike."""
    names = list(known)
    longer = [each for each in names if len(name) > 1 and each.startswith(name)]
    begun = get_close_matches(name, longer, count, cutoff=0.0)
    alike = get_close_matches(name, names, count, cutoff=0.6)
    return list(dict.fromkeys((*begun, *alike)))[:count]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean depth?``, or nothing."""
    close = closest(name, known, 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
