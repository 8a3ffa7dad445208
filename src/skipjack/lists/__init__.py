"""Lists of problems that come with Skipjack, with one key on each line."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The names of all lists, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


def path_of(name: str) -> Path:
    """The file of a list; `UsageError` if there is no list of this name."""
    if name not in names():
        raise UsageError(f"unknown list {name!r}; Skipjack comes with {', '.join(names())}")
    return _FOLDER / f"{name}.txt"
