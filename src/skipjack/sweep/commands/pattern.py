"""A user's pattern over a command's output: checked before the sweep, matched within limits."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from skipjack.errors import UsageError

_LAST_BYTES = 4 << 20
"""Of the output, so much is looked at."""
_LONGEST_LINE = 10_000
_SPANNING_BYTES = 1 << 16
_SECONDS = 5.0
"""Some patterns take for ever on some texts; so long they may take."""


class PatternTooSlowError(Exception):
    """The time is over."""


def check_pattern(pattern: str, option: str = "--result") -> None:
    """Refuse what is no pattern, or does not say which part is the number."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} regex: {pattern!r} is no pattern: {error}") from None
    if not compiled.groupindex and compiled.groups != 1:
        how_many = f"{compiled.groups} groups without names" if compiled.groups else "no group"
        raise UsageError(
            f"{option} regex: {pattern!r} has {how_many}; put one around the number, "
            r"such as (\d+), or name them: (?P<qps>\d+)"
        )


def last_match(pattern: str, output: Path, seconds: float = _SECONDS) -> re.Match[str] | None:
    """The last match in what a command printed: in one line, or else over several.

    `PatternTooSlowError` if that takes too long.
    """
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    compiled = re.compile(pattern)
    with _within(seconds):
        for line in reversed(text.splitlines()):
            if found := _last(compiled, line[:_LONGEST_LINE]):
                return found
        return _last(compiled, text[-_SPANNING_BYTES:])


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer; only the main thread of a process can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise PatternTooSlowError

    before = signal.signal(signal.SIGALRM, over)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)
        signal.signal(signal.SIGALRM, before)
