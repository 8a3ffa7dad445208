"""The command inside a line of a log or a list: its base and its words, freed of all around it.

::

    miopenConvolutionForward: "./bin/MIOpenDriver conv -n 8  -c 64"   # as logged

is the base ``conv`` with the words ``-n 8 -c 64``. Lists of flags alone are commands of ``conv``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.core.problem import shown
from skipjack.errors import ProblemError

DRIVER_WORD = re.compile(r"MIOpenDriver(?=[\s\"'`]|$)")
"""The word after which a command begins."""
_COMMENT = re.compile(r"(?<![-\\])#.*")
QUOTES = "\"'`"
_FLAGS_ALONE = "conv"


@dataclass(frozen=True, slots=True)
class Command:
    """What stands after ``MIOpenDriver``."""

    base: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The command with one blank between its words."""
        return " ".join(("MIOpenDriver", self.base, *self.words))


def is_driver_line(text: str) -> bool:
    """Whether a text is meant as a command and not as a problem's key, which has no blanks."""
    words = text.split()
    return len(words) > 1 or bool(DRIVER_WORD.search(text))


def without_comment(line: str) -> str:
    """What stands before a ``#``; the driver's flag ``-#`` begins no comment."""
    return _COMMENT.sub("", line, count=1).strip()


def find_command(line: str) -> Command:
    """The command of a line, or `ProblemError` if there is none in it."""
    text = without_comment(line)
    driver = DRIVER_WORD.search(text)
    if driver:
        words = _words(_unquoted(text, driver))
        if not words or words[0].startswith("-"):
            raise ProblemError(f"{shown(text)!r} has no base after MIOpenDriver, such as conv")
        return Command(words[0], tuple(words[1:]))
    words = _words(text)
    if words and words[0].startswith("-"):
        return Command(_FLAGS_ALONE, tuple(words))
    if len(words) > 1 and words[0].isidentifier() and words[1].startswith("-"):
        return Command(words[0], tuple(words[1:]))
    raise ProblemError(
        f"{shown(text)!r} is neither a problem's key, which has no blanks, "
        "nor a command such as MIOpenDriver conv -n 1 -c 64 -H 56 -W 56"
    )


def _unquoted(text: str, driver: re.Match[str]) -> str:
    """What follows the driver's name, up to the end of the quotation that it stands in."""
    before, after = text[: driver.end()], text[driver.end() :]
    if after[:1] and after[0] in QUOTES:
        closes = before.count(after[0]) % 2 == 1  # the path alone is in quotes
        return after[1:] if closes else after
    for quote in QUOTES:
        if before.count(quote) % 2 == 1:
            after = after.split(quote)[0]
    return after


def _words(text: str) -> list[str]:
    """Words without the quotes and backslashes that a shell would take away."""
    return [word.strip(QUOTES).replace("\\", "") for word in text.split()]
