"""The command lines of a document, and the commands that they are for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.cli.command_book import command_book
from skipjack.cli.main import app

BOOK = command_book(app)
_SPAN = re.compile(r"(?<!`)`(skipjack [^`]+)`(?!`)")
_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^(?:[A-Z_]+=\S+ )*(skipjack .+)$", re.MULTILINE)
_BEYOND = ("|", "||", "<", ">", ">>", "&&", ";")
"""Where a command ends and the shell's part begins."""


@dataclass(frozen=True)
class Line:
    """One of them, split as a shell does; `fenced` if it stands in a block, to be copied."""

    text: str
    command: str
    rest: tuple[str, ...]
    fenced: bool

    @property
    def complaint(self) -> str:
        """What is wrong with it; nothing if its command takes it."""
        if self.command not in BOOK:
            group = any(name.startswith(f"{self.command} ") for name in BOOK)
            return "" if self.command == "" or (group and not self.rest) else "no such command"
        # A command that is only named, or asked for its help, needs nothing more.
        if self.rest in ((), ("--help",)):
            return ""
        found = BOOK[self.command].parse(self.rest)
        return found.sentence if found else ""


def lines_of(page: str) -> Iterator[Line]:
    """What a reader could type: spans in the text, then lines of fenced blocks."""
    for text in _SPAN.findall(_FENCED.sub("", page)):
        yield _split(text, fenced=False)
    for block in _FENCED.findall(page):
        for text in _LINE.findall(block.replace("\\\n", " ")):
            yield _split(text, fenced=True)


def _split(text: str, *, fenced: bool) -> Line:
    words = shlex.split(text, comments=True)[1:]
    words = words[: next((at for at, word in enumerate(words) if word in _BEYOND), len(words))]
    if words[:1] == ["--log-level"]:
        words = words[2:]
    if words in (["--help"], ["--version"]):
        return Line(text, "", tuple(words), fenced)
    count = 2 if " ".join(words[:2]) in BOOK else 1
    return Line(text, " ".join(words[:count]), tuple(words[count:]), fenced)
