"""Control characters are shown, not obeyed: names and texts come from files, databases and others.

Commands run inside `escaping`, so that everything they print and log passes here; `screen` has the
consoles, which colour and move by themselves. `spell_plainly` is for terminals that have no micro
sign: what they cannot show is written in plain letters.
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
    """The text with control characters spelled out, as ``\\x1b``; ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else _spelled(each) for each in text)


def uncoloured(text: str) -> str:
    """The output of a program without the colours that it had on a terminal."""
    return _COLOURS.sub("", text)


def spell_plainly(stream: TextIO | None) -> None:
    """Write ``us`` to this stream, and the like, where the locale's encoding has no ``µs``."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    encoding = _encoding(stream)
    try:
        "".join(map(chr, _PLAIN)).encode(encoding)
    except UnicodeEncodeError:
        codecs.register_error(_HANDLER, _in_plain_letters)
        stream.reconfigure(encoding=encoding, errors=_HANDLER)


def _encoding(stream: TextIO) -> str:
    """The stream's; the locale's where Python alone decided that the C locale is to have UTF-8."""
    wanted = os.environ.get("PYTHONUTF8") or os.environ.get("PYTHONIOENCODING")
    by_python = sys.flags.utf8_mode and not wanted and "utf8" not in sys._xoptions
    return locale.getencoding() if by_python else stream.encoding


def _in_plain_letters(error: UnicodeError) -> tuple[str | bytes, int]:
    """What to write for letters that an encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = error.object[error.start : error.end].translate(_PLAIN)
    if shown.isascii():
        return shown, error.end
    if codecs.lookup(error.encoding).name == "ascii":
        # Names of files and the like go out as they came in.
        return shown.encode("utf-8", "surrogateescape"), error.end
    return "".join(each if each.isascii() else "?" for each in shown), error.end


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
