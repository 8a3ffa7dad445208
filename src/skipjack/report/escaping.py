"""Control characters are shown and not obeyed, as texts may come from files, databases and others.

Commands run inside `escaped_output`, so that all they print and log is escaped; the consoles of
`screen` still use colors and move the cursor. On terminals without a micro sign and the
like, `use_plain_characters` writes ASCII characters in their place.
"""

from __future__ import annotations

import codecs
import io
import locale
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_PLAIN = str.maketrans(
    {"µ": "u", "±": "+-", "°": "", "…": "...", "─": "-", "━": "=", "╸": "-", "╺": "-"}
)
_HANDLER = "skipjack.plain"
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")


def escaped(text: str) -> str:
    """The text with control characters spelled out, such as ``\\x1b``; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if _is_printable(each) else _spelled(each) for each in text)


def uncoloured(text: str) -> str:
    """A program's output without escape sequences for colors."""
    return _COLOURS.sub("", text)


def use_plain_characters(stream: TextIO | None) -> None:
    """Write ``us`` and the like to this stream, if the locale's encoding has no ``µs``."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    encoding = _encoding(stream)
    try:
        "".join(map(chr, _PLAIN)).encode(encoding)
    except UnicodeEncodeError:
        codecs.register_error(_HANDLER, _plain_replacement)
        stream.reconfigure(encoding=encoding, errors=_HANDLER)


def _encoding(stream: TextIO) -> str:
    """The stream's encoding; the locale's if Python chose UTF-8 for the C locale by itself."""
    wanted = os.environ.get("PYTHONUTF8") or os.environ.get("PYTHONIOENCODING")
    by_python = sys.flags.utf8_mode and not wanted and "utf8" not in sys._xoptions
    return locale.getencoding() if by_python else stream.encoding


def _plain_replacement(error: UnicodeError) -> tuple[str | bytes, int]:
    """The replacement for characters that an encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = error.object[error.start : error.end].translate(_PLAIN)
    if shown.isascii():
        return shown, error.end
    if codecs.lookup(error.encoding).name == "ascii":
        # File names and the like are written as they were read.
        return shown.encode("utf-8", "surrogateescape"), error.end
    return "".join(each if each.isascii() else "?" for each in shown), error.end


@contextmanager
def escaped_output() -> Iterator[None]:
    """Within this context, all writes to the standard streams are `escaped`."""
    before = sys.stdout, sys.stderr
    # A stream that was closed before the command started is None.
    sys.stdout, sys.stderr = (stream and cast(TextIO, _Escaping(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unescaped_stream(stream: TextIO) -> TextIO:
    """The stream itself, for texts that are escaped already."""
    return stream.stream if isinstance(stream, _Escaping) else stream


class _Escaping:
    """A stream that escapes what is written; all else is passed to the original stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text; returns its length."""
        if not isinstance(text, str):  # like a real text stream
            raise TypeError(f"text is written here, not {type(text).__name__}")
        self.stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write all lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _is_printable(character: str) -> bool:
    printable = character.isprintable() or character in "\n\t"
    return printable or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
