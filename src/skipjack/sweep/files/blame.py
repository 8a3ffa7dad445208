"""Which line of a user's file is to blame: one sentence instead of a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skipjack.errors import ForeignError, SkipjackError


def line_of(error: BaseException, path: Path) -> int | None:
    """The innermost line of `path` through which an exception went, or the one it came from."""
    inner = line_of(error.__cause__, path) if error.__cause__ else None
    frames = traceback.extract_tb(error.__traceback__)
    lines = (frame.lineno for frame in reversed(frames) if frame.filename == str(path))
    return inner or next(lines, None)


def place(path: Path, line: int | None) -> str:
    """``tune.py:12``, or the file alone."""
    return f"{path}:{line}" if line else str(path)


@contextmanager
def blaming_file(path: Path, what: str, line: int | None = None) -> Iterator[None]:
    """Turn what a user's code raises into a sentence with file and line.

    `line` is for exceptions that did not go through the file itself. A deliberate error of ours
    keeps its kind and its words, and gets the place in front.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        where = place(path, line_of(error, path) or line)
        text = " ".join(str(error).split())
        if not isinstance(error, SkipjackError):
            said = f"{type(error).__name__}: {text}" if text else type(error).__name__
            raise ForeignError(f"{where}: {what} raised {said}") from error
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{where}: {error}") from error
