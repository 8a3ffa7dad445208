"""Control characters are shown, not obeyed: names and texts come from files, databases and others.

Commands run inside `escaping`, so that everything they print and log passes here; `screen` has the
consoles, which colour and move by themselves.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")


def escaped(text: str) -> str:
    """The text with control characters spelled out, as ``\\x1b``; ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else _spelled(each) for each in text)


def uncoloured(text: str) -> str:
    """The output of a program without the colours that it had on a terminal."""
    return _COLOURS.sub("", text)


@contextmanager
def escaping() -> Iterator[None]:
    """All that is written to the standard streams meanwhile is `escaped`."""
    before = sys.stdout, sys.stderr
    # A stream that was closed before the command began is None.
    sys.stdout, sys.stderr = (stream and cast(TextIO, _Escaping(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plain(stream: TextIO) -> TextIO:
    """The stream itself, for who has escaped the texts already."""
    return stream.stream if isinstance(stream, _Escaping) else stream


class _Escaping:
    """Escapes what is written; in all else it is the stream that it stands for."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text; how much of it was."""
        if not isinstance(text, str):  # as a true text stream refuses it
            raise TypeError(f"text is written here, not {type(text).__name__}")
        self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _is_harmless(character: str) -> bool:
    printable = character.isprintable() or character in "\n\t"
    return printable or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
