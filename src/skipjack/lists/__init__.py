"""Problems that come with Skipjack, by the name of their list; one key a line."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """All lists, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


def path_of(name: str) -> Path:
    """The file of a list; `UsageError` if there is none of this name."""
    if name not in names():
        raise UsageError(f"no list {name!r} comes with Skipjack, only {', '.join(names())}")
    return _FOLDER / f"{name}.txt"
